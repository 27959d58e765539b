import { codeOf } from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { SluiceError } from '../errors.ts'

/**
 * UNREACHABLE, with what the server or the socket said, and where to look. The driver quotes no password, and its error
 * is the `cause`.
 *
 * @param what has failed, as the beginning of a sentence.
 */
export function unreachable(cause: unknown, what = 'The database cannot be reached'): SluiceError {
  return new SluiceError('UNREACHABLE', `${what}: ${wordsOf(cause)}. ${remedyFor(cause)}`, { cause })
}

function remedyFor(error: unknown): string {
  const first = error instanceof AggregateError && error.errors.length > 0 ? error.errors[0] : error
  const code = codeOf(first) ?? ''
  if (code === TOO_MANY_CONNECTIONS) return remedyForTooMany(first)
  const [, remedy] = REMEDIES.find(([pattern]) => pattern.test(code)) ?? []
  return remedy ?? 'Check the connection settings, and that the server runs'
}

const TOO_MANY_CONNECTIONS = '53300'

/**
 * The server has three limits, and says in its own language which one it is: the routine tells, and the name of the role or
 * the database is in quotation marks, of whatever form.
 */
function remedyForTooMany(error: unknown): string {
  const routine = error instanceof Error && 'routine' in error ? error.routine : undefined
  const [, name] = /["„“«»”’‘「](.+?)["„“«»”’‘」]/.exec(wordsOf(error)) ?? []
  const quoted = name === undefined ? '…' : `"${name.replaceAll('"', '""')}"`
  const [, of, what] = ROUTINES.find(([one]) => one === routine) ?? []
  const raise =
    of === undefined
      ? 'Raise max_connections on the server'
      : `Raise ${what}, as in \`ALTER ${of} ${quoted} CONNECTION LIMIT 100\``
  return `${raise}, or let each process open fewer: createSluice({ maxConnections: 10 })`
}

/** Where the server refuses, and whose limit that is. */
const ROUTINES: readonly (readonly [routine: string, of: string, what: string])[] = [
  ['InitializeSessionUserId', 'ROLE', 'the limit of the role'],
  ['CheckMyDatabase', 'DATABASE', 'the limit of the database'],
]

/** By SQLSTATE, or by the code of a system error. */
const REMEDIES: readonly (readonly [pattern: RegExp, remedy: string])[] = [
  [/^28/, 'Check the user and the password in the connection settings, and pg_hba.conf on the server'],
  [/^3D000$/, 'Check the name of the database in the connection settings, or create it'],
  [/^25006$/, 'Connect to the primary, and look for default_transaction_read_only'],
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'Check the name of the host in the connection settings'],
  [/^E(CONNREFUSED|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/, 'Check the host and the port, and that the server runs there'],
  [/^ERR_INVALID_URL$/, 'Check the connection string: in a password, / # ? % and @ must be percent-encoded'],
]
