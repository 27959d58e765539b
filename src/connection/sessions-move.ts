import type pg from 'pg'
import { queryAsText } from '../session/own-parsers.ts'
import { readSession } from '../table/session/session.ts'
import { closeClient } from './open-client.ts'

/**
 * Whether a pooler moves connections between server sessions: two connections meet in one session, or one of them finds
 * itself in two. Each asks twice in a row for its session. A pooler hands out either the session that was used last,
 * which is then the other connection's, or the one that has been idle longest, which is then another one. A pooler that
 * has no session left for the second connection is in session mode.
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
