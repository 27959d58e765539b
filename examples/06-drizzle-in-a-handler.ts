// The handler's own writes through Drizzle, in the transaction that removes the message.

import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import { createSluice, type Message } from 'sluice'
import { runDue } from 'sluice/testing'

const stock = pgTable('example_stock', { item: text().primaryKey(), count: integer().notNull() })

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()

const db = drizzle(connection)
await db.execute(sql`CREATE TABLE IF NOT EXISTS example_stock (item text PRIMARY KEY, count integer NOT NULL)`)
await db
  .insert(stock)
  .values({ item: 'lamp', count: 3 })
  .onConflictDoUpdate({ target: stock.item, set: { count: 3 } })

const sales = sluice.pipeline('example.sales').handle(async (message: Message, { tx, enqueue }) => {
  const { item, count } = message.payload as { item: string; count: number }
  // Drizzle on the batch's own connection, where its transaction is a savepoint.
  await drizzle(tx.pool).transaction(async (orders) => {
    const [left] = await orders
      .update(stock)
      .set({ count: sql`${stock.count} - ${count}` })
      .where(eq(stock.item, item))
      .returning()
    if (left === undefined || left.count < 0) throw new Error(`Not enough: ${left?.count}`)
  })
  await enqueue('example.invoices', { item, count })
})

// Drizzle's transactions enqueue as well.
await db.transaction(async (tx) => {
  await sluice.enqueue(tx, 'example.sales', { item: 'lamp', count: 2 })
  await sluice.enqueue(tx, 'example.sales', { item: 'lamp', count: 2 }, { maxAttempts: 1 })
})
for (const { outcome } of await runDue(sales)) {
  console.log('sale:', outcome.kind === 'deadLetter' ? `${outcome.reason}: ${outcome.error}` : outcome.kind)
}
const invoices = await runDue(sluice.pipeline('example.invoices').handle(() => {}))
console.log('invoices:', invoices.length)
console.log('left:', (await db.select().from(stock))[0]?.count)
await sluice.stop()
await db.$client.end()
