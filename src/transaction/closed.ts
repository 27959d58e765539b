import type pg from 'pg'
import { startTimer } from '../basics/time/start-timer.ts'

/**
 * Resolves when the server has closed its end of a connection that is being closed: until then it counts there. If the
 * server does not answer within a second, the connection is cut.
 */
export async function closed(client: pg.PoolClient): Promise<void> {
  const { stream } = client.connection
  if (stream.destroyed) return
  const closing = new Promise<void>((resolve) => stream.once('close', () => resolve()))
  const late = startTimer(() => stream.destroy(), FAREWELL_MS)
  await closing
  clearTimeout(late)
}

const FAREWELL_MS = 1_000
