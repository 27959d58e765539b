// Enqueue inside the transaction that changes your own tables: the message exists if and only if that commits.

import { type Generated, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { createSluice } from 'sluice'

interface Database {
  example_customer: { id: Generated<number>; name: string }
}

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()

const pool = new pg.Pool({ connectionString: connection })
await pool.query('CREATE TABLE IF NOT EXISTS example_customer (id serial PRIMARY KEY, name text NOT NULL)')
const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })

console.log('pg, committed:', await existsAfterwards(await withPg('Ada')))
console.log('Kysely, committed:', await existsAfterwards(await withKysely('Grace')))
console.log('Kysely, rolled back:', await existsAfterwards(await thenRolledBack('Nobody')))

try {
  // @ts-expect-error A pool has no transaction. The compiler refuses it; so does Sluice, for those who have no compiler.
  await sluice.enqueue(pool, 'example.welcome', {})
} catch (error) {
  console.log(String(error))
}

await sluice
  .pipeline('example.welcome')
  .handle(() => {})
  .runOnce()
await sluice.stop()
await db.destroy()

/** A `pg` client, with BEGIN and COMMIT by hand. */
async function withPg(name: string): Promise<string> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('INSERT INTO example_customer (name) VALUES ($1)', [name])
    const id = await sluice.enqueue(client, 'example.welcome', { name })
    await client.query('COMMIT')
    return id
  } finally {
    client.release()
  }
}

/** A Kysely transaction. Knex, Drizzle, TypeORM, Prisma and postgres.js transactions are given in the same way. */
function withKysely(name: string): Promise<string> {
  return db.transaction().execute(async (tx) => {
    await tx.insertInto('example_customer').values({ name }).execute()
    return sluice.enqueue(tx, 'example.welcome', { name }, { type: 'customer.created', headers: { source: 'example' } })
  })
}

async function thenRolledBack(name: string): Promise<string> {
  let id = ''
  const changedMyMind = new Error('changed my mind')
  await db
    .transaction()
    .execute(async (tx) => {
      id = await sluice.enqueue(tx, 'example.welcome', { name })
      throw changedMyMind
    })
    .catch((error: unknown) => {
      if (error !== changedMyMind) throw error
    })
  return id
}

async function existsAfterwards(id: string): Promise<string> {
  const { rows } = await pool.query('SELECT state FROM sluice.messages WHERE id = $1', [id])
  return rows.length === 1 ? `the message is ${rows[0].state}` : 'there is no message'
}
