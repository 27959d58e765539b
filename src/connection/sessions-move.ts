import type pg from 'pg'
import { queryAsText } from '../session/own-parsers.ts'
import { readSession } from '../table/session.ts'
import { closeClient } from './open-client.ts'

/**
 * Whether two connections through one pooler come upon each other's server sessions, or one upon several. Each asks
 * twice in a row: a pooler hands out either the session that was used last, which is then the other's, or the one that
 * was used least lately, which is then another one. One that has no session to spare for the second is in session mode.
 */
export async function sessionsMove(client: pg.Client, openAnother: () => Promise<pg.Client>): Promise<boolean> {
  const other = await openAnother()
  try {
    const own = [await pidOf(client), await pidOf(client)]
    const others = await Promise.all([pidOf(other), pidOf(other)]).catch(() => [])
    return new Set(own).size > 1 || new Set(others).size > 1 || own[0] === others[0]
  } finally {
    void closeClient(other)
  }
}

async function pidOf(client: pg.Client): Promise<number> {
  const { pid } = await readSession(
    async ({ text }, params) => (await queryAsText(client, { text, values: [...params] })).rows,
    '',
  )
  return pid
}
