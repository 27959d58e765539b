import { booleanOf, type Execute, numberOf, statement } from './statement.ts'

/** The server session that a statement came to. */
export interface ServerSession {
  readonly pid: number
  /** The session knows a statement by the name under which this one was prepared, if it was. */
  readonly knowsName: boolean
}

/** @param name under which this very statement is prepared. */
export async function readSession(execute: Execute, name: string): Promise<ServerSession> {
  const [row] = await execute(READ_SESSION, [name])
  if (row === undefined) throw new TypeError('expected the session')
  return { pid: numberOf(row, 'pid'), knowsName: booleanOf(row, 'knows_name') }
}

const READ_SESSION = statement(
  'session',
  `
SELECT pg_backend_pid() AS pid, EXISTS (SELECT FROM pg_prepared_statements p WHERE p.name = $1::text) AS knows_name`,
)
