import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle as drizzleOverNodePostgres } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleOverPostgresJs } from 'drizzle-orm/postgres-js'
import knex from 'knex'
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource } from 'typeorm'
import { expect } from 'vitest'
import { enqueueOne } from '../../../src/enqueue/enqueue.ts'
import { enqueueContext } from '../../support/enqueue-context.ts'
import { PrismaClient } from '../../support/prisma-client.ts'
import { openPool } from '../../support/servers/pool.ts'
import { test } from '../../support/sluice.ts'
import { describeTransaction } from '../../support/transaction.testsuite.ts'

type Work = (tx: unknown) => Promise<void>

describeTransaction('pg Client', {
  connect: connectClient,
  begin: (client, work) => bracket(client, work),
  outside: (client) => [client, new pg.Client()],
  close: (client) => client.end(),
})

/** As many an application has one, to log what is sent. */
class LoggingClient extends pg.Client {
  override query(...args: [never]): never {
    return Promise.resolve(super.query(...args)) as never
  }
}

describeTransaction('pg Client of a class that extends it', {
  connect: (url) => connectClient(url, {}, LoggingClient),
  begin: (client, work) => bracket(client, work),
  outside: (client) => [client],
  close: (client) => client.end(),
})

describeTransaction('pg Client with a function in the place of its query', {
  async connect(url) {
    const client = await connectClient(url)
    const query = client.query.bind(client) as (config: object) => Promise<unknown>
    return Object.assign(client, { query: async (config: object) => query(config) })
  },
  begin: (client, work) => bracket(client, work),
  outside: (client) => [client],
  close: (client) => client.end(),
})

describeTransaction('pg Client with pipelining', {
  connect: (url) => connectClient(url, { pipeline: true }),
  begin: (client, work) => bracket(client, work),
  outside: (client) => [client],
  close: (client) => client.end(),
})

describeTransaction('pg Client before 8.21', {
  async connect(url) {
    const client = await connectClient(url)
    return Object.defineProperty(client, 'getTransactionStatus', { value: undefined })
  },
  begin: (client, work) => bracket(client, work),
  outside: (client) => [client],
  close: (client) => client.end(),
})

describeTransaction('pg PoolClient', {
  connect: (url) => openPool({ connectionString: url }),
  async begin(pool, work) {
    const client = await pool.connect()
    await bracket(client, work).finally(() => client.release())
  },
  outside: (pool) => [pool],
  close: (pool) => pool.end(),
})

describeTransaction('Kysely Transaction', {
  connect: (url) => new Kysely({ dialect: dialectOf(url) }),
  begin: (db, work) => db.transaction().execute(work),
  outside: (db) => [db, db.withSchema('sluice')],
  close: (db) => db.destroy(),
})

describeTransaction('Kysely Transaction with CamelCasePlugin', {
  connect: (url) => new Kysely({ dialect: dialectOf(url), plugins: [new CamelCasePlugin()] }),
  begin: (db, work) => db.transaction().execute((trx) => work(trx.withSchema('elsewhere'))),
  outside: (db) => [db],
  close: (db) => db.destroy(),
})

describeTransaction('Kysely ControlledTransaction', {
  connect: (url) => new Kysely({ dialect: dialectOf(url), plugins: [new CamelCasePlugin()] }),
  async begin(db, work) {
    const trx = await db.startTransaction().execute()
    try {
      await work(await trx.savepoint('before_work').execute())
    } catch (error) {
      await trx.rollback().execute()
      throw error
    }
    await trx.commit().execute()
  },
  outside: (db) => [db],
  close: (db) => db.destroy(),
})

describeTransaction('postgres.js begin', {
  connect: (url) => postgres(url),
  begin: (sql, work) => sql.begin(work),
  outside: (sql) => [sql],
  close: (sql) => sql.end(),
})

