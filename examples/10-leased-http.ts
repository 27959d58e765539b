// Leased mode: slow calls of another service, many side by side, whose effects in the database happen exactly once.
// The service here answers late, fails once for every third order, and takes an idempotency key.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { createSluice } from '../src/index.ts'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, log: false })
await sluice.migrate()
const pool = new pg.Pool({ connectionString: connection })
await pool.query('DROP TABLE IF EXISTS example_receipt; CREATE TABLE example_receipt (order_id int, receipt text)')

const charged = new Set<string>()
let calls = 0
const service = createServer(async (request, response) => {
  calls += 1
  const key = String(request.headers['idempotency-key'])
  await sleep(50)
  // What it did counts, although it answers with an error: the second call with this key does nothing twice.
  const known = charged.has(key)
  charged.add(key)
  response.statusCode = !known && charged.size % 3 === 0 ? 503 : 200
  response.end(`receipt of ${key}`)
})
await new Promise<void>((resolve) => service.listen(0, resolve))
const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`

await sluice.enqueueMany(
  sluice.ownTransaction,
  'example.charges',
  Array.from({ length: 60 }, (_, at) => ({ payload: { orderId: at + 1 } })),
)

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

const { rows } = await pool.query<{ receipts: number; orders: number }>(
  'SELECT count(*)::integer AS receipts, count(DISTINCT order_id)::integer AS orders FROM example_receipt',
)
console.log(`${calls > 60 ? 'some calls were made again' : 'no call was made again'}, ${charged.size} charges`)
console.log(`${rows[0]?.receipts} receipts of ${rows[0]?.orders} orders`)

await sluice.stop()
await pool.end()
service.close()
service.closeAllConnections()
