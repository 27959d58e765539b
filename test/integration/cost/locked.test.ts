import pg from 'pg'
import { describe, expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimApart } from '../../../src/table/claim/claim-apart.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { claimsOf, recordStatements } from '../../support/plans/statements.ts'
import { test as base, bottomOf, idsOf, lockedIds, put } from '../../support/rows/claim-session.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'

const MESSAGES = 40_000
const BATCH = 1_600
const QUEUE = 'crowded'

const test = base.extend('crowd', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const clients: pg.Client[] = []
  onCleanup(async () => void (await Promise.all(clients.map((client) => client.end()))))
  const open = async () => {
    const client = new pg.Client({ connectionString: database.url })
    clients.push(client)
    await client.connect()
    return client
  }
  await put(
    database,
    QUEUE,
    Array.from({ length: MESSAGES }, () => ({ dueInMs: -1_000 })),
  )
  await database.sql('ALTER TABLE sluice.message SET (autovacuum_enabled = off)')
  let locked = 0
  return {
    client: await open(),
    /** Brings the rows that others have at the head to so many. */
    lock: async (rows: number) => {
      while (locked < rows) {
        const holder = await open()
        await holder.query('BEGIN')
        const limit = Math.min(BATCH, rows - locked)
        locked += (await claim(executeOn(holder), QUEUE, bottomOf(5), limit)).rows.length
      }
    },
  }
})

const apart = (offset: number) => (execute: Execute) => claimApart(execute, QUEUE, bottomOf(5), 100, offset)

/** What a claim of 100 touches that meets nobody, and a page of the table for each 20 rows of others that it passes. */
const most = (passed: number) => 250 + passed / 20

describe('P6: a claim among many tries to lock no row that another has', () => {
  for (const locked of [0, 400, 1_600, 6_400, 25_600]) {
    test(`with ${locked} rows locked ahead`, async ({ crowd }) => {
      await crowd.lock(locked)
      for (const offset of [0, locked / 2, locked + 1_000]) {
        const { buffers, plan } = await explain(crowd.client, await recorded(apart(offset)), 'force_generic_plan')
        expect(buffers, plan).toBeLessThanOrEqual(most(Math.max(locked, offset)))
      }
    })
  }

  test('while one from the head tries each of them, so this gate can fail', async ({ crowd }) => {
    await crowd.lock(25_600)
    const fromHead = await recorded((execute) => claim(execute, QUEUE, bottomOf(5), 100))
    const { buffers } = await explain(crowd.client, fromHead, 'force_generic_plan')
    expect(buffers).toBeGreaterThan(25_600)
  })
})

describe('a claim that begins behind others', () => {
  const due = (priority: number, count: number) =>
    Array.from({ length: count }, (_, at) => ({ priority, dueInMs: at - 10_000 }))

  test('takes what is behind them first, and then what it left', async ({ database, queue, begin }) => {
    const ids = await put(database, queue, due(5, 10))
    const { execute } = await begin()
    const taken = idsOf(await claimApart(execute, queue, bottomOf(5), 6, 5))
    expect(taken).toEqual([...ids.slice(6), ...ids.slice(0, 2)])
    expect(await lockedIds(database, queue)).toEqual(taken.toSorted((a, b) => Number(a) - Number(b)))
  })

  test('begins with the oldest where there are not so many', async ({ database, queue, begin }) => {
    const ids = await put(database, queue, due(5, 10))
    const { execute } = await begin()
    expect(idsOf(await claimApart(execute, queue, bottomOf(5), 3, 10))).toEqual(ids.slice(0, 3))
  })

  test('takes all of a priority before the next, wherever it begins', async ({ database, queue, begin }) => {
    const low = await put(database, queue, due(9, 10))
    const high = await put(database, queue, due(0, 10))
    for (const offset of [0, 3, 9, 10, 50]) {
      const session = await begin()
      const taken = idsOf(await claimApart(session.execute, queue, bottomOf(0, 9), 12, offset))
      expect(new Set(taken.slice(0, 10))).toEqual(new Set(high))
      expect(low).toEqual(expect.arrayContaining(taken.slice(10)))
      expect(taken).toHaveLength(12)
      await session.rollBack()
    }
  })

  test('passes by what others have, and takes it as soon as they give it back', async ({ database, queue, begin }) => {
    const ids = await put(database, queue, due(5, 10))
    const [other, session] = [await begin(), await begin()]
    expect(idsOf(await claim(other.execute, queue, bottomOf(5), 4))).toEqual(ids.slice(0, 4))
    expect(idsOf(await claimApart(session.execute, queue, bottomOf(5), 10, 0))).toEqual(ids.slice(4))
    await session.rollBack()
    await other.rollBack()
    expect(idsOf(await claimApart(session.execute, queue, bottomOf(5), 10, 0))).toEqual(ids)
  })
})

describe('P6: a process', () => {
  const settle = async (database: TestDatabase, queue: string) => {
    const sent = recordStatements()
    const sluice = startTestSluice(database)
    await put(database, queue, Array(200).fill({ dueInMs: -1_000 }))
    const plan = { batchSize: 5, concurrency: 2 }
    await sluice
      .pipeline(queue, plan)
      .handle(() => undefined)
      .runOnce()
    return claimsOf(sent, queue).flatMap(({ values }) => (values.length === OFFSET + 1 ? [Number(values[OFFSET])] : []))
  }

  test('begins all its claims at the head while few claim', async ({ database, queue }) => {
    expect(await settle(database, queue)).toEqual([])
  })

  test('begins its claims apart from others when the registry has many', async ({ database, queue }) => {
    await database.sql(
      `INSERT INTO sluice.worker (name, host, pid, version, queues, pooled)
       SELECT 'other', 'elsewhere', n, '0', ARRAY[$1], true FROM generate_series(1, 15) n`,
      [queue],
    )
    const offsets = await settle(database, queue)
    expect(new Set(offsets).size).toBeGreaterThan(3)
    expect(Math.max(...offsets)).toBeLessThan(2 * 16 * 2 * 5)
  })
})

/** Where the statement has its offset among its parameters. */
const OFFSET = 5
