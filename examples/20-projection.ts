// A stream, and two groups that read it: one keeps a table up to date, the other sends receipts and fails once. What a handler
// writes through `tx` commits together with its group's progress.

import pg from 'pg'
import { createSluice } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, log: false })
await sluice.migrate()
const STREAM = 'example.orders'
await sluice.streams.set(STREAM)
await sluice.groups.set(STREAM, 'totals', { from: 'start' })
await sluice.groups.set(STREAM, 'receipts', { from: 'start' })

const orders = [
  ['ada', 20],
  ['grace', 5],
  ['ada', 30],
] as const
await sluice.appendMany(
  sluice.ownTransaction,
  STREAM,
  orders.map(([customer, amount]) => ({ payload: { customer, amount }, orderingKey: customer, type: 'order.paid' })),
)

interface Order {
  readonly customer: string
  readonly amount: number
}

const totals = sluice.pipeline(STREAM, { group: 'totals' }).handle(async ({ payload }, { tx }) => {
  const { customer, amount } = payload as Order
  await tx.query('CREATE TABLE IF NOT EXISTS example_total (customer text PRIMARY KEY, amount integer)')
  await tx.query(
    `INSERT INTO example_total VALUES ($1, $2)
     ON CONFLICT (customer) DO UPDATE SET amount = example_total.amount + excluded.amount`,
    [customer, amount],
  )
})

const sent: string[] = []
const allSent = Promise.withResolvers<void>()
const receipts = sluice
  .pipeline(STREAM, { group: 'receipts', retry: { kind: 'fixed', delay: '50ms' } })
  .handle(({ payload, attempt }) => {
    const { customer, amount } = payload as Order
    if (amount === 20 && attempt === 1) throw new Error('The printer is busy')
    sent.push(`${customer} ${amount}`)
    if (sent.length === orders.length) allSent.resolve()
  })
  .start()

await totals.runOnce()
await allSent.promise
await receipts.drain()
const client = new pg.Client(connection)
await client.connect()
const { rows } = await client.query('SELECT customer, amount FROM example_total ORDER BY customer')
await client.end()
console.log(rows.map(({ customer, amount }) => `${customer}: ${amount}`).join(', '))
console.log(`receipts of ada in order: ${sent.filter((receipt) => receipt.startsWith('ada')).join(', ')}`)
console.log(`a new reader sees all of it: ${(await readAll()).join(' ')}`)

async function readAll(): Promise<readonly number[]> {
  const amounts: number[] = []
  for await (const { payload } of sluice.streams.read(STREAM)) amounts.push((payload as Order).amount)
  return amounts
}

await sluice.stop()