describeTransaction('postgres.js savepoint', {
  connect: (url) => postgres(url),
  begin: (sql, work) => sql.begin((tx) => tx.savepoint(work)),
  outside: (sql) => [sql],
  close: (sql) => sql.end(),
})

describeTransaction('Knex transaction', {
  connect: (url) => knex({ client: 'pg', connection: url }),
  begin: (db, work) => db.transaction(work),
  outside: (db) => [db],
  close: (db) => db.destroy(),
})

describeTransaction('Knex nested transaction', {
  connect: (url) => knex({ client: 'pg', connection: url }),
  begin: (db, work) => db.transaction((trx) => trx.transaction(work)),
  outside: (db) => [db],
  close: (db) => db.destroy(),
})

describeTransaction('Drizzle over node-postgres', {
  connect: (url) => drizzleOverNodePostgres({ connection: url }),
  begin: (db, work) => db.transaction(work),
  outside: (db) => [db],
  close: (db) => db.$client.end(),
})

describeTransaction('Drizzle over postgres.js', {
  connect: (url) => drizzleOverPostgresJs({ connection: url }),
  begin: (db, work) => db.transaction(work),
  outside: (db) => [db],
  close: (db) => db.$client.end(),
})

describeTransaction('Drizzle nested transaction', {
  connect: (url) => drizzleOverNodePostgres({ connection: url }),
  begin: (db, work) => db.transaction((tx) => tx.transaction(work)),
  outside: (db) => [db],
  close: (db) => db.$client.end(),
})

describeTransaction('TypeORM EntityManager', {
  connect: connectTypeOrm,
  begin: (source, work) => source.transaction(work),
  outside: (source) => [source, source.manager, source.createQueryRunner()],
  close: (source) => source.destroy(),
})

describeTransaction('TypeORM QueryRunner', {
  connect: connectTypeOrm,
  async begin(source, work) {
    const runner = source.createQueryRunner()
    await runner.startTransaction()
    try {
      await work(runner)
      await runner.commitTransaction()
    } catch (error) {
      await runner.rollbackTransaction()
      throw error
    } finally {
      await runner.release()
    }
  },
  outside: (source) => [source.createQueryRunner()],
  close: (source) => source.destroy(),
})

describeTransaction('Prisma interactive transaction', {
  connect: connectPrisma,
  begin: (prisma, work) => prisma.$transaction(work),
  outside: (prisma) => [prisma],
  close: (prisma) => prisma.$disconnect(),
})

describeTransaction('Prisma interactive transaction of an extended client', {
  connect: (url) => connectPrisma(url).$extends({ name: 'nothing', query: {} }),
  begin: (prisma, work) => prisma.$transaction(work),
  outside: (prisma) => [prisma],
  close: (prisma) => prisma.$disconnect(),
})

test.for([
  {
    name: 'a pg client',
    end: async (url: string) => {
      const client = await connectClient(url)
      await bracket(client, async () => undefined)
      return { tx: client, close: () => client.end() }
    },
  },
  {
    name: 'Knex',
    end: async (url: string) => {
      const db = knex({ client: 'pg', connection: url })
      return { tx: await endOf((work) => db.transaction(work)), close: () => db.destroy() }
    },
  },
  {
    name: 'TypeORM',
    end: async (url: string) => {
      const source = await connectTypeOrm(url)
      return { tx: await endOf((work) => source.transaction(work)), close: () => source.destroy() }
    },
  },
])(
  'shows the line that enqueues after the COMMIT of $name, without an await',
  async ({ end }, { database, sluice }) => {
    const { tx, close } = await end(database.url)
    const enqueueLate = () => sluice.enqueue(tx as pg.Client, 'late', 1)
    const error = await enqueueLate().catch((refusal: unknown) => refusal)
    await close()
    expect(error).toMatchObject({ code: 'NOT_IN_TRANSACTION', stack: expect.stringMatching(/at enqueueLate /) })
  },
)

