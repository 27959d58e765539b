import { describe, expect } from 'vitest'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { pollQueues } from '../../../src/table/worker/wait.ts'
import { keysOf, put, test } from '../../support/rows/claim-session.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

describe('a look over a queue', () => {
  test('finds nothing in an empty one', async ({ database, queue, begin }) => {
    await put(database, `${queue}.other`, [{}])
    const { execute } = await begin()
    expect(await scanQueue(execute, queue)).toEqual({
      priorities: [],
      slots: [],
      unkeyed: false,
      ready: false,
      tookMs: 0,
      workers: 0,
      nextDueMs: null,
    })
  })

  test('finds each priority and each slot once, in order', async ({ database, queue, begin }) => {
    const keys = await keysOf(database)
    await put(database, queue, [
      { priority: 9 },
      { priority: 0, dueInMs: 60_000 },
      { priority: 5 },
      { priority: 5 },
      { key: keys.other },
      { key: keys.same[0] },
      { key: keys.same[1], dueInMs: 60_000 },
    ])
    const { execute } = await begin()
    const scan = await scanQueue(execute, queue)
    expect(scan).toMatchObject({ priorities: [0, 5, 9], unkeyed: true, ready: true })
    expect(scan.slots).toEqual([keys.slot, keys.otherSlot].toSorted((a, b) => a - b))
  })

  test('finds every slot that there is', async ({ database, queue, begin }) => {
    await put(
      database,
      queue,
      Array.from({ length: 3_000 }, (_, at) => ({ key: `key ${at}` })),
    )
    const { execute } = await begin()
    expect((await scanQueue(execute, queue)).slots).toEqual([...Array(256).keys()])
  })

  test.for([
    ['a message without a key', {}],
    ['a message with a key', { key: 'a' }],
  ] as const)('M6: tells to the microsecond when %s falls due', async ([, message], { database, queue, begin }) => {
    const [, id] = await put(database, queue, [
      { ...message, dueInMs: 90_000 },
      { ...message, dueInMs: 60_000 },
      { ...message, dueInMs: 120_000 },
    ])
    await database.sql(
      `UPDATE sluice.message SET due_at = date_trunc('second', due_at) + interval '654321 microseconds' WHERE id = $1`,
      [id],
    )
    const due = await dueUsOf(database, id!)
    expect(due % 1_000_000).toBe(654_321)
    const { execute } = await begin()
    const before = await nowUs(database)
    const { nextDueMs, ready } = await scanQueue(execute, queue)
    const after = await nowUs(database)
    const leftUs = (nextDueMs ?? Number.NaN) * 1_000
    expect(ready).toBe(false)
    expect(Math.abs(leftUs - Math.round(leftUs))).toBeLessThan(1e-3)
    expect(due - Math.round(leftUs)).toBeGreaterThanOrEqual(before)
    expect(due - Math.round(leftUs)).toBeLessThanOrEqual(after)
  })

  test('is not misled by due messages beside the ones that are due later', async ({ database, queue, begin }) => {
    await put(database, queue, [{}, { dueInMs: 60_000 }, { priority: 1, dueInMs: 30_000 }])
    const { execute } = await begin()
    const scan = await scanQueue(execute, queue)
    expect(scan.ready).toBe(true)
    expect(scan.nextDueMs).toBeGreaterThan(25_000)
    expect(scan.nextDueMs).toBeLessThanOrEqual(30_000)
  })

  test('tells when a key is free again whose slot has due messages', async ({ database, queue, begin }) => {
    const keys = await keysOf(database)
    const [failed] = await put(database, queue, [{ key: keys.same[0], dueInMs: 40_000 }, { key: keys.same[0] }])
    const { execute } = await begin()
    await ensureSlots(execute, queue, [keys.slot])
    const untilUs = await dueUsOf(database, failed!)
    await holdKeys(execute, queue, [{ slot: keys.slot, orderingKey: keys.same[0], messageId: failed!, untilUs }], 0)
    const { ready, nextDueMs } = await scanQueue(execute, queue)
    expect(ready).toBe(true)
    expect(nextDueMs).toBeGreaterThan(35_000)
    expect(nextDueMs).toBeLessThanOrEqual(40_000)
  })
})

describe('the rows that ordered claims lock', () => {
  test('are made once, whoever makes them, and nobody waits', async ({ database, queue, begin }) => {
    const [one, two] = [await begin(), await begin()]
    await ensureSlots(one.execute, queue, [1, 2])
    await one.commit()
    await one.client.query('SELECT FROM sluice.slot WHERE queue = $1 FOR UPDATE', [queue])
    await ensureSlots(two.execute, queue, [2, 3, 2])
    await two.commit()
    const rows = await database.sql<{ slot: number }>('SELECT slot FROM sluice.slot WHERE queue = $1 ORDER BY slot', [
      queue,
    ])
    expect(rows.map(({ slot }) => slot)).toEqual([1, 2, 3])
  })
})

describe('the poll', () => {
  test('tells of each queue that has messages whether they are keyed, and when the first falls due', async ({
    database,
    queue,
    begin,
  }) => {
    const name = (suffix: string) => `${queue}.${suffix}`
    await put(database, name('due'), [{ dueInMs: 60_000 }, { priority: 7, dueInMs: -5_000 }])
    await put(database, name('later'), [{ priority: 0, dueInMs: 90_000 }, { dueInMs: 60_000 }])
    await put(database, name('keyed'), [{ key: 'a', dueInMs: 60_000 }])
    await put(database, name('both'), [{ key: 'a' }, { dueInMs: 60_000 }])
    await put(database, name('another'), [{}])
    const { execute } = await begin()
    const queues = ['due', 'later', 'keyed', 'both', 'empty'].map(name)
    const polled = new Map((await pollQueues(execute, 0, queues)).queues.map((found) => [found.queue, found]))
    expect([...polled.keys()].sort()).toEqual(['both', 'due', 'keyed', 'later'].map(name))
    expect(polled.get(name('due'))).toMatchObject({
      keyed: false,
      nextDueMs: expect.toSatisfy((ms: number) => ms <= -5_000),
    })
    expect(polled.get(name('later'))).toMatchObject({ keyed: false, nextDueMs: expect.toSatisfy(isIn(55_000, 60_000)) })
    expect(polled.get(name('keyed'))).toMatchObject({ keyed: true, nextDueMs: null })
    expect(polled.get(name('both'))).toMatchObject({ keyed: true, nextDueMs: expect.toSatisfy(isIn(55_000, 60_000)) })
  })
})

function isIn(least: number, most: number): (ms: number) => boolean {
  return (ms) => ms >= least && ms <= most
}

async function dueUsOf(database: TestDatabase, id: string): Promise<number> {
  const [row] = await database.sql<{ us: string }>(`SELECT ${inUs('due_at')} AS us FROM sluice.message WHERE id = $1`, [
    id,
  ])
  return Number(row?.us)
}

async function nowUs(database: TestDatabase): Promise<number> {
  const [row] = await database.sql<{ us: string }>(`SELECT ${inUs('clock_timestamp()')} AS us`)
  return Number(row?.us)
}

function inUs(instant: string): string {
  return `(extract(epoch FROM ${instant}) * 1000000)::bigint::text`
}
