import type pg from 'pg'
import { hasSqlState, LOCK_NOT_AVAILABLE } from '../basics/errors/sql-state.ts'
import { pause } from '../basics/time/pause.ts'
import { readBlockers } from '../table/deployment.ts'
import { BOUND_LOCKS } from '../table/schema.ts'
import { readSession } from '../table/session/session.ts'
import type { Execute } from '../table/statement.ts'

/**
 * The server processes that are creating schema "sluice" in transactions that are still open; 0: a prepared transaction. Nothing
 * shows what another transaction has not committed, so a session of its own tries to create the schema, and rolls back. While
 * it waits, `execute` asks for whom.
 */
export async function blockersOfSchema(config: pg.ClientConfig, execute: Execute): Promise<readonly number[]> {
  const { closeClient, executeOn, openClient } = await import('../connection/open-client.ts')
  const client = await openClient(config)
  try {
    await client.query('BEGIN')
    const { pid } = await readSession(executeOn(client), '')
    await executeOn(client)(BOUND_LOCKS, [`${TRY_MS}ms`])
    const attempt = new Attempt(client.query('CREATE SCHEMA IF NOT EXISTS sluice'))
    let blockers: readonly number[] = []
    while (!attempt.over) {
      const now = await readBlockers(execute, pid)
      if (now.length > 0) blockers = now
      await pause(ASK_MS)
    }
    return (await attempt.succeeded) ? [] : blockers
  } finally {
    // Its transaction ends with the session, and nothing is committed.
    await closeClient(client)
  }
}

/** A statement that may wait for longer than it is given. */
class Attempt {
  over = false
  readonly succeeded: Promise<boolean>

  constructor(running: Promise<unknown>) {
    this.succeeded = this.#settled(running)
    this.succeeded.catch(() => undefined)
  }

  async #settled(running: Promise<unknown>): Promise<boolean> {
    try {
      await running
      return true
    } catch (error) {
      if (hasSqlState(error, LOCK_NOT_AVAILABLE)) return false
      throw error
    } finally {
      this.over = true
    }
  }
}

const TRY_MS = 1_000
const ASK_MS = 50
