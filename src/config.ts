import { hostname } from 'node:os'
import type { ClientConfig } from 'pg'
import { checkKeys } from './basics/checks/check-keys.ts'
import { connectionOf } from './basics/checks/connection-of.ts'
import { integer, integerWithin } from './basics/checks/options.ts'
import { type Duration, toMsWithin } from './basics/time/duration.ts'
import { expected, SluiceError } from './errors.ts'
import { checkQueueName, type QueueDefinitions } from './queues.ts'
import { calledPolicies, type RetryOptions, type RetryPolicies, retryPolicies, storedPolicies } from './retry-policy.ts'
import { checkStreamName, type StreamDefinitions } from './streams.ts'
import type { SluiceLog } from './telemetry/log.ts'

/** How to reach a database: a connection string, or what `pg` takes. */
export type ConnectionConfig = string | ClientConfig

/** The options of `createSluice`. */
export interface SluiceOptions<
  Definitions extends QueueDefinitions | undefined = undefined,
  Streams extends StreamDefinitions | undefined = undefined,
> {
  /** The application's database. Each batch in flight takes one connection, also through a pooler. */
  readonly connection: ConnectionConfig
  /**
   * A direct connection to the same database, for the listener and the control connection, which need sessions of their
   * own. Through a transaction pooler they can do less: only the poll wakes, and crashes are not counted.
   * @default `connection`
   */
  readonly directConnection?: ConnectionConfig | undefined
  /** The queues and their schemas. With them, other names are refused, at compile time too. @default any name */
  readonly queues?: Definitions
  /** The streams and their schemas, in the same form. With them, other names are refused. @default any name */
  readonly streams?: Streams
  /**
   * Retry policies that messages and queues can name: `enqueue(tx, queue, payload, { retryPolicy: 'gentle' })`. With them,
   * other names are refused on enqueueing. @default none; any name is taken
   */
  readonly retryPolicies?: Readonly<Record<string, RetryOptions>> | undefined
  /** This worker process's name in `sluice.workers`. @default 'host:pid' */
  readonly name?: string | undefined
  /**
   * How often to look for messages without a wake-up, 100 ms to 1 min. It is the longest delay after a lost wake-up.
   * @default '1s'
   */
  readonly pollInterval?: Duration | undefined
  /** How long to wait for a connection, 100 ms to 10 min. @default '5s' */
  readonly connectTimeout?: Duration | undefined
  /**
   * The most connections that this Sluice has at a time, without `migrate()`, 1 to 10,000. Pipelines share them: each has at least one, and at
   * most its concurrency. The first line of the log says how they are shared.
   * @default as many as the pipelines and calls need
   */
  readonly maxConnections?: number | undefined
  /** The largest payload in bytes of JSON, 1 to 268,435,456 (256 MiB). @default 1048576 */
  readonly payloadLimitBytes?: number | undefined
  /** A message becomes a dead letter when this many processes have died while they handled it, 1 to 1,000. @default 3 */
  readonly crashLimit?: number | undefined
  /**
   * How often one of all worker processes removes what is too old (expired messages, dead letters, dedupe keys,
   * history), 1 s to 24 h. `false`: not this process; then call `sluice.operate.maintain()`, or run `sluice maintain`.
   * @default '5m'
   */
  readonly maintenanceInterval?: Duration | false | undefined
  /**
   * Gets a line for each pipeline that starts, failed message, dead letter, lost batch, lost connection and vanished
   * worker: `console`, a pino or winston logger, or any object with `info`, `warn` and `error`; `false` for no lines. For
   * each kind and queue there are at most 10 lines in 10 seconds, and then one that says how many were left out.
   * @default stderr, while `events` has no subscriber
   */
  readonly log?: SluiceLog | false | undefined
}

/** The options, complete and checked. */
export interface SluiceConfig {
  readonly connection: ClientConfig
  readonly directConnection: ClientConfig
  /** `directConnection` was given, as an address that leads to the server itself. */
  readonly vouched: boolean
  readonly definitions: QueueDefinitions | undefined
  readonly streams: StreamDefinitions | undefined
  readonly retryPolicies: RetryPolicies | undefined
  /** Those that are not functions, as JSON. */
  readonly storedPolicies: string | null
  /** All, if one of them is a function. */
  readonly calledPolicies: RetryPolicies | undefined
  readonly name: string
  readonly pollIntervalMs: number
  readonly connectTimeoutMs: number
  readonly maxConnections: number | undefined
  readonly payloadLimitBytes: number
  readonly crashLimit: number
  /** Null: this process does none. */
  readonly maintenanceIntervalMs: number | null
  readonly log: SluiceLog | false | undefined
}

const DEFAULTS = { payloadLimitBytes: 1_048_576, crashLimit: 3 } as const

