import type { Observable } from 'rxjs'
import { checkKeys } from './basics/check-keys.ts'
import { type Duration, LONGEST_TIMER_MS, toMs } from './basics/duration.ts'
import { checkNode } from './basics/node-version.ts'
import { STOP_MS } from './basics/within.ts'
import { Calls } from './calls.ts'
import { resolveConfig, type SluiceConfig, type SluiceOptions } from './config.ts'
import { Consumers } from './consumers.ts'
import {
  type EnqueueContext,
  enqueueMany,
  enqueueOne,
  type MessageToEnqueue,
  ownTransaction,
} from './enqueue/enqueue.ts'
import type { OpenTransaction } from './enqueue/open-transaction.ts'
import type { EnqueueOptions } from './enqueue/options.ts'
import { stopped } from './errors.ts'
import type { EnqueueIn } from './handle/run-context.ts'
import { shareInternals } from './internals.ts'
import type { Message } from './message.ts'
import { type MigrateResult, migrate } from './migrate/migrate.ts'
import { OnDemand } from './on-demand.ts'
import { Operate } from './operate/operate.ts'
import type { OperateHost } from './operate/operations.ts'
import { DRAIN_TIMEOUT_MS, Pipeline } from './pipeline/pipeline.ts'
import { type DeliveriesOptions, type LeasedDeliveriesOptions, resolveDeliveries } from './plan/deliveries-options.ts'
import { type LeasedPipelineOptions, type PipelineOptions, resolvePipeline } from './plan/options.ts'
import type { Claim } from './pull/claim.ts'
import { ClaimStore } from './pull/claim-store.ts'
import { type ClaimOptions, type PopOptions, resolveClaim, resolvePop } from './pull/options.ts'
import { checkQueueName, type InputOf, type OutputOf, type QueueDefinitions, type QueueName } from './queues.ts'
import { Deliveries } from './rx/deliveries.ts'
import { Alphabet } from './session/alphabet.ts'
import { createTelemetry, type SluiceEvent, type Telemetry } from './telemetry/events.ts'

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
 * @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, NODE_TOO_OLD
 */
export function createSluice<const Definitions extends QueueDefinitions | undefined = undefined>(
  options: SluiceOptions<Definitions>,
): Sluice<Definitions> {
  checkNode()
  return new Sluice(resolveConfig(options))
}

/**
 * What `createSluice` returns. One per process and database is enough. Without a type parameter it stands for any
 * queues.
 */
