import type { ClaimStore } from '../pull/claim-store.ts'
import type { QueueDefinitions, QueueName } from '../queues.ts'
import { type MaintenanceResult, maintain } from '../services/maintain.ts'
import type { KnownNames, StreamDefinitions, WithGroupQueues } from '../streams.ts'
import { readClockUs } from '../table/dates.ts'
import { beginPass } from '../table/maintain/tasks.ts'
import type { Finding } from '../table/operate/doctor.ts'
import { type Audit, AuditInDatabase, actorName } from './audit.ts'
import { type DoctorOptions, examine } from './doctor.ts'
import { type Endpoints, EndpointsInDatabase } from './endpoints.ts'
import { type Claims, ClaimsInDatabase } from './messages/claims.ts'
import { type DeadLetters, DeadLettersInDatabase } from './messages/dead-letters.ts'
import { type History, HistoryInDatabase } from './messages/history.ts'
import { type Messages, MessagesInDatabase } from './messages/messages.ts'
import { type DatabaseMetrics, readMetrics } from './metrics.ts'
import type { Operations } from './operations.ts'
import { readFields } from './options.ts'
import { type Queues, QueuesInDatabase } from './queues/queues.ts'
import { type ScheduleRules, type Schedules, SchedulesInDatabase } from './schedules.ts'
import { readStatus, type Status } from './status/status.ts'
import { type Groups, GroupsInDatabase } from './streams/groups.ts'
import { type Streams, StreamsInDatabase } from './streams/streams.ts'
import { type Workers, WorkersInDatabase } from './workers.ts'

/**
 * `sluice.operate`: look at queues, messages, streams and workers, and act on them. It needs no worker.
 *
 * Every operation can fail with OPTION_INVALID, QUEUE_NAME_INVALID, QUEUE_UNKNOWN, STREAM_NAME_INVALID or
 * STREAM_UNKNOWN, with SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW, SERVER_TOO_OLD or PRIVILEGE_MISSING, and with
 * UNREACHABLE or STOPPED; one that reads also with TABLE_LOCKED; one that changes something also with COMMIT_FAILED; one
 * that takes `tx` also with EXECUTOR_UNKNOWN or NOT_IN_TRANSACTION. The methods name only what they add to this list.
 */
export type Operate<
  Definitions extends QueueDefinitions | undefined = undefined,
  Defined extends StreamDefinitions | undefined = undefined,
> = {
  /** Messages that are not dead: list, get, peek, cancel, change, reschedule and run them now. */
  readonly messages: Messages<WithGroupQueues<Definitions, Defined>>
  /** Queues: list, pause, resume and clear them, and change their settings. */
  readonly queues: Queues<WithGroupQueues<Definitions, Defined>>
  /** Worker processes, and what is in flight: list them. */
  readonly workers: Workers<WithGroupQueues<Definitions, Defined>>
  /** Messages that are not tried again: list, get, redrive and delete them. */
  readonly deadLetters: DeadLetters<WithGroupQueues<Definitions, Defined>>
  /** Claims by their ids: list, get, renew, release and settle them. */
  readonly claims: Claims<WithGroupQueues<Definitions, Defined>>
  /** Messages that have succeeded, in queues that keep their history: list and get them. */
  readonly history: History<WithGroupQueues<Definitions, Defined>>
  /** Schedules: set, list, get, pause, resume, run and delete them. Also `sluice.schedules`. */
  readonly schedules: Schedules<Definitions>
  /** Streams: set, list, read and trim them. Also `sluice.streams`. */
  readonly streams: Streams<Defined>
  /** Groups of streams: set, list, seek, pause, resume, retry and delete them. Also `sluice.groups`. */
  readonly groups: Groups<Defined>
  /** Who gets the webhooks of a queue: set, list, disable, test and delete endpoints. Also `sluice.endpoints`. */
  readonly endpoints: Endpoints<Definitions>
  /** Who did what: list it, and say how long it is kept. */
  readonly audit: Audit<WithGroupQueues<Definitions, Defined>>

  /**
   * The same operations, whose actions `sluice.audit` has under this name. Without it an action has the name of the
   * database user, which all users of an application share. An option `by` of a call comes first.
   *
   * @param name 1 to 200 characters.
   * @throws SluiceError OPTION_INVALID
   *
   * @example await sluice.operate.by('ada@example.com').messages.cancel('emails', '4711')
   */
  by(name: string): Operate<Definitions, Defined>

  /**
   * Reads all that `sluice status` shows: queues, workers, settings, limits, schedules, streams and groups, and what needs
   * attention. The counts are exact: about 0.4 s for a million messages and dead letters.
   *
   * @param options.queue only this queue, and its workers; `stream:group` for a group. @default all
   * @throws SluiceError as {@link Operate}
   *
   * @example
   * const { attention } = await sluice.operate.status()
   * for (const { severity, subject, text } of attention) if (severity === 'wrong') alarm(`${subject}: ${text}`)
   */
  status(options?: { readonly queue?: QueueName<WithGroupQueues<Definitions, Defined>> | undefined }): Promise<Status>

  /** Reads the database's clock, in whole milliseconds. @throws SluiceError as {@link Operate} */
  now(): Promise<Date>

  /**
   * Looks for what is wrong with this installation, and changes nothing: sessions that have locked a table, the schema against what the migration has made,
   * settings of the server, vacuum, who keeps dead rows, notifications, workers, queues without a worker, failures that
   * are all alike, keys, limits, schedules and streams; and, from this process, clocks that are apart, and a pooler. Takes
   * some 100 ms. What the owner of the schema may not see has the severity `unknown`. An empty array: nothing was found.
   *
   * @param options.openFor how long a transaction, or all messages in flight under a limit, may last. @default '5m'
   * @returns the findings, errors first.
   * @throws SluiceError as {@link Operate}
   *
   * @example for (const { severity, finding, remedy } of await sluice.operate.doctor()) console.log(severity, finding, remedy)
   */
  doctor(options?: DoctorOptions): Promise<readonly Finding[]>

  /**
   * Reads what all queues and groups have to do, for a monitoring system: `prometheus` renders it. It counts no queue
   * further than 10,000, so it costs some milliseconds for each queue and group, however many messages there are. It is
   * about the database: one process reads it, and not each worker.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example app.get('/metrics', async (c) => c.text(prometheus(await sluice.operate.metrics())))
   */
  metrics(): Promise<DatabaseMetrics>

  /**
   * Makes one pass of maintenance now, whether or not workers do it: removes expired messages, and dead letters, dedupe keys
   * and history that are older than their queues keep them, in short transactions that block no other session. For a
   * scheduled job where no worker runs, or with `maintenanceInterval: false`. It ends after 30 s: call it again while its
   * result is not `finished`.
   *
   * @throws SluiceError as {@link Operate}, and the server's error of a task that failed; the tasks before it are done.
   *
   * @example const { expired, deadLetters } = await sluice.operate.maintain()
   */
  maintain(): Promise<MaintenanceResult>
}

