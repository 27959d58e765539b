import type { EventToAppend } from '../enqueue/append.ts'
import type { AppendOptions } from '../enqueue/append-options.ts'
import type { MessagesWith } from '../enqueue/enqueue.ts'
import type { OpenTransaction, OwnTransaction } from '../enqueue/open-transaction.ts'
import type { ReceivedOptions } from '../enqueue/received.ts'
import type { WebhookEvent } from '../enqueue/send-webhook.ts'
import type { Dedupe, OptionsWith } from '../message-options.ts'
import type { InputOf, QueueDefinitions, QueueName } from '../queues.ts'
import type { StreamDefinitions } from '../streams.ts'
import type { SentWebhook } from '../table/endpoint/send-webhook.ts'
import type { Enqueued } from '../table/enqueue/insert-deduped.ts'

/** What a Sluice enqueues and appends, in the caller's transaction or in one of its own. */
export type Enqueueing<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
> = {
  /** Give this instead of a transaction to enqueue in one of Sluice's own, committed when `enqueue` returns. */
  readonly ownTransaction: OwnTransaction

  /**
   * Enqueues one message in the caller's open transaction, and returns its id. `tx` is a `pg` client, a Kysely,
   * Knex, Drizzle, TypeORM or Prisma transaction, a postgres.js transaction, or a handler's `tx`.
   *
   * With a dedupe key it returns what became of the message: while the key is taken, by a message or for a time after
   * it, no second message is added. It waits for the transaction of another producer with the same key, and for no handler.
   *
   * @param tx the open transaction, or `sluice.ownTransaction`.
   * @param payload any value that JSON can hold; if the queue has a schema, one that it accepts.
   *
   * @throws SluiceError NOT_IN_TRANSACTION, EXECUTOR_UNKNOWN, QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID,
   * PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA: nothing is written then, and the transaction is as it was;
   * SCHEMA_MISSING, SCHEMA_TOO_OLD, PRIVILEGE_MISSING; in `ownTransaction` UNREACHABLE and COMMIT_FAILED. Another error
   * of the server comes as your client throws it. With a dedupe key, in REPEATABLE READ and SERIALIZABLE, that is the
   * error 40001 if another transaction has had the key meanwhile: run the transaction again.
   *
   * @example
   * await client.query('BEGIN')
   * const id = await sluice.enqueue(client, 'emails', { to: 'ada@example.com' }, { delay: '5m' })
   * const { outcome } = await sluice.enqueue(client, 'reports', { month }, { dedupe: { key: `report ${month}` } })
   * await client.query('COMMIT')
   */
  enqueue<Name extends QueueName<Definitions>, Key extends Dedupe | undefined = undefined>(
    tx: OpenTransaction,
    queue: Name,
    payload: InputOf<Definitions, Name>,
    options?: OptionsWith<Key>,
  ): Promise<Enqueued<Key>>

  /**
   * Enqueues messages into one queue, in their order, and returns their ids in that order. Thousands take one
   * statement; more than 32 MiB of JSON take several, in the same transaction.
   *
   * If they have dedupe keys, it returns what became of each. Two of one key come one after the other.
   *
   * @throws SluiceError as `enqueue`, naming the message: "messages[3].priority: …"; OPTION_INVALID if some have a dedupe
   * key and some have none
   *
   * @example await sluice.enqueueMany(tx, 'emails', [{ payload: ada }, { payload: grace, priority: 0 }])
   */
  enqueueMany<Name extends QueueName<Definitions>, Key extends Dedupe | undefined = undefined>(
    tx: OpenTransaction,
    queue: Name,
    messages: MessagesWith<InputOf<Definitions, Name>, Key>,
  ): Promise<Enqueued<Key>[]>

  /**
   * Appends one event to a stream in the caller's open transaction, and returns its position: positions of a stream ascend,
   * with gaps. Every group of the stream gets the event if and only if the transaction commits.
   *
   * @param tx the open transaction, as for `enqueue`, or `sluice.ownTransaction`.
   * @throws SluiceError NOT_IN_TRANSACTION, EXECUTOR_UNKNOWN, STREAM_NAME_INVALID, STREAM_UNKNOWN if `createSluice` was
   * given streams and it is none of them, OPTION_INVALID, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA: nothing is
   * written then, and the transaction is as it was; STREAM_UNKNOWN if it does not exist, SCHEMA_MISSING,
   * SCHEMA_TOO_OLD, PRIVILEGE_MISSING; in `ownTransaction` UNREACHABLE and COMMIT_FAILED. Another error of the server
   * comes as your client throws it.
   *
   * @example
   * const position = await sluice.append(tx, 'orders', { id, step: 'paid' }, { orderingKey: id, type: 'order.paid' })
   */
  append<Name extends QueueName<Streams>>(
    tx: OpenTransaction,
    stream: Name,
    payload: InputOf<Streams, Name>,
    options?: AppendOptions,
  ): Promise<number>

  /**
   * Appends events to one stream, in their order, and returns their positions in that order. Thousands take one
   * statement; more than 32 MiB of JSON take several, in the same transaction.
   *
   * @throws SluiceError as `append`, naming the event: "events[3].type: …"
   *
   * @example await sluice.appendMany(tx, 'orders', [{ payload: ada }, { payload: grace, orderingKey: grace.id }])
   */
  appendMany<Name extends QueueName<Streams>>(
    tx: OpenTransaction,
    stream: Name,
    events: readonly EventToAppend<InputOf<Streams, Name>>[],
  ): Promise<number[]>

  /**
   * Sends an event to endpoints, in the caller's open transaction: one message for each endpoint that is enabled, has the
   * event's owner and wants its type. Returns their names and the ids of their messages.
   *
   * @param tx the open transaction, as for `enqueue`, or `sluice.ownTransaction`.
   * @throws SluiceError as `enqueue`, and ENDPOINT_UNKNOWN, after which the transaction has failed
   *
   * @example await sluice.sendWebhook(tx, 'webhooks', { type: 'order.paid', payload: { id }, owner: 'acme' })
   */
  sendWebhook<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    event: WebhookEvent<InputOf<Definitions, Name>>,
  ): Promise<readonly SentWebhook[]>

  /**
   * Writes a receipt of a message from outside of the database, in the caller's open transaction, and returns whether the
   * message is new. For endpoints that receive webhooks: call it in the transaction in which the message takes effect. A
   * copy that comes meanwhile waits for the end of that transaction.
   *
   * @param tx the open transaction, as for `enqueue`; not `sluice.ownTransaction`
   * @param queue whose receipts these are: usually the queue into which the message goes
   * @param source whose id it is, 1 to 255 bytes
   * @param id the id that the publisher has given the message, 1 to 1,000 bytes
   * @throws SluiceError NOT_IN_TRANSACTION, EXECUTOR_UNKNOWN, QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID: nothing is
   * written then, and the transaction is as it was; SCHEMA_MISSING, SCHEMA_TOO_OLD, PRIVILEGE_MISSING. In REPEATABLE
   * READ and SERIALIZABLE the server's error 40001 if another transaction has received the message meanwhile.
   *
   * @example if (await sluice.received(tx, 'stripe-in', 'stripe', event.id)) await sluice.enqueue(tx, 'stripe-in', event)
   */
  received(
    tx: Exclude<OpenTransaction, OwnTransaction>,
    queue: QueueName<Definitions>,
    source: string,
    id: string,
    options?: ReceivedOptions,
  ): Promise<boolean>
}
