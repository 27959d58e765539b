// What the programs for each framework share: a pool, a Sluice, a worker, and how they end.

import pg from 'pg'
import { createSluice } from 'sluice'

const connectionString = process.env.DATABASE_URL ?? ''
const pool = new pg.Pool({ connectionString })
// A pool without a listener ends the process when the server closes an idle connection.
pool.on('error', (error) => console.error('idle connection:', error.message))
export const sluice = createSluice({ connection: connectionString })

const receipts = sluice.pipeline('example.receipts').handle(async ({ payload }, { tx }) => {
  await tx.query('INSERT INTO example_receipt (order_id) VALUES ($1)', [payload])
})

/** Starts the worker of this process, and does not wait for the database. */
export function start(): void {
  receipts.start()
}

/** Lets handlers in flight end, then closes all connections. Call it when the server accepts no more requests. */
export async function stop(): Promise<void> {
  await sluice.stop({ timeout: '20s' })
  await pool.end()
}

/** Runs `work` in a transaction: it commits when `work` resolves, and rolls back when it throws. */
export async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const tx = await pool.connect()
  try {
    await tx.query('BEGIN')
    const result = await work(tx)
    await tx.query('COMMIT')
    tx.release()
    return result
  } catch (error) {
    // Without its connection the transaction is rolled back, whatever state it was in.
    tx.release(true)
    throw error
  }
}

export async function insertOrder(tx: pg.PoolClient, item: unknown): Promise<number> {
  const { rows } = await tx.query<{ id: number }>('INSERT INTO example_order (item) VALUES ($1) RETURNING id', [item])
  return rows[0]?.id ?? 0
}
