import pg from 'pg'

/**
 * A pool of a test's own, which outlives the database. end() does not wait until the server's sessions are gone, so the
 * database is dropped with those that are left, and each says so. Without somebody who listens that would end the process.
 */
export function openPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config)
  pool.on('error', () => undefined)
  // For as long as it is borrowed the pool does not listen.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
