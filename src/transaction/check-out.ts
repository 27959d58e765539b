import type pg from 'pg'
import { unreachable } from '../connection/unreachable.ts'
import { SluiceError, stopped } from '../errors.ts'

/**
 * A connection of the pool.
 *
 * @param signal gives up waiting; a connection that comes later is closed.
 * @throws SluiceError UNREACHABLE, STOPPED
 */
export async function checkOut(pool: pg.Pool, signal?: AbortSignal): Promise<pg.PoolClient> {
  if (signal?.aborted) throw stopped('pipeline')
  const connecting = connect(pool)
  const givenUp = Promise.withResolvers<never>()
  const giveUp = () => {
    connecting.then((client) => client.release(true)).catch(() => undefined)
    givenUp.reject(stopped('pipeline'))
  }
  signal?.addEventListener('abort', giveUp)
  try {
    const client = await Promise.race([connecting, givenUp.promise])
    // The signal may have aborted after the pool gave it.
    if (signal?.aborted) throw stopped('pipeline')
    return client
  } catch (error) {
    throw error instanceof SluiceError ? error : unreachable(error)
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

/** The driver throws at once if it cannot read its configuration. */
async function connect(pool: pg.Pool): Promise<pg.PoolClient> {
  if (pool.ending) throw stopped('sluice')
  return pool.connect()
}
