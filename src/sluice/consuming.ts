import type { Inbox } from '../inbox/inbox.ts'
import type { InboxOptions } from '../inbox/options.ts'
import type { Message } from '../message.ts'
import type { Pipeline, RunnablePipeline } from '../pipeline/pipeline.ts'
import type { DeliveriesOptionsWith } from '../plan/deliveries-options.ts'
import type { KindWith, Mode, PipelineOptionsWith } from '../plan/options.ts'
import type { Claim } from '../pull/claim.ts'
import type { ClaimOptions, PopOptions } from '../pull/options.ts'
import type { OutputOf, QueueDefinitions, QueueName } from '../queues.ts'
import type { RelayOptions } from '../relay/options.ts'
import type { Deliveries } from '../rx/deliveries.ts'
import type { StreamDefinitions, StreamGroup } from '../streams.ts'
import type { WebhooksOptions } from '../webhooks/options.ts'

/** How a Sluice consumes queues and streams: by pipelines, by deliveries, and by claims. */
export type Consuming<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
> = {
  /**
   * Creates a pipeline that handles the messages of a queue: give it a handler, then `start()`.
   *
   * - In transactional mode, the default, one transaction claims messages, has them handled and settles them.
   * - With `mode: 'leased'`, for slow work and for calls of other services, no transaction is open while a handler runs.
   * - With a `group`, `name` is that of a stream. What handlers write through `tx` commits together with the group's
   *   progress.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID
   *
   * @example
   * sluice.pipeline('emails', { concurrency: 4 }).handle(async ({ payload }) => send(payload)).start()
   * sluice.pipeline('reports', { mode: 'leased', concurrency: 200 }).handle(({ payload }) => render(payload)).start()
   * sluice.pipeline('orders', { group: 'billing' }).handle((event, { tx }) => bill(tx, event.payload)).start()
   */
  pipeline<
    Name extends QueueName<Consumed<Definitions, Streams, Group>>,
    In extends Mode | undefined = undefined,
    Group extends string | undefined = undefined,
  >(
    name: Name,
    options?: PipelineOptionsWith<In, Group>,
  ): Pipeline<OutputOf<Consumed<Definitions, Streams, Group>, Name>, Definitions, KindWith<In, Group>>

  /**
   * Returns a queue as an Observable, and an AsyncIterable, of deliveries that the subscriber settles.
   *
   * With `mode: 'leased'` no transaction is open while a delivery waits to be settled. With a `group`, `name` is that of
   * a stream, whose events it delivers.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID
   *
   * @example for await (const delivery of sluice.deliveries('reports', { demand: 1 })) delivery.ack()
   */
  deliveries<
    Name extends QueueName<Consumed<Definitions, Streams, Group>>,
    In extends Mode | undefined = undefined,
    Group extends string | undefined = undefined,
  >(
    name: Name,
    options: DeliveriesOptionsWith<In, Group>,
  ): Deliveries<OutputOf<Consumed<Definitions, Streams, Group>, Name>, KindWith<In, Group>>

  /**
   * Creates a relay: a pipeline that publishes to a broker. It removes a message of a queue when the broker has confirmed it.
   * For a group of a stream it publishes the events, which stay in the stream, and moves the group's progress behind those
   * that are confirmed. Messages, or events, with the same ordering key are published one after another.
   *
   * @param source a queue, or `{ stream, group }`
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.relay('orders', { to: nats({ servers: 'nats://localhost', subject: 'shop.orders' }) }).start()
   */
  relay(source: QueueName<Definitions> | StreamGroup<QueueName<Streams>>, options: RelayOptions): RunnablePipeline

  /**
   * Creates a pipeline that sends the webhooks of a queue to their endpoints, in leased mode: signed, tried again for three
   * days, and only to public addresses.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.webhooks('webhooks', { concurrency: 100 }).start()
   */
  webhooks(queue: QueueName<Definitions>, options?: WebhooksOptions): RunnablePipeline

  /**
   * Creates an inbox: it receives the messages of a broker and enqueues each of them once. It acks a message after the COMMIT
   * that has enqueued it, and drops copies.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.inbox('orders-in', { from: fromNats({ servers: 'nats://localhost', stream: 'shop', consumer: 'billing' }) }).start()
   */
  inbox(queue: QueueName<Definitions>, options: InboxOptions): Inbox

  /**
   * Claims messages for a time: no other claim gets them, and any process may settle them by the claim's number. For work
   * that starts somewhere else, such as a scheduled job, a serverless function or an HTTP endpoint.
   *
   * @returns undefined if there is no message, at once or after `wait`.
   * @throws SluiceError as {@link Operate}, and ROWS_MISSING; the reason of `signal`
   *
   * @example const claim = await sluice.claim('emails', { limit: 10, lease: '1m', wait: '20s' })
   */
  claim<Name extends QueueName<Definitions>>(
    queue: Name,
    options?: ClaimOptions,
  ): Promise<Claim<OutputOf<Definitions, Name>> | undefined>

  /**
   * Removes messages and returns them: what becomes of them is up to you, and a message that you lose is lost.
   *
   * @throws SluiceError as `claim`
   *
   * @example const [message] = await sluice.pop('emails')
   */
  pop<Name extends QueueName<Definitions>>(
    queue: Name,
    options?: PopOptions,
  ): Promise<readonly Message<OutputOf<Definitions, Name>>[]>
}

/** What a consumer finds its name among: with a group it reads a stream. */
type Consumed<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
  Group extends string | undefined,
> = Group extends string ? Streams : Definitions