test('is refused by its code where Knex has begun to end the transaction', async ({ database, sluice }) => {
  const db = knex({ client: 'pg', connection: database.url })
  let refusal: Promise<unknown> = Promise.resolve()
  await db.transaction(async (trx) => {
    refusal = sluice.enqueue(trx, 'late', 1).catch((error: unknown) => error)
  })
  expect(await refusal).toMatchObject({
    code: 'NOT_IN_TRANSACTION',
    message: expect.stringContaining('await this call'),
  })
  await db.destroy()
})

/** A transaction that has ended. */
async function endOf(transaction: (work: Work) => Promise<unknown>): Promise<unknown> {
  let ended: unknown
  await transaction(async (tx) => {
    ended = tx
  })
  return ended
}

test('enqueues through clients that rename the columns of every result', async ({ database }) => {
  const camel = postgres(database.url, { transform: postgres.camel })
  const upper = knex({
    client: 'pg',
    connection: database.url,
    wrapIdentifier: (name, wrap) => wrap(name.toUpperCase()),
  })
  try {
    expect(await camel.begin((tx) => enqueueOne(enqueueContext(), tx, 'renamed', { a_b: 1 }))).toMatch(/^\d+$/)
    expect(await upper.transaction((trx) => enqueueOne(enqueueContext(), trx, 'renamed', { a_b: 1 }))).toMatch(/^\d+$/)
  } finally {
    await Promise.all([camel.end(), upper.destroy()])
  }
  expect(await database.sql(`SELECT DISTINCT payload FROM sluice.message WHERE queue = 'renamed'`)).toEqual([
    { payload: { a_b: 1 } },
  ])
})

test('asks for no privilege but those to insert, to see the id, and to read the settings of the queue', async ({
  database,
}) => {
  await database.sql(`CREATE ROLE ${ROLE}`)
  await database.sql(`GRANT USAGE ON SCHEMA sluice, sluice_private TO ${ROLE}`)
  await database.sql(`GRANT INSERT, SELECT (id) ON sluice.message TO ${ROLE}`)
  await database.sql(`GRANT SELECT ON sluice.queue TO ${ROLE}`)
  const sql = postgres(database.url)
  try {
    const id = await sql.begin(async (tx) => {
      await tx.unsafe(`SET LOCAL ROLE ${ROLE}`)
      return enqueueOne(enqueueContext(), tx, 'unprivileged', {})
    })
    expect(await database.sql(`SELECT id FROM sluice.message WHERE queue = 'unprivileged'`)).toEqual([{ id }])
  } finally {
    await sql.end()
    await database.sql(`DROP OWNED BY ${ROLE}`)
    await database.sql(`DROP ROLE ${ROLE}`)
  }
})

const ROLE = `sluice_test_enqueuer_${process.pid}`

async function connectClient(
  url: string,
  options: pg.ClientConfig & { pipeline?: boolean } = {},
  Client = pg.Client,
): Promise<pg.Client> {
  const client = new Client({ connectionString: url, ...options })
  await client.connect()
  return client
}

async function bracket(client: pg.ClientBase, work: Work): Promise<void> {
  await client.query('BEGIN')
  try {
    await work(client)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}

function dialectOf(url: string): PostgresDialect {
  return new PostgresDialect({ pool: openPool({ connectionString: url }) })
}

function connectTypeOrm(url: string): Promise<DataSource> {
  return new DataSource({ type: 'postgres', url }).initialize()
}

function connectPrisma(url: string): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })
}

test.for([false, true])('a pg client that was closed, in a transaction: %s, says so', async (begun, { database }) => {
  const client = await connectClient(database.url)
  if (begun) await client.query('BEGIN')
  await client.end()
  await expect(enqueueOne(enqueueContext(), client, 'q', 1)).rejects.toMatchObject({
    code: 'NOT_IN_TRANSACTION',
    message: expect.stringContaining('received a pg client that is closed. Use a client of pool.connect()'),
  })
})
