import type pg from 'pg'
import { Session } from '../session/session.ts'
import { sessionsMove } from './sessions-move.ts'

/**
 * Whether the server session behind a new connection belongs to others too, because a pooler hands it around. Nothing may
 * be set in it then, and no lock may be taken that outlives its transaction.
 *
 * @param vouched the user has given this address as a direct one: a pooler there counts as one in session mode until it
 * shows otherwise
 */
export async function isShared(
  client: pg.Client,
  vouched: boolean,
  openAnother: () => Promise<pg.Client>,
): Promise<boolean> {
  const session = Session.of(client)
  await session.learn(client)
  return session.pooled && (!vouched || (await sessionsMove(client, openAnother)))
}
