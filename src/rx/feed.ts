import type { Subscriber } from 'rxjs'
import type { Demand } from '../demand/demand.ts'
import { stopped } from '../errors.ts'
import type { AnyHandler } from '../handle/consumption.ts'
import { type HandlerKind, type MessageByKind, NotHandled } from '../handle/handler.ts'
import type { RunContext } from '../handle/run-context.ts'
import type { Message, Outcome } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Consumers } from '../process/consumers.ts'
import { Meter } from '../statistics/meter.ts'
import { Delivery, type DeliveryContextByKind, type DeliveryEnd } from './delivery.ts'

/** Where deliveries go. */
export type DeliverySink<Payload, In extends HandlerKind> = Pick<
  Subscriber<Delivery<Payload, In>>,
  'next' | 'error' | 'complete'
>

/** One subscriber and its demand. */
export class Feed<Payload, In extends HandlerKind> {
  readonly #sink: DeliverySink<Payload, In>
  readonly #demand: Promise<Demand | undefined>
  /** Aborts when the subscriber goes. */
  readonly #leaving = new AbortController()

  constructor(plan: PipelinePlan, consumers: Consumers, sink: DeliverySink<Payload, In>) {
    this.#sink = sink
    const handler: AnyHandler = {
      kind: 'each',
      handle: (message, context) => this.#deliver(message, context),
      late: 'delivery',
    }
    this.#demand = consumers.deliver({ plan, handler, meter: new Meter() }, this.#leaving.signal).then(
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
    const settle = (how: DeliveryEnd): boolean => {
      if (!open || context.signal.aborted) return false
      open = false
      if ('error' in how) settled.reject(how.error)
      else settled.resolve(how.outcome)
      return true
    }
    if (this.#closed) throw new NotHandled()
    // The kind of the deliveries is that of their pipeline, and the payload has been validated.
    const ofKind = context as object as DeliveryContextByKind[In]
    this.#sink.next(new Delivery<Payload, In>(message as MessageByKind<Payload>[In], ofKind, settle))
    return settled.promise
  }
}
