import type { Observable } from 'rxjs'
import { checkKeys } from './basics/check-keys.ts'
import { type Duration, toMs } from './basics/duration.ts'
import { checkNode } from './basics/node-version.ts'
import { resolveConfig, type SluiceConfig, type SluiceOptions } from './config.ts'
import type { EventToAppend } from './enqueue/append.ts'
import type { AppendOptions } from './enqueue/append-options.ts'
import type { DedupedMessage, MessageToEnqueue } from './enqueue/enqueue.ts'
import type { OpenTransaction, OwnTransaction } from './enqueue/open-transaction.ts'
import type { ReceivedOptions } from './enqueue/received.ts'
import type { WebhookEvent } from './enqueue/send-webhook.ts'
import { ownTransaction } from './enqueue/within.ts'
import { refuseToAwait } from './handle/inside.ts'
import { Inbox } from './inbox/inbox.ts'
import { type InboxOptions, resolveInbox } from './inbox/options.ts'
import type { Message } from './message.ts'
import type { DedupedOptions, EnqueueOptions } from './message-options.ts'
import { type MigrateResult, migrate } from './migrate/migrate.ts'
import type { Endpoints } from './operate/endpoints.ts'
import type { Groups } from './operate/groups.ts'
import { Operate } from './operate/operate.ts'
import { Operations } from './operate/operations.ts'
import type { Schedules } from './operate/schedules.ts'
import { Pipeline, type RunnablePipeline } from './pipeline/pipeline.ts'
import { DRAIN_TIMEOUT_MS } from './pipeline/running-pipeline.ts'
import {
  type DeliveriesOptions,
  type GroupDeliveriesOptions,
  type LeasedDeliveriesOptions,
  resolveDeliveries,
} from './plan/deliveries-options.ts'
import type { GroupPipelineOptions, LeasedPipelineOptions, PipelineOptions } from './plan/options.ts'
import { resolvePipeline } from './plan/resolve.ts'
import { Assembly } from './process/assembly.ts'
import type { Health } from './process/health.ts'
import { shareInternals } from './process/internals.ts'
import type { Claim } from './pull/claim.ts'
import type { ClaimOptions, PopOptions } from './pull/options.ts'
import { checkQueueName, type InputOf, type OutputOf, type QueueDefinitions, type QueueName } from './queues.ts'
import type { RelayOptions } from './relay/options.ts'
import { relayOf } from './relay/relay.ts'
import { Deliveries } from './rx/deliveries.ts'
import type { QueueStatistics } from './statistics/meter.ts'
import type { Metrics } from './statistics/meters.ts'
import { checkStreamName, refuseStream, type StreamDefinitions, type StreamGroup } from './streams.ts'
import type { SentWebhook } from './table/endpoint/send-webhook.ts'
import type { EnqueueResult } from './table/enqueue/insert-deduped.ts'
import type { SluiceEvent } from './telemetry/events.ts'
import type { WebhooksOptions } from './webhooks/options.ts'
import { webhooksOf } from './webhooks/webhooks.ts'

/**
 * Makes a Sluice. It connects when you consume, operate, or enqueue with `ownTransaction`. To enqueue in your own
 * transaction it needs no connection.
 *
 * @example
 * const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '', queues: { emails: { schema: Email } } })
 * await db.transaction().execute(async (tx) => {
 *   await tx.insertInto('user').values(user).execute()
 *   await sluice.enqueue(tx, 'emails', { to: user.email })
 * })
 * sluice.pipeline('emails').handle(async (message) => send(message.payload)).start()
 *
 * @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, STREAM_NAME_INVALID, NODE_TOO_OLD
 */
export function createSluice<
  const Definitions extends QueueDefinitions | undefined = undefined,
  const Streams extends StreamDefinitions | undefined = undefined,
>(options: SluiceOptions<Definitions, Streams>): Sluice<Definitions, Streams> {
  checkNode()
  return new Sluice(resolveConfig(options))
}

