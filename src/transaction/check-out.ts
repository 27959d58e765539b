import type pg from 'pg'
import { unreachable } from '../connection/unreachable.ts'
import { SluiceError, stopped } from '../errors.ts'
import { closed } from './closed.ts'

/** Where connections come from: a pool, or one whose connections have to be waited for. */
export interface Connections extends Pick<pg.Pool, 'connect' | 'ending'> {
  /** Resolves when one may be used, with what says that it is used no more. @throws SluiceError STOPPED */
  readonly seat?: (signal?: AbortSignal) => Promise<() => void>
}

/**
 * A connection of the pool.
 *
 * @param signal gives up waiting; a connection that comes later is closed.
 * @throws SluiceError UNREACHABLE, STOPPED
 */
export async function checkOut(pool: Connections, signal?: AbortSignal): Promise<pg.PoolClient> {
  if (signal?.aborted) throw stopped('pipeline')
  const connecting = connect(pool, signal)
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
async function connect(pool: Connections, signal: AbortSignal | undefined): Promise<pg.PoolClient> {
  if (pool.ending) throw stopped('sluice')
  if (pool.seat === undefined) return pool.connect()
  const leave = await pool.seat(signal)
  try {
    if (pool.ending) throw stopped('sluice')
    return leaving(await pool.connect(), leave)
  } catch (error) {
    leave()
    throw error
  }
}

/** The pool gives a client another `release` each time. */
function leaving(client: pg.PoolClient, leave: () => void): pg.PoolClient {
  const release = client.release
  client.release = (destroy) => {
    release.call(client, destroy)
    if (destroy) void closed(client).then(leave)
    else leave()
  }
  return client
}
