import type { Subscriber } from 'rxjs'
import type { Demand } from '../demand/demand.ts'
import { stopped } from '../errors.ts'
import type { Work } from '../handle/batch-run-options.ts'
import { type HandlerKind, type MessageByKind, NotHandled } from '../handle/handler.ts'
import type { RunContext } from '../handle/run-context.ts'
import type { Message, Outcome } from '../message.ts'
import { Delivery, type DeliveryContextByKind, type Settled } from './delivery.ts'

/**
 * Starts the demand of a subscriber once the process is connected. It waits for a database that is down until the
 * signal aborts, and rejects if waiting does not help or if the Sluice has been stopped. If the Sluice stops while it
 * waits, it resolves with nothing.
 */
export type StartDemand = (work: Work, signal: AbortSignal) => Promise<Demand | undefined>

/** Where deliveries go. */
export type Sink<Payload, In extends HandlerKind> = Pick<
  Subscriber<Delivery<Payload, In>>,
  'next' | 'error' | 'complete'
>

/** One subscriber and its demand. */
export class Feed<Payload, In extends HandlerKind> {
  readonly #sink: Sink<Payload, In>
  readonly #demand: Promise<Demand | undefined>
  /** Aborts when the subscriber goes. */
  readonly #leaving = new AbortController()

  constructor(startDemand: StartDemand, sink: Sink<Payload, In>) {
    this.#sink = sink
    const work: Work = { kind: 'each', handle: (message, context) => this.#deliver(message, context), late: 'delivery' }
    this.#demand = startDemand(work, this.#leaving.signal).then(
      (demand) => {
        const complete = () => {
          if (!this.#closed) sink.complete()
        }
        if (demand === undefined) complete()
        else void demand.ended.then(complete)
        return demand
      },
      (error: unknown) => {
        if (!this.#closed) sink.error(error)
        return undefined
      },
    )
  }

  async drain(): Promise<void> {
    this.#leave()
    await (await this.#demand)?.drain()
  }

  async stop(): Promise<void> {
    this.#leave()
    await (await this.#demand)?.stop()
  }

  get #closed(): boolean {
    return this.#leaving.signal.aborted
  }

  #leave(): void {
    this.#leaving.abort(stopped('subscriber'))
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
    // The kind of the deliveries is that of their pipeline, and the payload has been validated.
    const ofKind = context as DeliveryContextByKind[In]
    this.#sink.next(new Delivery<Payload, In>(message as MessageByKind<Payload>[In], ofKind, settle))
    return settled.promise
  }
}