/** Answers the calls of {@link Operate}. */
export class OperateInDatabase implements Operate {
  readonly messages: Messages
  readonly queues: Queues
  readonly workers: Workers
  readonly deadLetters: DeadLetters
  readonly claims: Claims
  readonly history: History
  readonly schedules: Schedules
  readonly streams: Streams
  readonly groups: Groups
  readonly endpoints: Endpoints
  readonly audit: Audit
  readonly #rules: ScheduleRules & KnownNames
  readonly #operations: Operations
  readonly #claims: ClaimStore

  constructor(rules: ScheduleRules & KnownNames, operations: Operations, claims: ClaimStore) {
    this.#rules = rules
    this.#operations = operations
    this.#claims = claims
    this.messages = new MessagesInDatabase(rules, operations)
    this.queues = new QueuesInDatabase(operations)
    this.workers = new WorkersInDatabase(operations)
    this.deadLetters = new DeadLettersInDatabase(operations)
    this.claims = new ClaimsInDatabase(operations, claims)
    this.history = new HistoryInDatabase(operations)
    this.schedules = new SchedulesInDatabase(rules, operations)
    this.streams = new StreamsInDatabase(operations)
    this.groups = new GroupsInDatabase(operations)
    this.endpoints = new EndpointsInDatabase(rules.alphabet, operations)
    this.audit = new AuditInDatabase(operations)
  }

  by(name: string): Operate {
    const actor = actorName(name, 'operate.by')
    return new OperateInDatabase(this.#rules, this.#operations.by(actor), this.#claims.by(actor))
  }

  async status(options: { readonly queue?: string | undefined } = {}): Promise<Status> {
    const readers = { queue: this.#operations.queueOrNull }
    const { queue } = readFields('operate.status', options, readers, "As in operate.status({ queue: 'emails' })")
    return this.#operations.count((execute) => readStatus(execute, queue))
  }

  async now(): Promise<Date> {
    const us = await this.#operations.read(readClockUs)
    return new Date(Math.floor(us / 1_000))
  }

  async doctor(options: DoctorOptions = {}): Promise<readonly Finding[]> {
    return examine(this.#operations, options)
  }

  async metrics(): Promise<DatabaseMetrics> {
    return readMetrics(this.#operations)
  }

  async maintain(): Promise<MaintenanceResult> {
    await this.#operations.maintain((execute) => beginPass(execute, 'operate', null))
    return maintain({
      inTransaction: (work) => this.#operations.maintain(work),
      inSession: (work) => this.#operations.inSession(work),
      onFailed: (_, error) => {
        throw error
      },
    })
  }
}
