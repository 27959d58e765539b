import type { Handler, HandlerContext } from '../../src/handle/handler.ts'
import type { Message, Outcome } from '../../src/message.ts'
import { waitFor } from './wait.ts'

/** One call of a handler, which the test lets end. */
export interface Step<Payload> {
  readonly message: Message<Payload>
  readonly payload: Payload
  readonly context: HandlerContext
  /** The database's clock when the handler was called. */
  readonly at: Date
  /** The server process of the batch: one per batch in flight, so it tells the pipeline's runners apart. */
  readonly worker: number
  /** Lets the handler return. */
  end(result?: unknown): void
  /** Lets the handler throw, or do whatever it likes. */
  endBy(how: () => unknown): void
}

/** A handler each call of which waits until the test says how it ends. */
export class Steps<Payload = unknown> {
  /** All calls so far. */
  readonly taken: Step<Payload>[] = []
  #next = 0

  readonly handle: Handler<Payload> = async (message, context) => {
    const how = Promise.withResolvers<() => unknown>()
    const { rows } = await context.tx.query<{ at: Date; worker: number }>(
      'SELECT clock_timestamp() AS at, pg_backend_pid() AS worker',
    )
    this.taken.push({
      message,
      payload: message.payload,
      context,
      ...rows[0]!,
      end: (result) => how.resolve(() => result),
      endBy: how.resolve,
    })
    return (await (
      await how.promise
    )()) as Outcome | void
  }

  /** The payloads of all calls so far, in order. */
  get payloads(): readonly Payload[] {
    return this.taken.map((step) => step.payload)
  }

  /** The next call, waiting for it if need be. */
  async next(): Promise<Step<Payload>> {
    const at = this.#next++
    return waitFor(() => this.taken[at], { what: `call ${at + 1} of the handler` })
  }

  /** The next call, which may return at once. */
  async endNext(result?: unknown): Promise<Step<Payload>> {
    const step = await this.next()
    step.end(result)
    return step
  }
}

/** Throws, as an expression. */
export function raise(error: unknown = new Error('failed on purpose')): never {
  throw error
}
