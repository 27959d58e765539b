import type { Observable } from 'rxjs'
import { checkKeys } from './basics/checks/check-keys.ts'
import { checkNode } from './basics/checks/node-version.ts'
import { type Duration, toMs } from './basics/time/duration.ts'
import { resolveConfig, type SluiceConfig, type SluiceOptions } from './config.ts'
import type { EventToAppend } from './enqueue/append.ts'
import type { AppendOptions } from './enqueue/append-options.ts'
import type { DedupedMessage, MessageToEnqueue } from './enqueue/enqueue.ts'
import type { ReceivedOptions } from './enqueue/received.ts'
import type { WebhookEvent } from './enqueue/send-webhook.ts'
import { ownTransaction } from './enqueue/within.ts'
import { waitForHandlers } from './handle/inside.ts'
import { Inbox } from './inbox/inbox.ts'
import { type InboxOptions, resolveInbox } from './inbox/options.ts'
import type { DedupedOptions, EnqueueOptions } from './message-options.ts'
import { type MigrateResult, migrate } from './migrate/migrate.ts'
import { OperateInDatabase } from './operate/operate.ts'
import { Operations } from './operate/operations.ts'
import { PipelineOfPlan } from './pipeline/pipeline.ts'
import { DRAIN_TIMEOUT_MS } from './pipeline/running-pipeline.ts'
import { type AnyDeliveriesOptions, resolveDeliveries } from './plan/deliveries-options.ts'
import type { AnyPipelineOptions } from './plan/options.ts'
import { resolvePipeline } from './plan/resolve.ts'
import { Assembly } from './process/assembly.ts'
import type { Health } from './process/health.ts'
import { shareInternals } from './process/internals.ts'
import type { ClaimOptions, PopOptions } from './pull/options.ts'
import { checkQueueName, type QueueDefinitions } from './queues.ts'
import type { RelayOptions } from './relay/options.ts'
import { relayOf } from './relay/relay.ts'
import { Deliveries } from './rx/deliveries.ts'
import type { Consuming } from './sluice/consuming.ts'
import type { Enqueueing } from './sluice/enqueueing.ts'
import type { Operating } from './sluice/operating.ts'
import type { QueueStatistics } from './statistics/meter.ts'
import type { Metrics } from './statistics/meters.ts'
import { checkConsumedName, refuseStream, type StreamDefinitions, type StreamGroup } from './streams.ts'
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
  // The types of payloads follow from the definitions, which every call enforces.
  return new SluiceInProcess(resolveConfig(options)) as object as Sluice<Definitions, Streams>
}

/**
 * What `createSluice` returns. One per process and database is enough. Without type parameters it is the type of any
 * queues and streams.
 */
export interface Sluice<
  Definitions extends QueueDefinitions | undefined = QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined = StreamDefinitions | undefined,
> extends Enqueueing<Definitions, Streams>,
    Consuming<Definitions, Streams>,
    Operating<Definitions, Streams> {}

/**
 * Every call of a Sluice, and which part of it answers. What the calls take and return is in the types that
 * {@link Sluice} extends. They are type aliases, not interfaces: editors print a method of an interface with that interface's
 * type arguments, here every queue and stream.
 */
class SluiceInProcess implements Record<keyof Sluice, unknown> {
  /** What errors and consoles call it. */
  static readonly name = 'Sluice'
  readonly ownTransaction = ownTransaction
  readonly events: Observable<SluiceEvent>
  readonly operate: OperateInDatabase
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
      withRoom: parts.withRoom,
      calls,
    })
    this.operate = new OperateInDatabase(enqueues.context, operations, claims.store)
    shareInternals(this, assembly.internals)
  }

  enqueue(tx: unknown, queue: string, payload: unknown, options?: EnqueueOptions | DedupedOptions) {
    return this.#assembly.enqueues.one(tx, queue, payload, options)
  }

  enqueueMany(tx: unknown, queue: string, messages: readonly (MessageToEnqueue | DedupedMessage)[]) {
    return this.#assembly.enqueues.many(tx, queue, messages)
  }

  append(tx: unknown, stream: string, payload: unknown, options?: AppendOptions) {
    return this.#assembly.enqueues.append(tx, stream, payload, options)
  }

  appendMany(tx: unknown, stream: string, events: readonly EventToAppend[]) {
    return this.#assembly.enqueues.appendMany(tx, stream, events)
  }

  sendWebhook(tx: unknown, queue: string, event: WebhookEvent) {
    return this.#assembly.enqueues.webhook(tx, queue, event)
  }

  received(tx: unknown, queue: string, source: string, id: string, options: ReceivedOptions = {}) {
    return this.#assembly.enqueues.received(tx, queue, { source, id }, options)
  }

  pipeline(name: string, options: AnyPipelineOptions = {}) {
    const plan = resolvePipeline(checkConsumedName(name, options, this.#config), options)
    return new PipelineOfPlan(plan, this.#assembly.consumers)
  }

  deliveries(name: string, options: AnyDeliveriesOptions) {
    const plan = resolveDeliveries(checkConsumedName(name, options, this.#config), options)
    return new Deliveries(plan, this.#assembly.consumers)
  }

  relay(source: string | StreamGroup, options: RelayOptions) {
    return relayOf(source, options, this.#config, this.#assembly.consumers)
  }

  webhooks(queue: string, options: WebhooksOptions = {}) {
    refuseStream(queue, this.#config, 'let a group that reads it call sendWebhook')
    const { consumers, parts, shared } = this.#assembly
    const runtime = { consumers, inTransaction: parts.inOwnTransaction, alphabet: shared.alphabet }
    return webhooksOf(checkQueueName(queue, this.#config.definitions), options, runtime)
  }

  inbox(queue: string, options: InboxOptions) {
    refuseStream(queue, this.#config, 'let a pipeline append to it')
    const plan = resolveInbox(checkQueueName(queue, this.#config.definitions), options)
    return new Inbox(this.#assembly.enqueues.context, plan, this.#assembly.consumers)
  }

  async claim(queue: string, options: ClaimOptions = {}) {
    return this.#assembly.claims.claim(checkQueueName(queue, this.#config.definitions), options)
  }

  async pop(queue: string, options: PopOptions = {}) {
    return this.#assembly.claims.pop(checkQueueName(queue, this.#config.definitions), options)
  }

  get streams() {
    return this.operate.streams
  }

  get groups() {
    return this.operate.groups
  }

  get endpoints() {
    return this.operate.endpoints
  }

  get schedules() {
    return this.operate.schedules
  }

  async start(): Promise<void> {
    await this.#assembly.consumers.start()
  }

  async migrate(): Promise<MigrateResult> {
    return migrate(this.#config.directConnection, this.#assembly.telemetry.report)
  }

  get connected(): boolean {
    return this.#assembly.parts.pulse.connected
  }

  health(): Health {
    return this.#assembly.health
  }

  statistics(): Readonly<Record<string, QueueStatistics>> {
    return this.#assembly.shared.meters.read()
  }

  metrics(): Metrics {
    return this.#assembly.shared.meters.readMetrics()
  }

  stop(options: { readonly timeout?: Duration | undefined } = {}): Promise<void> {
    return waitForHandlers('stop()', this.#assembly.consumers.isInHandler, () => this.#stop(options))
  }

  async #stop(options: { readonly timeout?: Duration | undefined }): Promise<void> {
    checkKeys('stop', options, ['timeout'], "As in stop({ timeout: '30s' })")
    const timeoutMs = toMs(options.timeout ?? DRAIN_TIMEOUT_MS, 'stop.timeout')
    await this.#assembly.stop(timeoutMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}
