import { DEVIATING } from '../planner.ts'
import { booleanOf, type Execute, numberOf, statement, textOf } from '../statement.ts'
import { DEFERRABLE, type Deferrable, deferrableOf } from './constraints.ts'

/** The server session that ran a statement. */
export interface ServerSession {
  readonly pid: number
  /** Whether the session knows a prepared statement by the name of this one. */
  readonly knowsName: boolean
  /** The planner settings that differ from what our statements need; see `planner.ts`. */
  readonly deviations: readonly string[]
  /** `standard_conforming_strings`: whether a backslash in a plain string is literal. */
  readonly conformingStrings: boolean
  /** Which deferrable constraints the database has. */
  readonly deferrable: Deferrable
}

/** @param name the name under which this statement is prepared */
export async function readSession(execute: Execute, name: string): Promise<ServerSession> {
  const [row] = await execute(READ_SESSION, [name])
  if (row === undefined) throw new TypeError('expected the session')
  return {
    pid: numberOf(row, 'pid'),
    knowsName: booleanOf(row, 'knows_name'),
    deviations: textOf(row, 'deviations').split(' ').filter(Boolean),
    conformingStrings: booleanOf(row, 'conforming_strings'),
    deferrable: deferrableOf(textOf(row, 'deferrable')),
  }
}

/** A setting that differs from its value at the beginning of the session. */
export interface ChangedSetting {
  readonly name: string
  readonly value: string
}

/**
 * The settings that a pooler has set on the session for its client. It can only be those that PostgreSQL reports to
 * clients, because a pooler learns of them that way.
 */
export async function readPoolerSettings(execute: Execute): Promise<readonly ChangedSetting[]> {
  const rows = await execute(READ_POOLER_SETTINGS, [])
  return rows.map((row) => ({ name: textOf(row, 'name'), value: textOf(row, 'setting') }))
}

const READ_SESSION = statement(
  'session',
  `
SELECT pg_catalog.pg_backend_pid() AS pid,
       EXISTS (SELECT FROM pg_catalog.pg_prepared_statements p WHERE p.name OPERATOR(pg_catalog.=) $1::text) AS knows_name,
       pg_catalog.current_setting('standard_conforming_strings') OPERATOR(pg_catalog.=) 'on' AS conforming_strings,${DEVIATING} AS deviations,${DEFERRABLE} AS deferrable`,
)

const READ_POOLER_SETTINGS = statement(
  'pooler_settings',
  `
SELECT s.name, s.setting FROM pg_catalog.pg_settings s
WHERE s.name IN ('application_name', 'client_encoding', 'DateStyle', 'IntervalStyle', 'standard_conforming_strings', 'TimeZone')
  AND s.setting <> s.reset_val`,
)