/** @throws SluiceError OPTION_INVALID */
export function resolveConfig(
  options: SluiceOptions<QueueDefinitions | undefined, StreamDefinitions | undefined>,
): SluiceConfig {
  checkKeys('createSluice', options, OPTIONS, 'As in createSluice({ connection: process.env.DATABASE_URL })')
  const connection = connectionOf('connection', options.connection)
  const { pollInterval = '1s', connectTimeout = '5s', maintenanceInterval = '5m' } = options
  return {
    connection,
    directConnection:
      options.directConnection === undefined ? connection : connectionOf('directConnection', options.directConnection),
    vouched: options.directConnection !== undefined,
    definitions: definitionsOf('queue', options.queues),
    streams: definitionsOf('stream', options.streams),
    retryPolicies: retryPolicies(options.retryPolicies),
    storedPolicies: storedPolicies(options.retryPolicies),
    calledPolicies: calledPolicies(options.retryPolicies),
    name: options.name === undefined ? `${hostname()}:${process.pid}` : nameOf(options.name),
    pollIntervalMs: toMsWithin('pollInterval', pollInterval, '100ms', '1m'),
    connectTimeoutMs: toMsWithin('connectTimeout', connectTimeout, '100ms', '10m'),
    maxConnections:
      options.maxConnections === undefined
        ? undefined
        : integerWithin('maxConnections', options.maxConnections, 1, 10_000),
    payloadLimitBytes: integer(
      'payloadLimitBytes',
      options.payloadLimitBytes,
      DEFAULTS.payloadLimitBytes,
      1,
      268_435_456,
    ),
    crashLimit: integer('crashLimit', options.crashLimit, DEFAULTS.crashLimit, 1, 1_000),
    maintenanceIntervalMs:
      maintenanceInterval === false ? null : toMsWithin('maintenanceInterval', maintenanceInterval, '1s', '24h'),
    log: logOf(options.log),
  }
}

const OPTIONS = [
  'connection',
  'directConnection',
  'queues',
  'streams',
  'retryPolicies',
  'name',
  'pollInterval',
  'connectTimeout',
  'maxConnections',
  'payloadLimitBytes',
  'crashLimit',
  'maintenanceInterval',
  'log',
] as const

function logOf(log: unknown): SluiceLog | false | undefined {
  if (log === undefined || log === false || isLog(log)) return log
  const wanted = 'an object with the methods info, warn and error, or false'
  throw expected('OPTION_INVALID', 'log', wanted, log, 'For example console, a pino logger, or false for no lines')
}

function isLog(log: unknown): log is SluiceLog {
  const methods = ['info', 'warn', 'error']
  return (
    typeof log === 'object' && log !== null && methods.every((name) => typeof Reflect.get(log, name) === 'function')
  )
}

function nameOf(name: unknown): string {
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0
  if (typeof name === 'string' && bytes >= 1 && bytes <= 255 && !name.includes('\0') && name.isWellFormed()) return name
  throw expected('OPTION_INVALID', 'name', '1 to 255 bytes of text without NUL characters and lone surrogates', name)
}

function definitionsOf(what: 'queue' | 'stream', given: unknown): QueueDefinitions | undefined {
  if (given === undefined) return undefined
  const option = `${what}s`
  const [check, remedy] = what === 'queue' ? [checkQueueName, QUEUES_REMEDY] : [checkStreamName, STREAMS_REMEDY]
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw expected('OPTION_INVALID', option, `an object with the names of ${option} as keys`, given, remedy)
  }
  for (const [name, definition] of Object.entries(given)) {
    check(name, undefined)
    checkDefinition(`${option}.${name}`, definition, what, remedy)
  }
  return { ...given }
}

const QUEUES_REMEDY = 'As in { emails: { schema: Email } }, or { emails: {} } for any payload'
const STREAMS_REMEDY = 'As in { orders: { schema: Order } }, or { orders: {} } for any payload'

function checkDefinition(what: string, definition: unknown, of: 'queue' | 'stream', remedy: string): void {
  if (isStandardSchema(definition)) {
    const sentence = `${what}: expected the definition of a ${of}, received a schema`
    throw new SluiceError('OPTION_INVALID', `${sentence}. Write { schema: … } around it`)
  }
  checkKeys(what, definition, ['schema'], remedy)
  const { schema }: { readonly schema?: unknown } = definition
  if (schema !== undefined && !isStandardSchema(schema)) {
    const example = 'For example z.object({ … }) of Zod 3.24 or later'
    throw expected('OPTION_INVALID', `${what}.schema`, 'a Standard Schema', schema, example)
  }
}

/** An object or, as with ArkType, a function. */
function isStandardSchema(schema: unknown): boolean {
  if ((typeof schema !== 'object' && typeof schema !== 'function') || schema === null) return false
  const standard: unknown = Reflect.get(schema, '~standard')
  return typeof standard === 'object' && standard !== null && typeof Reflect.get(standard, 'validate') === 'function'
}
