import type { Observable } from 'rxjs'
import type { Duration } from '../basics/time/duration.ts'
import type { MigrateResult } from '../migrate/migrate.ts'
import type { Endpoints } from '../operate/endpoints.ts'
import type { Operate } from '../operate/operate.ts'
import type { Schedules } from '../operate/schedules.ts'
import type { Groups } from '../operate/streams/groups.ts'
import type { Health } from '../process/health.ts'
import type { QueueDefinitions } from '../queues.ts'
import type { QueueStatistics } from '../statistics/meter.ts'
import type { Metrics } from '../statistics/meters.ts'
import type { StreamDefinitions } from '../streams.ts'
import type { SluiceEvent } from '../telemetry/events.ts'

/** How a Sluice is looked at, started and stopped, and what it changes in the database. */
export type Operating<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
> = {
  /** Everything that happens in this process. While it has a subscriber, failures are not written to stderr as well. */
  readonly events: Observable<SluiceEvent>

  /** Look at queues, messages, streams and workers, and act on them. It needs no worker. */
  readonly operate: Operate<Definitions, Streams>

  /** Streams: set, list, read and trim them. */
  readonly streams: Operate<Definitions, Streams>['streams']

  /** Groups of streams: set, list, seek, pause, resume, retry and delete them. */
  readonly groups: Groups<Streams>

  /** Who gets the webhooks of a queue: set, list, disable, test and delete endpoints. */
  readonly endpoints: Endpoints<Definitions>

  /** Messages that are enqueued at given times: set, list, pause, resume, run and delete schedules. */
  readonly schedules: Schedules<Definitions>

  /**
   * Connects and checks the schema, so that errors show at once, also if the database is down. The first pipeline does
   * the same, but waits for a database that is down.
   *
   * @throws SluiceError UNREACHABLE within the connect timeout, SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW,
   * SERVER_TOO_OLD, PRIVILEGE_MISSING, STOPPED
   */
  start(): Promise<void>

  /**
   * Installs or upgrades the SQL schema over `directConnection`, as the function `migrate` does. Reports
   * `migration.delayed`.
   */
  migrate(): Promise<MigrateResult>

  /** Whether this process consumes, and its control connection is open now. */
  readonly connected: boolean

  /**
   * Reports whether this process is well, for the probes of Kubernetes and others. It asks nothing of the database, so a
   * probe costs nothing. A database that is away makes it not `ready`, and it stays `live`: a restart would not help.
   *
   * @example http.get('/livez', () => new Response(null, { status: sluice.health().live ? 200 : 503 }))
   */
  health(): Health

  /**
   * Reports what the consumers of this process have done, by queue: counts since the first of them began, and durations
   * of the last five to ten minutes. The view `sluice.worker_statistics` has it of all processes.
   *
   * @example const { waiting } = sluice.statistics().emails ?? {}
   */
  statistics(): Readonly<Record<string, QueueStatistics>>

  /**
   * Reports what this process has done since it started, as counters and distributions for a monitoring system:
   * `prometheus(sluice)` is its text for Prometheus, and `sluice/otel` has it for OpenTelemetry. It asks nothing of the
   * database.
   *
   * @example const { acked } = sluice.metrics().consumed.emails ?? { acked: 0 }
   */
  metrics(): Metrics

  /**
   * Drains all pipelines and `runOnce` calls, releases unsettled deliveries, lets calls that have begun
   * end, and closes all connections. It ends some seconds after the timeout at the latest: connections that the server
   * has not answered by then are cut. Called again, it waits for the same end, or, with a shorter timeout, ends the drain
   * earlier. Claims stay: they can still be settled, renewed and released.
   *
   * @param options.timeout how long to wait for the batches in flight. @default '30s'
   * @throws SluiceError OPTION_INVALID; from Node 24 on IN_HANDLER if a handler awaits it (before, it waits for the timeout)
   */
  stop(options?: { readonly timeout?: Duration | undefined }): Promise<void>

  /** The same as `stop()`. */
  [Symbol.asyncDispose](): Promise<void>
}
