// The handler's own writes through Prisma, in the transaction that removes the message. Prisma knows only connections
// of its own, so it gets a pool with one connection: the batch's.

import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { createSluice, type Message } from '../src/index.ts'
import { runDue } from '../src/testing.ts'
// Stands for what `prisma generate` has made in an application.
import { PrismaClient } from '../test/support/prisma-client.ts'

/** A pool that is one client in an open transaction: Prisma's own transactions become savepoints. */
class OneClientPool extends pg.Pool {
  readonly #client: pg.ClientBase
  #savepoints = 0

  constructor(client: pg.ClientBase) {
    super()
    this.#client = client
    this.query = client.query.bind(client)
    this.connect = async () => this.#borrow()
  }

  #borrow(): pg.PoolClient {
    this.#savepoints += 1
    const savepoint = `prisma_${this.#savepoints}`
    const verbs = new Map([
      ['BEGIN', `SAVEPOINT ${savepoint}`],
      ['COMMIT', `RELEASE SAVEPOINT ${savepoint}`],
      ['ROLLBACK', `ROLLBACK TO SAVEPOINT ${savepoint}`],
    ])
    const query = (config: pg.QueryConfig) =>
      this.#client.query({ ...config, text: verbs.get(config.text) ?? config.text })
    return Object.assign(Object.create(this.#client), {
      query,
      release: () => {},
      on: () => {},
      removeListener: () => {},
    })
  }
}

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()
const pool = new pg.Pool({ connectionString: connection })
await pool.query('CREATE TABLE IF NOT EXISTS "Note" (id integer PRIMARY KEY, text text NOT NULL)')
await pool.query('TRUNCATE "Note"')

// A message enqueued in Prisma's own transaction.
const prisma = new PrismaClient({ adapter: new PrismaPg(pool) })
await prisma.$transaction(async (tx) => {
  await sluice.enqueue(tx, 'example.notes', { id: 1, text: 'kept' })
  await sluice.enqueue(tx, 'example.notes', { id: 2, text: 'rolled back' }, { maxAttempts: 1 })
})

const notes = sluice.pipeline('example.notes').handle(async (message: Message, { tx }) => {
  const data = message.payload as { id: number; text: string }
  const inBatch = new PrismaClient({ adapter: new PrismaPg(new OneClientPool(tx.client)) })
  await inBatch.$transaction(async (nested) => void (await nested.note.create({ data })))
  if (data.id === 2) throw new Error('failed after its write')
})
for (const { outcome } of await runDue(notes)) console.log('note:', outcome.kind)
console.log('in the table:', (await pool.query('SELECT text FROM "Note"')).rows.map((row) => row.text).join(', '))

await prisma.$disconnect()
await sluice.stop()
await pool.end()
