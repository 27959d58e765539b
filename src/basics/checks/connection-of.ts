import type { ClientConfig } from 'pg'
import { describe, expected, SluiceError } from '../../errors.ts'
import { didYouMean, meantBy } from './check-keys.ts'

/**
 * A connection as `pg.Client` takes it. The driver ignores what it does not know and connects to the default database
 * instead, so an object with other keys than its options is refused. `{}` is the database of the PG* variables.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function connectionOf(what: string, connection: unknown): ClientConfig {
  if (typeof connection === 'string' && CONNECTION_STRING.test(connection)) return { connectionString: connection }
  if (typeof connection === 'object' && connection !== null && isConfig(connection)) {
    checkOptions(what, connection)
    return connection
  }
  const wanted = "a string that begins with 'postgres://', or an object of options as pg.Client takes it"
  if (isPool(connection)) {
    const remedy = `Sluice makes its own connections: give it what the Pool was given, for example process.env.DATABASE_URL`
    throw new SluiceError('OPTION_INVALID', `${what}: expected ${wanted}, received a pg Pool. ${remedy}`)
  }
  // A string is not quoted: there may be a password in it.
  const received = typeof connection === 'string' && connection !== '' ? 'another text' : describe(connection)
  throw new SluiceError('OPTION_INVALID', `${what}: expected ${wanted}, received ${received}. ${REMEDY}`)
}

const REMEDY = 'For example process.env.DATABASE_URL'

/** Also the path of a Unix socket, with or without a scheme, as the driver takes it. */
const CONNECTION_STRING = /^(postgres(ql)?:\/\/|socket:|\/)/i

/**
 * What has methods is no configuration: a pool or a client, which are somebody else's, a Sluice, and a URL, which the
 * driver ignores. An instance of a class is one if the driver finds an option in it, a getter for example.
 */
function isConfig(connection: object): boolean {
  const methods = ['query', 'connect', 'enqueue', 'toJSON']
  if (methods.some((name) => typeof Reflect.get(connection, name) === 'function')) return false
  return isPlain(connection) || OPTIONS.some((option) => option in connection)
}

function isPool(connection: unknown): boolean {
  return typeof connection === 'object' && connection !== null && 'totalCount' in connection && 'connect' in connection
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/** @throws SluiceError OPTION_INVALID naming the first key that the driver would ignore. */
function checkOptions(what: string, connection: object): void {
  // An instance may keep its options behind getters, and anything beside them.
  if (!isPlain(connection)) return
  checkInner(what, Reflect.get(connection, 'connection'))
  const unknown = Object.keys(connection).find((key) => !OPTIONS.includes(key))
  if (unknown === undefined) return
  const meant = /ur[il]$/i.test(unknown) ? ['connectionString'] : meantBy(unknown, OPTIONS)
  const remedy = meant.length > 0 ? didYouMean(meant) : REMEDY
  throw expected('OPTION_INVALID', what, 'an object of options as pg.Client takes it', unknown, remedy)
}

/**
 * The option `connection` is an object of the driver's own. With anything else, such as what `createSluice` is given as a
 * whole, the driver waits for its time limit and then ends the process.
 *
 * @throws SluiceError OPTION_INVALID
 */
function checkInner(what: string, inner: unknown): void {
  if (inner === undefined || inner === null) return
  if (typeof inner === 'object' && 'connect' in inner && typeof inner.connect === 'function') return
  // Not quoted: there may be a password in it.
  const received = typeof inner === 'string' ? 'a text' : describe(inner)
  const sentence = `${what}.connection: expected a Connection of pg, received ${received}`
  throw new SluiceError('OPTION_INVALID', `${sentence}. Did you mean connectionString, or to give that alone?`)
}

/** Every option that the driver, its pool and its parser of connection strings read. */
const OPTIONS: readonly string[] = [
  ...['connectionString', 'host', 'port', 'user', 'password', 'database'],
  ...[
    'ssl',
    'sslmode',
    'sslnegotiation',
    'sslcert',
    'sslkey',
    'sslrootcert',
    'enableChannelBinding',
    'scramMaxIterations',
  ],
  ...['application_name', 'fallback_application_name', 'client_encoding', 'options', 'replication', 'types', 'binary'],
  ...['statement_timeout', 'query_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'],
  ...['connectionTimeoutMillis', 'connect_timeout', 'keepAlive', 'keepAliveInitialDelayMillis', 'stream', 'connection'],
  ...['pipeline', 'Promise', 'native', 'isDomainSocket'],
  ...[
    'max',
    'min',
    'poolSize',
    'idleTimeoutMillis',
    'allowExitOnIdle',
    'maxUses',
    'maxLifetimeSeconds',
    'log',
    'Client',
  ],
  ...['onConnect', 'verify', 'poolIdleTimeout', 'reapIntervalMillis', 'parseInt8', 'parseInputDatesAsUTC'],
]
