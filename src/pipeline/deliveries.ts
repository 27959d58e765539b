import { Observable, type Subscriber } from 'rxjs'
import { isSluiceError } from '../errors.ts'
import type { Message, Outcome } from '../message.ts'
import type { Work } from './batch-run.ts'
import { Delivery, type Settled } from './delivery.ts'
import { NotHandled } from './handler.ts'
import type { Producer } from './producer.ts'
import type { RunContext } from './run-context.ts'

/** Makes a producer for a subscriber, once the process is connected; rejects if it cannot be. */
export type StartProducer = (work: Work) => Promise<Producer>

/**
 * A queue as an Observable of deliveries, which the subscriber settles, and as an AsyncIterable of the same. Cold:
 * every subscriber has a producer and a demand of its own. Messages of one batch come one after another, each when
 * the one before is settled; batches run side by side.
 *
 * An error means that the pipeline cannot go on. It completes when the Sluice stops, not before. Unsubscribing stops claiming and gives
 * back what has not been emitted; deliveries already in hand may still be settled, until their time is up. Leaving a
 * `for await` loop gives back all that is not settled at once.
 */
export class Deliveries<Payload> extends Observable<Delivery<Payload>> implements AsyncIterable<Delivery<Payload>> {
  readonly #startProducer: StartProducer

  constructor(startProducer: StartProducer) {
    super((subscriber) => {
      const feed = new Feed<Payload>(startProducer, subscriber)
      return () => void feed.drain()
    })
    this.#startProducer = startProducer
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Delivery<Payload>, void, undefined> {
    const arrived: Delivery<Payload>[] = []
    let end: { readonly error?: unknown } | undefined
    let changed = Promise.withResolvers<void>()
    const feed = new Feed<Payload>(this.#startProducer, {
      next: (delivery) => {
        arrived.push(delivery)
        changed.resolve()
      },
      error: (error: unknown) => {
        end = { error }
        changed.resolve()
      },
      complete: () => {
        end = {}
        changed.resolve()
      },
    })
    try {
      for (;;) {
        const next = arrived.shift()
        if (next !== undefined) {
          if (!next.signal.aborted) yield next
          continue
        }
        if (end !== undefined && 'error' in end) throw end.error
        if (end !== undefined) return
        await changed.promise
        changed = Promise.withResolvers<void>()
      }
    } finally {
      await feed.stop()
    }
  }
}

type Sink<Payload> = Pick<Subscriber<Delivery<Payload>>, 'next' | 'error' | 'complete'>

/** One subscriber's producer. */
class Feed<Payload> {
  readonly #sink: Sink<Payload>
  readonly #producer: Promise<Producer | undefined>
  #closed = false

  constructor(startProducer: StartProducer, sink: Sink<Payload>) {
    this.#sink = sink
    this.#producer = startProducer({
      kind: 'each',
      handle: (message, context) => this.#deliver(message, context),
    }).then(
      (producer) => {
        void producer.ended.then(() => {
          if (!this.#closed) sink.complete()
        })
        return producer
      },
      (error: unknown) => {
        if (this.#closed) return undefined
        if (isSluiceError(error, 'STOPPED')) sink.complete()
        else sink.error(error)
        return undefined
      },
    )
  }

  async drain(): Promise<void> {
    this.#closed = true
    await (await this.#producer)?.drain()
  }

  async stop(): Promise<void> {
    this.#closed = true
    await (await this.#producer)?.stop()
  }

  /** Resolves with the outcome when the subscriber settles. After unsubscription nothing is emitted any more. */
  async #deliver(message: Message, context: RunContext): Promise<Outcome> {
    const settled = Promise.withResolvers<Outcome>()
    let open = true
    const settle = (how: Settled): boolean => {
      if (!open || context.signal.aborted) return false
      open = false
      if ('error' in how) settled.reject(how.error)
      else settled.resolve(how.outcome)
      return true
    }
    if (this.#closed) throw new NotHandled()
    this.#sink.next(new Delivery(message as Message<Payload>, context, settle))
    return settled.promise
  }
}
