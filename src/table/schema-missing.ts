import { type Login, loginOf } from '../basics/errors/login-of.ts'
import { SluiceError } from '../errors.ts'
import { type Execute, numberOf, only, statement, textOf, textOrNull } from './statement.ts'

/** SCHEMA_MISSING for a statement that was refused: it names the database if the client has told which one it is. */
export function schemaMissing(cause: unknown): SluiceError {
  return missingIn(loginOf(cause), { cause })
}

/** SCHEMA_MISSING for the database of a connection. */
export async function readSchemaMissing(execute: Execute): Promise<SluiceError> {
  const row = only(await execute(READ_WHERE, []))
  return missingIn({
    user: textOf(row, 'login'),
    database: textOf(row, 'database'),
    host: textOrNull(row, 'host') ?? 'a Unix socket',
    port: numberOf(row, 'port'),
  })
}

function missingIn(login: Login | undefined, options?: { readonly cause: unknown }): SluiceError {
  const remedy = 'Run `npx sluice migrate` for it, or correct the connection settings'
  return new SluiceError('SCHEMA_MISSING', `${nameOf(login)} has no schema "sluice". ${remedy}`, options)
}

function nameOf(login: Login | undefined): string {
  if (login === undefined) return 'The database of the transaction'
  const { user, database, host, port } = login
  return `Database "${database}" on ${host}, port ${port}, as user "${user}",`
}

/** As the server sees it: behind a proxy it has another address than the connection settings. */
const READ_WHERE = statement(
  'where',
  `
SELECT session_user::text AS login, current_database()::text AS database, host(inet_server_addr()) AS host,
       current_setting('port'::text)::integer AS port`,
)
