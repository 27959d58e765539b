import { hostname } from 'node:os'
import type { ClientConfig } from 'pg'
import { expected } from './errors.ts'
import type { QueueDefinitions } from './queues.ts'

/** How to reach a database: a connection string, or what `pg` takes. */
export type ConnectionConfig = string | ClientConfig

export interface SluiceOptions<Definitions extends QueueDefinitions | undefined = undefined> {
  /** The application's database. Each batch in flight takes one connection; a pooler may stand in between. */
  readonly connection: ConnectionConfig
  /**
   * A direct connection to the same database, for the two connections that want a session of their own: the listener
   * and the control connection. Through a transaction pooler they do with less. @default `connection`
   */
  readonly directConnection?: ConnectionConfig | undefined
  /** The queues and their schemas. With them, other names are refused, at compile time too. @default any name */
  readonly queues?: Definitions
  /** This worker process's name in `sluice.workers`. @default 'host:pid' */
  readonly name?: string | undefined
  /** How long a wake-up can be lost at most, in milliseconds, 100 to 60,000. @default 1000 */
  readonly pollIntervalMs?: number | undefined
  /** How long to wait for a connection, in milliseconds, 100 to 600,000. @default 5000 */
  readonly connectTimeoutMs?: number | undefined
  /** The largest payload in bytes of JSON, 1 to 256 MiB. @default 1048576 */
  readonly payloadLimitBytes?: number | undefined
  /** After how many deaths of a process with it in hand a message goes to the dead letters, 1 to 1,000. @default 3 */
  readonly crashLimit?: number | undefined
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
}

const DEFAULTS = {
  pollIntervalMs: 1_000,
  connectTimeoutMs: 5_000,
  payloadLimitBytes: 1_048_576,
  crashLimit: 3,
} as const

/** @throws SluiceError CONFIG_INVALID, OPTION_INVALID for an option that does not exist. */
export function resolveConfig(options: SluiceOptions<QueueDefinitions | undefined>): SluiceConfig {
  checkKeys('createSluice', options, OPTIONS)
  const connection = connectionOf('connection', options.connection)
  return {
    connection,
    directConnection:
      options.directConnection === undefined ? connection : connectionOf('directConnection', options.directConnection),
    definitions: options.queues,
    name: options.name === undefined ? `${hostname()}:${process.pid}` : nameOf(options.name),
    pollIntervalMs: integer('pollIntervalMs', options.pollIntervalMs, DEFAULTS.pollIntervalMs, 100, 60_000),
    connectTimeoutMs: integer('connectTimeoutMs', options.connectTimeoutMs, DEFAULTS.connectTimeoutMs, 100, 600_000),
    payloadLimitBytes: integer(
      'payloadLimitBytes',
      options.payloadLimitBytes,
      DEFAULTS.payloadLimitBytes,
      1,
      268_435_456,
    ),
    crashLimit: integer('crashLimit', options.crashLimit, DEFAULTS.crashLimit, 1, 1_000),
  }
}

const OPTIONS = [
  'connection',
  'directConnection',
  'queues',
  'name',
  'pollIntervalMs',
  'connectTimeoutMs',
  'payloadLimitBytes',
  'crashLimit',
] as const

/** @throws SluiceError OPTION_INVALID naming the first key that is not one of `known`. */
export function checkKeys(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw expected('OPTION_INVALID', what, 'an object of options', options)
  const unknown = Object.keys(options).find((key) => !known.includes(key))
  if (unknown !== undefined) throw expected('OPTION_INVALID', what, `only the options ${known.join(', ')}`, unknown)
}

/** The integer, or the default if it is undefined. @throws SluiceError CONFIG_INVALID outside `least`..`most`. */
export function integer(what: string, value: unknown, byDefault: number, least: number, most: number): number {
  if (value === undefined) return byDefault
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  throw expected('CONFIG_INVALID', what, `an integer from ${least} to ${most}`, value)
}

function nameOf(name: unknown): string {
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0
  if (typeof name === 'string' && bytes >= 1 && bytes <= 255 && !name.includes('\0') && name.isWellFormed()) return name
  throw expected('CONFIG_INVALID', 'name', '1 to 255 bytes of text without NUL characters and lone surrogates', name)
}

function connectionOf(what: string, connection: unknown): ClientConfig {
  if (typeof connection === 'string' && connection !== '') return { connectionString: connection }
  if (typeof connection === 'object' && connection !== null && !Array.isArray(connection)) return connection
  throw expected(
    'CONFIG_INVALID',
    what,
    'a connection string or an object as pg takes it',
    typeof connection,
    'For example process.env.DATABASE_URL',
  )
}
