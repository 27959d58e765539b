import type pg from 'pg'
import { hasSqlState } from '../basics/sql-state.ts'
import type { Deferrable } from '../table/constraints.ts'
import { EVERY_SETTING } from '../table/planner.ts'
import { readSession, type ServerSession } from '../table/session.ts'
import { queryAsText } from './own-parsers.ts'
import { followStringSyntax } from './string-syntax.ts'

/** What stands between a connection and the server. */
export interface Session {
  /** The server process is not the one that the driver was told of when it connected. */
  readonly pooled: boolean
  /** Statements may be prepared by name. */
  readonly names: boolean
  /** What the database has of constraints that a transaction may defer, if the session told. */
  readonly deferrable?: Deferrable
}

/**
 * Asks a new connection for its session, and remembers the answer for the functions below.
 *
 * @throws what the driver throws, except for an error that tells of a pooler.
 */
export async function sessionOf(client: pg.Client): Promise<Session> {
  const told: unknown = Reflect.get(client, 'processID')
  try {
    const session = await readSession(async ({ text }, params) => {
      const { rows } = await queryAsText(client, { name: PROBE, text, values: [...params] })
      return rows
    }, PROBE)
    SESSIONS.set(client, session)
    followStringSyntax(client, session.conformingStrings)
    const pooled = session.pid !== told
    if (!pooled) OWN.add(client)
    return { pooled, names: !pooled || !session.knowsName, deferrable: session.deferrable }
  } catch (error) {
    if (isAboutNames(error)) return { pooled: true, names: false }
    throw error
  }
}

/**
 * Which of the planner's settings must be set for statements of ours on this connection: all until it has answered.
 * Behind a pooler sessions have the same, because role and database are the same.
 */
export function deviationsOf(client: object): readonly string[] {
  return SESSIONS.get(client)?.deviations ?? EVERY_SETTING
}

/** The connection has shown that no pooler stands before its session. */
export function hasOwnSession(client: object): boolean {
  return OWN.has(client)
}

/** "prepared statement … does not exist", "… already exists". */
export function isAboutNames(error: unknown): boolean {
  return hasSqlState(error, '26000') || hasSqlState(error, '42P05')
}

const SESSIONS = new WeakMap<object, ServerSession>()
const OWN = new WeakSet<object>()

const PROBE = 'sluice_session'
