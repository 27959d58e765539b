import { hostname } from 'node:os'
import type { ClientConfig } from 'pg'
import { checkKeys } from './basics/check-keys.ts'
import { connectionOf } from './basics/connection-of.ts'
import { type Duration, toMsWithin } from './basics/duration.ts'
import { integer } from './basics/options.ts'
import { expected, SluiceError } from './errors.ts'
import { checkQueueName, type QueueDefinitions } from './queues.ts'
import type { SluiceLog } from './telemetry/log.ts'

/** How to reach a database: a connection string, or what `pg` takes. */
export type ConnectionConfig = string | ClientConfig

/** The options of `createSluice`. */
export interface SluiceOptions<Definitions extends QueueDefinitions | undefined = undefined> {
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
  /** This worker process's name in `sluice.workers`. @default 'host:pid' */
  readonly name?: string | undefined
  /**
   * How often to look for messages without a wake-up, 100 ms to 1 min. It is the longest delay after a lost wake-up.
   * @default '1s'
   */
  readonly pollInterval?: Duration | undefined
  /** How long to wait for a connection, 100 ms to 10 min. @default '5s' */
  readonly connectTimeout?: Duration | undefined
  /** The largest payload in bytes of JSON, 1 to 268,435,456 (256 MiB). @default 1048576 */
  readonly payloadLimitBytes?: number | undefined
  /** A message goes to the dead letters when this many processes have died with it in hand, 1 to 1,000. @default 3 */
  readonly crashLimit?: number | undefined
  /**
   * Gets a line for each failed message, dead letter, lost batch, lost connection and vanished worker: `console`, a
   * pino or winston logger, or any object with `info`, `warn` and `error`; `false` for no lines. For each kind and
   * queue there are at most 10 lines in 10 seconds, and then one that says how many were left out.
   * @default stderr, while nobody subscribes to `events`
   */
  readonly log?: SluiceLog | false | undefined
}

/** The options, complete and checked. */
export interface SluiceConfig {
  readonly connection: ClientConfig
  readonly directConnection: ClientConfig
  readonly definitions: QueueDefinitions | undefined
  readonly name: string
  readonly pollIntervalMs: number
  readonly connectTimeoutMs: number
  readonly payloadLimitBytes: number
  readonly crashLimit: number
  readonly log: SluiceLog | false | undefined
}

const DEFAULTS = { payloadLimitBytes: 1_048_576, crashLimit: 3 } as const

/** @throws SluiceError OPTION_INVALID */
export function resolveConfig(options: SluiceOptions<QueueDefinitions | undefined>): SluiceConfig {
  checkKeys('createSluice', options, OPTIONS, 'As in createSluice({ connection: process.env.DATABASE_URL })')
  const connection = connectionOf('connection', options.connection)
  const { pollInterval = '1s', connectTimeout = '5s' } = options
  return {
    connection,
    directConnection:
      options.directConnection === undefined ? connection : connectionOf('directConnection', options.directConnection),
    definitions: definitionsOf(options.queues),
    name: options.name === undefined ? `${hostname()}:${process.pid}` : nameOf(options.name),
    pollIntervalMs: toMsWithin('pollInterval', pollInterval, '100ms', '1m'),
    connectTimeoutMs: toMsWithin('connectTimeout', connectTimeout, '100ms', '10m'),
    payloadLimitBytes: integer(
      'payloadLimitBytes',
      options.payloadLimitBytes,
      DEFAULTS.payloadLimitBytes,
      1,
      268_435_456,
    ),
    crashLimit: integer('crashLimit', options.crashLimit, DEFAULTS.crashLimit, 1, 1_000),
    log: logOf(options.log),
  }
}

const OPTIONS = [
  'connection',
  'directConnection',
  'queues',
  'name',
  'pollInterval',
  'connectTimeout',
  'payloadLimitBytes',
  'crashLimit',
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

function definitionsOf(queues: unknown): QueueDefinitions | undefined {
  if (queues === undefined) return undefined
  if (typeof queues !== 'object' || queues === null || Array.isArray(queues)) {
    throw expected('OPTION_INVALID', 'queues', 'an object with the names of queues as keys', queues, QUEUES_REMEDY)
  }
  for (const [name, definition] of Object.entries(queues)) {
    checkQueueName(name, undefined)
    if (isStandardSchema(definition)) {
      const sentence = `queues.${name}: expected the definition of a queue, received a schema`
      throw new SluiceError('OPTION_INVALID', `${sentence}. Write { schema: … } around it`)
    }
    checkKeys(`queues.${name}`, definition, ['schema'], QUEUES_REMEDY)
    const { schema }: { readonly schema?: unknown } = definition
    if (schema !== undefined && !isStandardSchema(schema)) {
      const remedy = 'For example z.object({ … }) of Zod 3.24 or later'
      throw expected('OPTION_INVALID', `queues.${name}.schema`, 'a Standard Schema', schema, remedy)
    }
  }
  return { ...queues }
}

const QUEUES_REMEDY = 'As in { emails: { schema: Email } }, or { emails: {} } for any payload'

/** An object or, as with ArkType, a function. */
function isStandardSchema(schema: unknown): boolean {
  if ((typeof schema !== 'object' && typeof schema !== 'function') || schema === null) return false
  const standard: unknown = Reflect.get(schema, '~standard')
  return typeof standard === 'object' && standard !== null && typeof Reflect.get(standard, 'validate') === 'function'
}
