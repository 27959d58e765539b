import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { migrate } from '../../../src/migrate/migrate.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { SCHEMA_VERSION } from '../../../src/table/schema.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { openPool } from '../../support/servers/pool.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

// An application decides how its driver reads what the server answers. What Sluice reads must not depend on it.

const BOOL = 16
const TEXT = 25

/** Nothing is what the driver makes of it. */
const WRAPPING: pg.CustomTypesConfig = {
  getTypeParser: () => (value: unknown) => ({ wrapped: value }),
}

test('messages with a key are handled, although every boolean of the process is read as a word', async ({
  database,
  queue,
}) => {
  replaceGlobally(BOOL, (value) => (value === 't' ? 'yes' : 'no'))
  await handlesAll(startTestSluice(database), database, queue)
})

for (const [what, options] of [
  ['types of its own', { types: WRAPPING }],
  ['binary answers', { binary: true }],
  ['both', { types: WRAPPING, binary: true }],
] as const) {
  test(`messages are handled over a connection with ${what}`, async ({ database, queue }) => {
    const connection = { connectionString: database.url, ...options }
    await handlesAll(startTestSluice({ url: database.url }, { connection }), database, queue)
  })

  test(`an empty database is migrated over a connection with ${what}`, async () => {
    await using database = await createTestDatabase({ migrated: false })
    const connection = { connectionString: database.url, ...options }
    expect(await migrate(connection)).toMatchObject({ version: SCHEMA_VERSION })
    expect(await migrate(connection)).toEqual({ applied: [], version: SCHEMA_VERSION })
  })

  test(`a caller's pg client with ${what} enqueues, and gets the id as text`, async ({ database, sluice, queue }) => {
    const client = new pg.Client({ connectionString: database.url, ...options })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('BEGIN')
    const id = await sluice.enqueue(client, queue, 1)
    await client.query('COMMIT')
    expect(await database.sql('SELECT id::text FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ id }])
  })
}

test('messages are handled while the driver asks for binary answers everywhere, and reads big integers as numbers', async ({
  database,
  queue,
}) => {
  const before = pg.types.getTypeParser(20, 'text')
  pg.defaults.binary = true
  pg.defaults.parseInt8 = true
  onTestFinished(() => {
    pg.defaults.binary = false
    pg.types.setTypeParser(20, before)
  })
  await handlesAll(startTestSluice(database), database, queue)
})

test("a handler's statements are read as the application says", async ({ database, queue }) => {
  const connection = { connectionString: database.url, types: WRAPPING, binary: true }
  const sluice = startTestSluice({ url: database.url }, { connection })
  const seen: unknown[] = []
  sluice
    .pipeline(queue)
    .handle(async (_, { tx, enqueue }) => {
      await enqueue(`${queue}.next`, 1)
      const { rows, fields } = await tx.query('SELECT $1::boolean AS yes', [true])
      seen.push(rows, fields[0]?.format)
    })
    .subscribe()
  await put(sluice, queue, [1])
  await untilEmpty(database, queue)
  expect(seen).toEqual([[{ yes: { wrapped: Buffer.from([1]) } }], 'binary'])
})

test('an id is read from a client that makes buffers of text', async ({ database, sluice, queue }) => {
  const types: pg.CustomTypesConfig = {
    getTypeParser: (oid: number) => (oid === TEXT ? (value: string) => Buffer.from(value) : (value: string) => value),
  } as pg.CustomTypesConfig
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: openPool({ connectionString: database.url, types }) }),
  })
  onTestFinished(() => db.destroy())
  const id = await db.transaction().execute((tx) => sluice.enqueue(tx, queue, 1))
  expect(await database.sql('SELECT id::text FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ id }])
})

/** Keyed and unkeyed, now and later, failing and dying. */
async function handlesAll(sluice: Sluice, database: TestDatabase, queue: string): Promise<void> {
  await put(sluice, queue, [1, 2, 3], { orderingKey: 'a' })
  await put(sluice, queue, [4])
  await put(sluice, queue, ['fails once'], { orderingKey: 'b' })
  await put(sluice, queue, ['later'], { orderingKey: 'c', delay: 100 })
  const handled: unknown[] = []
  sluice
    .pipeline(queue, { batchSize: 3, retry: { kind: 'fixed', delay: 1 } })
    .handle(({ payload }, { attempt }) => {
      if (payload === 'fails once' && attempt === 1) throw new Error('once')
      handled.push(payload)
    })
    .subscribe()
  await untilEmpty(database, queue)
  expect(new Set(handled)).toEqual(new Set([1, 2, 3, 4, 'fails once', 'later']))
}

function replaceGlobally(oid: number, parse: (value: string) => unknown): void {
  const before = pg.types.getTypeParser(oid, 'text')
  pg.types.setTypeParser(oid, parse)
  onTestFinished(() => pg.types.setTypeParser(oid, before))
}
