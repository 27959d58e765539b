import { Observable } from 'rxjs'
import type { HandlerKind } from '../handle/handler.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Consumers } from '../process/consumers.ts'
import type { Delivery } from './delivery.ts'
import { DeliveryLoop } from './delivery-loop.ts'
import { Feed } from './feed.ts'

/**
 * A queue as an Observable of deliveries, which the subscriber settles, and as an AsyncIterable of the same. Cold:
 * every subscriber has a demand of its own. In transactional mode messages of one batch come one after another, each when
 * the one before is settled; batches run side by side. In leased mode messages come as they are claimed.
 *
 * It waits for a database that is down. It errors if waiting does not help, as with a missing schema or a refused login,
 * and with STOPPED if the Sluice was stopped before the subscription. It completes when the Sluice stops, not before.
 *
 * Unsubscribing claims no more and gives back what has not been emitted; deliveries that have been emitted may still be
 * settled, until their time is up. Leaving a `for await` loop, or calling `return()` of its iterator, gives back at once
 * all that is not settled.
 */
export class Deliveries<Payload, In extends HandlerKind = 'transactional'>
  extends Observable<Delivery<Payload, In>>
  implements AsyncIterable<Delivery<Payload, In>>
{
  readonly #plan: PipelinePlan
  readonly #consumers: Consumers

  constructor(plan: PipelinePlan, consumers: Consumers) {
    super((subscriber) => {
      const feed = new Feed<Payload, In>(plan, consumers, subscriber)
      return () => void feed.drain()
    })
    this.#plan = plan
    this.#consumers = consumers
  }

  [Symbol.asyncIterator](): AsyncGenerator<Delivery<Payload, In>, void, undefined> {
    return new DeliveryLoop((sink) => new Feed<Payload, In>(this.#plan, this.#consumers, sink))
  }
}