export class Sluice<Definitions extends QueueDefinitions | undefined = QueueDefinitions | undefined>
  implements AsyncDisposable
{
  /** Give this instead of a transaction to enqueue in one of Sluice's own, committed when `enqueue` returns. */
  readonly ownTransaction: typeof ownTransaction = ownTransaction
  /** Everything that happens in this process. While somebody subscribes, failures are not written to stderr as well. */
  readonly events: Observable<SluiceEvent>
  /** Look at queues, messages and workers, and redrive or delete dead letters. Starts no worker. */
  readonly operate: Operate<Definitions>
  readonly #config: SluiceConfig
  readonly #telemetry: Telemetry
  readonly #parts: OnDemand
  readonly #enqueueContext: EnqueueContext
  readonly #consumers: Consumers
  readonly #claims: ClaimStore
  readonly #calls = new Calls()
  #stopping = false
  #ended: Promise<void> | undefined

  constructor(config: SluiceConfig) {
    this.#config = config
    this.#telemetry = createTelemetry(config.log)
    this.events = this.#telemetry.events
    const alphabet = new Alphabet()
    this.#parts = new OnDemand(config, alphabet, this.#telemetry.report)
    this.#enqueueContext = {
      definitions: config.definitions,
      payloadLimitBytes: config.payloadLimitBytes,
      alphabet,
      inOwnTransaction: this.#inOwnTransaction,
    }
    const { events } = this
    const { report } = this.#telemetry
    this.#consumers = new Consumers({ config, parts: this.#parts, enqueue: this.#enqueueIn, report, events })
    this.#claims = new ClaimStore({ definitions: config.definitions, host: this.#forClaims, alphabet, report })
    this.operate = new Operate(config.definitions, { host: this.#inOwnTransaction, calls: this.#calls }, this.#claims)
    shareInternals(this, {
      report,
      pools: () => this.#parts.pools(),
      workers: () => this.#parts.workers(),
      enqueueContext: this.#enqueueContext,
      enqueueIn: this.#enqueueIn,
    })
  }

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
  ): Promise<string> {
    return this.#during(tx, () => enqueueOne(this.#enqueueContext, tx, queue, payload, options))
  }

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
  ): Promise<string[]> {
    return this.#during(tx, () => enqueueMany(this.#enqueueContext, tx, queue, messages))
  }

  /**
   * A pipeline in leased mode, for slow work and for calls of other services: no transaction is open while a handler runs.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.pipeline('reports', { mode: 'leased', concurrency: 200 }).handle(({ payload }) => render(payload)).start()
   */
  pipeline<Name extends QueueName<Definitions>>(
    queue: Name,
    options: LeasedPipelineOptions,
  ): Pipeline<OutputOf<Definitions, Name>, Definitions, 'leased'>
  /**
   * A pipeline that handles the messages of a queue: give it a handler, then `start()`.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example sluice.pipeline('emails', { concurrency: 4 }).handle(async ({ payload }) => send(payload)).start()
   */
  pipeline<Name extends QueueName<Definitions>>(
    queue: Name,
    options?: PipelineOptions,
  ): Pipeline<OutputOf<Definitions, Name>, Definitions>
  pipeline<Name extends QueueName<Definitions>>(
    queue: Name,
    options: PipelineOptions | LeasedPipelineOptions = {},
  ): Pipeline<OutputOf<Definitions, Name>, Definitions, never> {
    const name = checkQueueName(queue, this.#config.definitions)
    return new Pipeline(name, this.#consumers.hostOf(resolvePipeline(name, options)))
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
   * A queue as an Observable, and an AsyncIterable, of deliveries that the subscriber settles.
   *
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID
   *
   * @example for await (const delivery of sluice.deliveries('reports', { demand: 1 })) delivery.ack()
   */
  deliveries<Name extends QueueName<Definitions>>(
    queue: Name,
    options: DeliveriesOptions,
  ): Deliveries<OutputOf<Definitions, Name>>
  deliveries<Name extends QueueName<Definitions>>(
    queue: Name,
    options: DeliveriesOptions | LeasedDeliveriesOptions,
  ): Deliveries<OutputOf<Definitions, Name>, never> {
    const name = checkQueueName(queue, this.#config.definitions)
    return new Deliveries(this.#consumers.deliveriesOf(resolveDeliveries(name, options)))
  }

  /**
   * Claims messages for a time: nobody else gets them, and any process may settle them by the claim's number. For work
   * that starts somewhere else, such as a scheduled job, a serverless function or an HTTP endpoint.
   *
   * @returns undefined if there is no message, at once or after `wait`.
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID, SCHEMA_MISSING, SCHEMA_TOO_OLD,
   * SCHEMA_TOO_NEW, PRIVILEGE_MISSING, UNREACHABLE, COMMIT_FAILED, ROWS_MISSING, STOPPED; the reason of `signal`
   *
   * @example const claim = await sluice.claim('emails', { limit: 10, ttl: '1m', wait: '20s' })
   */
  async claim<Name extends QueueName<Definitions>>(
    queue: Name,
    options: ClaimOptions = {},
  ): Promise<Claim<OutputOf<Definitions, Name>> | undefined> {
    const name = checkQueueName(queue, this.#config.definitions)
    const { terms, waitMs, signal } = resolveClaim(options)
    this.#requireGoing(signal)
    const take = () => this.#claims.take(name, terms)
    const claim = await this.#calls.run(async () => {
      const found = await take()
      if (found !== undefined || waitMs === 0) return found
      const waiting = await this.#parts.waiting()
      this.#requireGoing(signal)
      return waiting.claim(name, take, waitMs, signal)
    })
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
    const limit = resolvePop(options)
    this.#requireGoing()
    const messages = await this.#calls.run(() => this.#claims.pop(name, limit))
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
    await this.#consumers.start()
  }

  /**
   * Installs or upgrades the SQL schema over `directConnection`, as the function `migrate` does. Reports
   * `migration.delayed`.
   */
  async migrate(): Promise<MigrateResult> {
    return migrate(this.#config.directConnection, this.#telemetry.report)
  }

  /**
   * Drains all pipelines and `runOnce` calls, gives back deliveries that nobody has settled, lets calls that have begun
   * end, and closes all connections. It ends some seconds after the timeout at the latest: connections that the server
   * has not answered by then are cut. Called again, it waits for the same end, or, with a shorter timeout, ends the drain
   * earlier. Claims in hand stay: they can still be settled, renewed and released.
   *
   * @param options.timeout how long to wait for the batches in flight. @default '30s'
   */
  async stop(options: { readonly timeout?: Duration | undefined } = {}): Promise<void> {
    checkKeys('stop', options, ['timeout'], "As in stop({ timeout: '30s' })")
    const timeoutMs = toMs(options.timeout ?? DRAIN_TIMEOUT_MS, 'stop.timeout')
    const drainMs = Math.min(timeoutMs, LONGEST_TIMER_MS - STOP_MS)
    this.#stopping = true
    const cut = Promise.withResolvers<void>()
    const limit = setTimeout(() => {
      this.#parts.cut()
      cut.resolve()
    }, drainMs + STOP_MS)
    try {
      await Promise.all([this.#consumers.stop(drainMs), this.#parts.stopWaiting()])
      // A call may wait for a schema, which nobody can cut.
      await Promise.race([this.#calls.end(), cut.promise])
      this.#ended ??= this.#end()
      await this.#ended
    } finally {
      clearTimeout(limit)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #requireGoing(signal?: AbortSignal): void {
    signal?.throwIfAborted()
    if (this.#stopping) throw stopped('sluice')
  }

  async #end(): Promise<void> {
    await this.#parts.end()
    this.#telemetry.close()
  }

  readonly #enqueueIn: EnqueueIn = (tx, queue, payload, options) =>
    enqueueOne(this.#enqueueContext, tx, queue, payload, options)

  /** An enqueue in the caller's own transaction needs no connection of ours. */
  #during<T>(tx: OpenTransaction, enqueue: () => Promise<T>): Promise<T> {
    return tx === ownTransaction ? this.#calls.run(enqueue) : enqueue()
  }

  readonly #inOwnTransaction: OperateHost = async (work, answerMs) => {
    const pools = await this.#parts.pools()
    return pools.inOwnTransaction(work, answerMs)
  }

  /** Whoever has a claim in hand goes on after the stop, because what is done but not settled is done again. */
  readonly #forClaims: OperateHost = (work, answerMs) =>
    this.#calls.over
      ? this.#parts.inTransactionApart(work, answerMs)
      : this.#calls.run(() => this.#inOwnTransaction(work, answerMs))
}