/**
 * What `createSluice` returns. One per process and database is enough. Without type parameters it is the type of any
 * queues and streams.
 */
export class Sluice<
  Definitions extends QueueDefinitions | undefined = QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined = StreamDefinitions | undefined,
> implements AsyncDisposable
{
  /** Give this instead of a transaction to enqueue in one of Sluice's own, committed when `enqueue` returns. */
  readonly ownTransaction: OwnTransaction = ownTransaction
  /** Everything that happens in this process. While it has a subscriber, failures are not written to stderr as well. */
  readonly events: Observable<SluiceEvent>
  /** Look at queues, messages, streams and workers, and act on them. It needs no worker. */
  readonly operate: Operate<Definitions, Streams>
  readonly #config: SluiceConfig
  readonly #assembly: Assembly

  constructor(config: SluiceConfig) {
    const assembly = new Assembly(config)
    const { claims, enqueues, parts, calls, telemetry } = assembly
    this.#config = config
    this.#assembly = assembly
    this.events = telemetry.events
    const operations = new Operations(enqueues.context, {
      host: parts.inOwnTransaction,
      direct: { connection: parts.owned(config.directConnection), vouched: config.vouched },
      calls,
    })
    this.operate = new Operate(enqueues.context, operations, claims.store)
    shareInternals(this, assembly.internals)
  }

  /**
   * Enqueues one message with a dedupe key: while the key is taken, by a message or for a time
   * after it, no second message is added. Returns the outcome. It waits for the transaction of another producer with the
   * same key, and for no handler.
   *
   * @throws SluiceError as without a key. In REPEATABLE READ and SERIALIZABLE the server's error 40001 if another
   * transaction has had the key meanwhile: run the transaction again.
   *
   * @example
   * const { id, outcome } = await sluice.enqueue(tx, 'reports', { month }, { dedupe: { key: `report ${month}` } })
   */
  enqueue<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    payload: InputOf<Definitions, Name>,
    options: DedupedOptions,
  ): Promise<EnqueueResult>
  /**
   * Enqueues one message in the caller's open transaction, and returns its id. `tx` is a `pg` client, a Kysely,
   * Knex, Drizzle, TypeORM or Prisma transaction, a postgres.js transaction, or a handler's `tx`.
   *
   * @param tx the open transaction, or `sluice.ownTransaction`.
   * @param payload any value that JSON can hold; if the queue has a schema, one that it accepts.
   *
   * @throws SluiceError NOT_IN_TRANSACTION, EXECUTOR_UNKNOWN, QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID,
   * PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA: nothing is written then, and the transaction is as it was;
   * SCHEMA_MISSING, SCHEMA_TOO_OLD, PRIVILEGE_MISSING; in `ownTransaction` UNREACHABLE and COMMIT_FAILED. Another error
   * of the server comes as your client throws it.
   *
   * @example
   * await client.query('BEGIN')
   * const id = await sluice.enqueue(client, 'emails', { to: 'ada@example.com' }, { delay: '5m' })
   * await client.query('COMMIT')
   */
  enqueue<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    payload: InputOf<Definitions, Name>,
    options?: EnqueueOptions,
  ): Promise<string>
  /** With or without a dedupe key, where only the call knows. */
  enqueue<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    payload: InputOf<Definitions, Name>,
    options?: EnqueueOptions | DedupedOptions,
  ): Promise<string | EnqueueResult>
  enqueue<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    payload: InputOf<Definitions, Name>,
    options?: EnqueueOptions | DedupedOptions,
  ): Promise<string | EnqueueResult> {
    return this.#assembly.enqueues.one(tx, queue, payload, options)
  }

  /**
   * Enqueues messages with dedupe keys, in their order and in one statement, and returns what became of each. Two of one
   * key come one after the other.
   *
   * @throws SluiceError as `enqueue`; OPTION_INVALID if some have a dedupe key and some have none
   */
  enqueueMany<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    messages: readonly DedupedMessage<InputOf<Definitions, Name>>[],
  ): Promise<EnqueueResult[]>
  /**
   * Enqueues messages into one queue, in their order, and returns their ids in that order. Thousands take one
   * statement; more than 32 MiB of JSON take several, in the same transaction.
   *
   * @throws SluiceError as `enqueue`, naming the message: "messages[3].priority: …"
   *
   * @example await sluice.enqueueMany(tx, 'emails', [{ payload: ada }, { payload: grace, priority: 0 }])
   */
  enqueueMany<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    messages: readonly MessageToEnqueue<InputOf<Definitions, Name>>[],
  ): Promise<string[]>
  enqueueMany<Name extends QueueName<Definitions>>(
    tx: OpenTransaction,
    queue: Name,
    messages: readonly (MessageToEnqueue | DedupedMessage)[],
  ): Promise<(string | EnqueueResult)[]> {
    return this.#assembly.enqueues.many(tx, queue, messages)
  }

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
  ): Promise<readonly SentWebhook[]> {
    return this.#assembly.enqueues.webhook(tx, queue, event)
  }

  /** Streams: set, list, read and trim them. */
  get streams(): Operate<Definitions, Streams>['streams'] {
    return this.operate.streams
  }

  /** Groups of streams: set, list, seek, pause, resume, retry and delete them. */
  get groups(): Groups<Streams> {
    return this.operate.groups
  }

  /** Who gets the webhooks of a queue: set, list, disable, test and delete endpoints. */
  get endpoints(): Endpoints<Definitions> {
    return this.operate.endpoints
  }

  /** Messages that are enqueued at given times: set, list, pause, resume, run and delete schedules. */
  get schedules(): Schedules<Definitions> {
    return this.operate.schedules
  }

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
  ): Promise<number> {
    return this.#assembly.enqueues.append(tx, stream, payload, options)
  }

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
  ): Promise<number[]> {
    return this.#assembly.enqueues.appendMany(tx, stream, events)
  }

  /**
   * Creates a pipeline in leased mode, for slow work and for calls of other services: no transaction is open while a
   * handler runs.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.pipeline('reports', { mode: 'leased', concurrency: 200 }).handle(({ payload }) =>
   * render(payload)).start()
   */
  pipeline<Name extends QueueName<Definitions>>(
    queue: Name,
    options: LeasedPipelineOptions,
  ): Pipeline<OutputOf<Definitions, Name>, Definitions, 'leased'>
  /**
   * Creates a pipeline that handles the events of a stream for a group. What its handlers write through `tx` commits
   * together with the group's progress.
   *
   * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.pipeline('orders', { group: 'billing' }).handle((event, { tx }) => bill(tx, event.payload)).start()
   */
  pipeline<Name extends QueueName<Streams>>(
    stream: Name,
    options: GroupPipelineOptions,
  ): Pipeline<OutputOf<Streams, Name>, Definitions, 'group'>
  /**
   * Creates a pipeline that handles the messages of a queue: give it a handler, then `start()`.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.pipeline('emails', { concurrency: 4 }).handle(async ({ payload }) => send(payload)).start()
   */
  pipeline<Name extends QueueName<Definitions>>(
    queue: Name,
    options?: PipelineOptions,
  ): Pipeline<OutputOf<Definitions, Name>, Definitions>
  pipeline(
    queue: string,
    options: PipelineOptions | GroupPipelineOptions | LeasedPipelineOptions = {},
  ): Pipeline<never, Definitions, never> {
    const plan = resolvePipeline(this.#consumedName(queue, options), options)
    return new Pipeline(plan, this.#assembly.consumers)
  }

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
  relay(source: QueueName<Definitions> | StreamGroup<QueueName<Streams>>, options: RelayOptions): RunnablePipeline {
    return relayOf(source, options, this.#config, this.#assembly.consumers)
  }

  /**
   * Creates an inbox: it receives the messages of a broker and enqueues each of them once. It acks a message after the COMMIT
   * that has enqueued it, and drops copies.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.inbox('orders-in', { from: fromNats({ servers: 'nats://localhost', stream: 'shop', consumer: 'billing' }) }).start()
   */
  inbox(queue: QueueName<Definitions>, options: InboxOptions): Inbox {
    refuseStream(queue, this.#config, 'let a pipeline append to it')
    const plan = resolveInbox(checkQueueName(queue, this.#config.definitions), options)
    return new Inbox(this.#assembly.enqueues.context, plan, this.#assembly.consumers)
  }

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
    options: ReceivedOptions = {},
  ): Promise<boolean> {
    return this.#assembly.enqueues.received(tx, queue, { source, id }, options)
  }

  /**
   * Creates a pipeline that sends the webhooks of a queue to their endpoints, in leased mode: signed, tried again for three
   * days, and only to public addresses.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.webhooks('webhooks', { concurrency: 100 }).start()
   */
  webhooks(queue: QueueName<Definitions>, options: WebhooksOptions = {}): RunnablePipeline {
    refuseStream(queue, this.#config, 'let a group that reads it call sendWebhook')
    const { consumers, parts, shared } = this.#assembly
    const runtime = { consumers, inTransaction: parts.inOwnTransaction, alphabet: shared.alphabet }
    return webhooksOf(checkQueueName(queue, this.#config.definitions), options, runtime)
  }

  /**
   * Deliveries in leased mode: no transaction is open while a delivery waits to be settled.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   */
  deliveries<Name extends QueueName<Definitions>>(
    queue: Name,
    options: LeasedDeliveriesOptions,
  ): Deliveries<OutputOf<Definitions, Name>, 'leased'>
  /**
   * Delivers the events of a stream, for a group.
   *
   * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID
   */
  deliveries<Name extends QueueName<Streams>>(
    stream: Name,
    options: GroupDeliveriesOptions,
  ): Deliveries<OutputOf<Streams, Name>, 'group'>
  /**
   * Returns a queue as an Observable, and an AsyncIterable, of deliveries that the subscriber settles.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example for await (const delivery of sluice.deliveries('reports', { demand: 1 })) delivery.ack()
   */
  deliveries<Name extends QueueName<Definitions>>(
    queue: Name,
    options: DeliveriesOptions,
  ): Deliveries<OutputOf<Definitions, Name>>
  deliveries(
    queue: string,
    options: DeliveriesOptions | GroupDeliveriesOptions | LeasedDeliveriesOptions,
  ): Deliveries<never, never> {
    const name = this.#consumedName(queue, options)
    return new Deliveries(resolveDeliveries(name, options), this.#assembly.consumers)
  }

  /**
   * Claims messages for a time: no other claim gets them, and any process may settle them by the claim's number. For work
   * that starts somewhere else, such as a scheduled job, a serverless function or an HTTP endpoint.
   *
   * @returns undefined if there is no message, at once or after `wait`.
   * @throws SluiceError as {@link Operate}, and ROWS_MISSING; the reason of `signal`
   *
   * @example const claim = await sluice.claim('emails', { limit: 10, lease: '1m', wait: '20s' })
   */
  async claim<Name extends QueueName<Definitions>>(
    queue: Name,
    options: ClaimOptions = {},
  ): Promise<Claim<OutputOf<Definitions, Name>> | undefined> {
    const name = checkQueueName(queue, this.#config.definitions)
    const claim = await this.#assembly.claims.claim(name, options)
    return claim as Claim<OutputOf<Definitions, Name>> | undefined
  }

  /**
   * Removes messages and returns them: what becomes of them is up to you, and a message that you lose is lost.
   *
   * @throws SluiceError as `claim`
   *
   * @example const [message] = await sluice.pop('emails')
   */
  async pop<Name extends QueueName<Definitions>>(
    queue: Name,
    options: PopOptions = {},
  ): Promise<readonly Message<OutputOf<Definitions, Name>>[]> {
    const name = checkQueueName(queue, this.#config.definitions)
    const messages = await this.#assembly.claims.pop(name, options)
    return messages as readonly Message<OutputOf<Definitions, Name>>[]
  }

  /**
   * Connects and checks the schema, so that errors show at once, also if the database is down. The first pipeline does
   * the same, but waits for a database that is down.
   *
   * @throws SluiceError UNREACHABLE within the connect timeout, SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW,
   * SERVER_TOO_OLD, PRIVILEGE_MISSING, STOPPED
   */
  async start(): Promise<void> {
    await this.#assembly.consumers.start()
  }

  /**
   * Installs or upgrades the SQL schema over `directConnection`, as the function `migrate` does. Reports
   * `migration.delayed`.
   */
  async migrate(): Promise<MigrateResult> {
    return migrate(this.#config.directConnection, this.#assembly.telemetry.report)
  }

  /** Whether this process consumes, and its control connection is open now. */
  get connected(): boolean {
    return this.#assembly.parts.pulse.connected
  }

  /**
   * Reports whether this process is well, for the probes of Kubernetes and others. It asks nothing of the database, so a
   * probe costs nothing. A database that is away makes it not `ready`, and it stays `live`: a restart would not help.
   *
   * @example http.get('/livez', () => new Response(null, { status: sluice.health().live ? 200 : 503 }))
   */
  health(): Health {
    return this.#assembly.health
  }

  /**
   * Reports what the consumers of this process have done, by queue: counts since the first of them began, and durations
   * of the last five to ten minutes. The view `sluice.worker_statistics` has it of all processes.
   *
   * @example const { waiting } = sluice.statistics().emails ?? {}
   */
  statistics(): Readonly<Record<string, QueueStatistics>> {
    return this.#assembly.shared.meters.read()
  }

  /**
   * Reports what this process has done since it started, as counters and distributions for a monitoring system:
   * `prometheus(sluice)` is its text for Prometheus, and `sluice/otel` has it for OpenTelemetry. It asks nothing of the
   * database.
   *
   * @example const { acked } = sluice.metrics().consumed.emails ?? { acked: 0 }
   */
  metrics(): Metrics {
    return this.#assembly.shared.meters.readMetrics()
  }

  /**
   * Drains all pipelines and `runOnce` calls, releases unsettled deliveries, lets calls that have begun
   * end, and closes all connections. It ends some seconds after the timeout at the latest: connections that the server
   * has not answered by then are cut. Called again, it waits for the same end, or, with a shorter timeout, ends the drain
   * earlier. Claims stay: they can still be settled, renewed and released.
   *
   * @param options.timeout how long to wait for the batches in flight. @default '30s'
   * @throws SluiceError OPTION_INVALID; IN_HANDLER if a handler awaits it
   */
  stop(options: { readonly timeout?: Duration | undefined } = {}): Promise<void> {
    const isInHandler = this.#assembly.consumers.isInHandler
    return isInHandler ? refuseToAwait('stop()', () => this.#stop(options)) : this.#stop(options)
  }

  async #stop(options: { readonly timeout?: Duration | undefined }): Promise<void> {
    checkKeys('stop', options, ['timeout'], "As in stop({ timeout: '30s' })")
    const timeoutMs = toMs(options.timeout ?? DRAIN_TIMEOUT_MS, 'stop.timeout')
    await this.#assembly.stop(timeoutMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** With a group it is the name of a stream. */
  #consumedName(name: string, options: object | undefined): string {
    const { definitions, streams } = this.#config
    const group = typeof options === 'object' && options !== null && 'group' in options ? options.group : undefined
    if (group !== undefined) return checkStreamName(name, streams)
    refuseStream(name, this.#config, "give the group that reads it, as in { group: 'billing' }")
    return checkQueueName(name, definitions)
  }
}
