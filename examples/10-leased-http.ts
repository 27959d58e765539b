// Leased mode: slow calls of another service, many side by side, whose effects happen exactly once. Kill this program in
// the middle and run it again: it goes on with what is left. The service here answers late, fails once for every third
// order, and charges once for each idempotency key, which it remembers in a table, as a real one would in its own database.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { createSluice } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, log: false })
await sluice.migrate()
const pool = new pg.Pool({ connectionString: connection })
await pool.query(`
  CREATE TABLE IF NOT EXISTS example_order (id int PRIMARY KEY);
  CREATE TABLE IF NOT EXISTS example_receipt (order_id int, receipt text);
  CREATE TABLE IF NOT EXISTS example_charge (key text PRIMARY KEY, calls int)`)

let charged = 0
const service = createServer(async (request, response) => {
  const key = String(request.headers['idempotency-key'])
  await sleep(50)
  const { rows } = await pool.query<{ calls: number }>(
    `INSERT INTO example_charge AS c VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET calls = c.calls + 1 RETURNING calls`,
    [key],
  )
  const isNew = rows[0]?.calls === 1
  if (isNew) charged += 1
  // It has charged, although it answers with an error.
  response.statusCode = isNew && charged % 3 === 0 ? 503 : 200
  response.end(`receipt of ${key}`)
})
await new Promise<void>((resolve) => service.listen(0, resolve))
const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`

// Orders and messages in one transaction: a run that was killed has left all of them, or none.
const client = await pool.connect()
await client.query('BEGIN')
const { rows: orders } = await client.query<{ id: number }>(
  'INSERT INTO example_order SELECT generate_series(1, 60) ON CONFLICT DO NOTHING RETURNING id',
)
const messages = orders.map(({ id }) => ({ payload: { orderId: id } }))
await sluice.enqueueMany(client, 'example.charges', messages)
await client.query('COMMIT')
client.release()

const charges = sluice
  .pipeline('example.charges', { mode: 'leased', concurrency: 30, retry: { kind: 'fixed', delay: '50ms' } })
  .handle(async ({ payload }, { idempotencyKey, signal, transaction }) => {
    const { orderId } = payload as { orderId: number }
    const response = await fetch(url, { method: 'POST', headers: { 'idempotency-key': idempotencyKey }, signal })
    if (!response.ok) throw new Error(`The service answered ${response.status}`)
    const receipt = await response.text()
    // The receipt and the end of the message are one transaction.
    await transaction((tx) => tx.query('INSERT INTO example_receipt VALUES ($1, $2)', [orderId, receipt]))
  })
  .start()

for (let left = 1; left > 0; await sleep(50)) {
  const { rows } = await pool.query<{ left: number }>(
    `SELECT count(*)::integer AS left FROM sluice.messages WHERE queue = 'example.charges'`,
  )
  left = rows[0]?.left ?? 0
}
await charges.drain()

const { rows } = await pool.query<{ charges: number; calls: number; receipts: number; orders: number }>(`
  SELECT (SELECT count(*) FROM example_charge)::integer AS charges, (SELECT sum(calls) FROM example_charge)::integer AS calls,
         count(*)::integer AS receipts, count(DISTINCT order_id)::integer AS orders FROM example_receipt`)
const [all] = rows
console.log(
  `${all?.charges} charges, ${(all?.calls ?? 0) > 60 ? 'some of them asked for again' : 'each asked for once'}`,
)
console.log(`${all?.receipts} receipts of ${all?.orders} orders`)

await pool.query('DROP TABLE example_order, example_receipt, example_charge')
await sluice.stop()
await pool.end()
service.close()
service.closeAllConnections()
