import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Edit, edited } from '../../support/rows/edited-functions.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { findTestServer } from '../../support/servers/server.ts'
import { Auditor, faultsOf, type Look } from '../../support/streams/auditor.ts'
import {
  APPENDS_REMEMBERED,
  APPENDS_UNLOCKED,
  HEAD_READ_LATE,
  POSITIONS_CACHED,
  SLOW_STABLE_ENDS,
} from '../../support/twins/functions.ts'

const NOTHING = { lost: 0, twice: 0, disordered: 0 }
const WRITERS = 12
const ROUNDS = 15

/** The same sequence of numbers in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Transactions of one writer: long and short, of one event and of many, committed, rolled back, prepared, with savepoints. */
async function write(client: pg.Client, stream: string, writer: number, prepare: boolean): Promise<void> {
  const below = numbers(writer + 1)
  const append = (what: string) => {
    const key = below(4) === 0 ? null : `key ${below(10)}`
    return client.query('SELECT sluice.append($1, to_jsonb($2::text), $3)', [stream, what, key])
  }
  for (let round = 0; round < ROUNDS; round++) {
    const name = `${writer}.${round}`
    await client.query('BEGIN')
    await append(`${name} first`)
    if (below(3) === 0) {
      await client.query('SAVEPOINT a')
      await append(`${name} undone`)
      await client.query('ROLLBACK TO a')
      await append(`${name} again`)
    }
    if (below(4) === 0) await client.query(APPEND_MANY, [stream])
    await client.query('SELECT pg_sleep($1)', [below(8) === 0 ? 0.05 : below(3) / 1_000])
    const end = below(6) === 0 ? 'ROLLBACK' : 'COMMIT'
    if (prepare && below(5) === 0) await endPrepared(client, `${stream} ${name}`, end, below(20))
    else await client.query(end)
  }
}

const APPEND_MANY = `SELECT sluice.append_many($1, '["a", "b", "c"]', '[{"orderingKey": "many"}]')`

async function endPrepared(client: pg.Client, name: string, end: string, afterMs: number): Promise<void> {
  await client.query(`PREPARE TRANSACTION '${name}'`)
  await client.query('SELECT pg_sleep($1)', [afterMs / 1_000])
  await client.query(`${end} PREPARED '${name}'`)
}

/** Twelve writers, and readers that read until all of them have ended, and once more. */
async function audit(database: TestDatabase, stream: string, looks: readonly Look[]) {
  const clients = await Promise.all(Array.from({ length: WRITERS }, () => connect(database)))
  const [
    {
      rows: [setting],
    },
  ] = await Promise.all([
    clients[0]!.query<{ max: string }>(`SELECT current_setting('max_prepared_transactions') AS max`),
    database.sql('SELECT sluice.create_stream($1)', [stream]),
  ])
  const prepare = Number(setting?.max) >= WRITERS
  const auditors = await Promise.all(looks.map((look) => Auditor.of(database, stream, look)))
  let written = false
  const reading = auditors.map(async (auditor) => {
    while (!written) await auditor.read()
    await auditor.read()
  })
  await Promise.all(clients.map((client, writer) => write(client, stream, writer, prepare)))
  written = true
  await Promise.all(reading)
  const faults = await Promise.all(auditors.map((auditor) => faultsOf(database, stream, auditor)))
  for (const auditor of auditors) await auditor[Symbol.asyncDispose]()
  return { faults, read: auditors[0]!.events.length, prepare }
}

/** A database on a server that allows prepared transactions. */
async function withPrepared(): Promise<TestDatabase> {
  const server = await findTestServer({ max_prepared_transactions: '20' })
  onTestFinished(() => server.stop())
  const database = await createTestDatabase({ serverUrl: server.url })
  onTestFinished(() => database[Symbol.asyncDispose]())
  return database
}

/** A database of its own, in which a function is another. */
async function broken(edit: Edit): Promise<TestDatabase> {
  const database = await createTestDatabase()
  onTestFinished(() => database[Symbol.asyncDispose]())
  await edited(database, [edit])
  return database
}

describe('twelve writers at once, and readers that never look back', () => {
  test('see each committed event once, in order in each partition', async () => {
    const database = await withPrepared()
    const { faults, read, prepare } = await audit(database, 'audited', ['as groups do', 'as groups do'])
    expect(faults).toEqual([NOTHING, NOTHING])
    expect(read).toBeGreaterThan(WRITERS * ROUNDS)
    // A server that was given to the tests may not allow them.
    if (process.env.DATABASE_URL === undefined) expect(prepare).toBe(true)
  })

  test('lose some where appends take no lock', async () => {
    const database = await broken(APPENDS_UNLOCKED)
    const { faults } = await audit(database, 'unlocked', ['as groups do'])
    expect(faults[0]?.lost).toBeGreaterThan(0)
  })

  test('lose some where a session keeps positions for later', async () => {
    const database = await broken(POSITIONS_CACHED)
    const { faults } = await audit(database, 'kept', ['as groups do'])
    expect(faults[0]?.lost).toBeGreaterThan(0)
  })

  test('lose none where a session remembers its floors beyond the transaction that has locked them', async () => {
    const database = await broken(APPENDS_REMEMBERED)
    const { faults } = await audit(database, 'remembered', ['as groups do'])
    expect(faults).toEqual([NOTHING])
  })

  test('lose some if they read in the statement that looks, and none in a later one, however slow the look is', async () => {
    const database = await broken(SLOW_STABLE_ENDS)
    const { faults } = await audit(database, 'slow', ['as groups do', 'in the statement that reads'])
    expect(faults[0]).toEqual(NOTHING)
    expect(faults[1]?.lost).toBeGreaterThan(0)
  })

  test('lose some where the look reads the locks before the head', async () => {
    const database = await broken(HEAD_READ_LATE)
    const { faults } = await audit(database, 'late', ['as groups do'])
    expect(faults[0]?.lost).toBeGreaterThan(0)
  })
})
