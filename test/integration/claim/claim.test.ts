import { describe, expect } from 'vitest'
import { claim } from '../../../src/table/claim/claim.ts'
import { bottomOf, idsOf, lockedIds, put, test } from '../../support/rows/claim-session.ts'

const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))

describe('a claim takes', () => {
  test('the lowest priority number first, then by due time, then by id', async ({ database, queue, begin }) => {
    const [late, early, urgent, later] = await put(database, queue, [
      { dueInMs: -1_000 },
      { dueInMs: -2_000 },
      { priority: 0, dueInMs: -1 },
      { priority: 9, dueInMs: -9_000 },
    ])
    await database.sql(
      'UPDATE sluice.message SET due_at = (SELECT due_at FROM sluice.message WHERE id = $1) WHERE id = $2',
      [early, late],
    )
    const { execute } = await begin()
    expect(idsOf(await claim(execute, queue, bottomOf(0, 5, 9), 10))).toEqual([urgent, late, early, later])
  })

  test('as many as it may, and says what the clock was', async ({ database, queue, begin }) => {
    const ids = await put(
      database,
      queue,
      many(5, () => ({})),
    )
    const { execute, rollBack } = await begin()
    const before = await nowUs(database)
    const taken = await claim(execute, queue, bottomOf(5), 3)
    expect(idsOf(taken)).toEqual(ids.slice(0, 3))
    expect(taken.nowUs).toBeGreaterThanOrEqual(before)
    expect(taken.nowUs).toBeLessThanOrEqual(await nowUs(database))
    await rollBack()
    expect(idsOf(await claim(execute, queue, bottomOf(5), 10))).toEqual(ids)
  })

  test('nothing of an empty queue, and still says what the clock was', async ({ queue, begin }) => {
    const { execute } = await begin()
    const nothing = {
      nowUs: expect.any(Number),
      transaction: { pid: expect.any(Number), startedUs: expect.any(Number) },
      memory: expect.any(String),
      evidence: false,
      rows: [],
    }
    expect(await claim(execute, queue, bottomOf(5), 3)).toEqual(nothing)
    expect(await claim(execute, queue, [], 3)).toEqual(nothing)
  })

  test('no message that is not due yet', async ({ database, queue, begin }) => {
    const [due, soon] = await put(database, queue, [{ dueInMs: 0 }, { dueInMs: 3_000 }, { dueInMs: 60_000 }])
    const { execute } = await begin()
    expect(idsOf(await claim(execute, queue, bottomOf(5), 10))).toEqual([due])
    await database.sql('SELECT pg_sleep_until(max(due_at)) FROM sluice.message WHERE id = $1', [soon])
    // The clock is the statement's: the transaction has been open for longer.
    expect(idsOf(await claim(execute, queue, bottomOf(5), 10))).toEqual([due, soon])
  })

  test('no message with an ordering key, of another queue, or of a priority not asked for', async ({
    database,
    queue,
    begin,
  }) => {
    await put(database, queue, [{ key: 'a' }, { priority: 6 }])
    await put(database, `${queue}.other`, [{}])
    const { execute } = await begin()
    expect(idsOf(await claim(execute, queue, bottomOf(0, 5), 10))).toEqual([])
  })

  test('what a floor leaves above it, to the microsecond and the id', async ({ database, queue, begin }) => {
    const ids = await put(
      database,
      queue,
      many(4, () => ({})),
    )
    const dueUs = 1_700_000_000_123_456
    await database.sql(
      `UPDATE sluice.message SET due_at = timestamptz 'epoch' + ($2::bigint + (id > $3)::integer) * interval '1 microsecond' WHERE queue = $1`,
      [queue, dueUs, ids[2]],
    )
    const { execute, rollBack } = await begin()
    const above = async (floorUs: number, id: string) => {
      const taken = await claim(execute, queue, [{ priority: 5, dueUs: floorUs, id }], 10)
      await rollBack()
      return idsOf(taken)
    }
    expect(await above(dueUs, '0')).toEqual(ids)
    expect(await above(dueUs, ids[1]!)).toEqual(ids.slice(2))
    expect(await above(dueUs, '9223372036854775807')).toEqual(ids.slice(3))
    expect(await above(dueUs + 1, ids[3]!)).toEqual([])
  })

  test('due times to the microsecond, and ids beyond what a double holds', async ({ database, queue, begin }) => {
    await database.sql(
      `INSERT INTO sluice.message (queue, id, due_at, enqueued_at, payload)
       VALUES ($1, 9007199254740993, '2024-02-29 12:34:56.654321+00', '2024-02-29 12:34:56.123457+00', '[1]')`,
      [queue],
    )
    const { execute } = await begin()
    const { rows } = await claim(execute, queue, bottomOf(5), 1)
    expect(rows).toEqual([
      {
        id: '9007199254740993',
        priority: 5,
        dueUs: Date.UTC(2024, 1, 29, 12, 34, 56) * 1_000 + 654_321,
        enqueuedUs: Date.UTC(2024, 1, 29, 12, 34, 56) * 1_000 + 123_457,
        slot: null,
        orderingKey: null,
        type: null,
        schemaVersion: 1,
        payload: '[1]',
        headers: '{}',
        attempt: 0,
        expired: false,
        maxAttempts: null,
        options: null,
      },
    ])
  })
})

describe('two sessions', () => {
  test('never get the same message', async ({ database, queue, begin }) => {
    const ids = await put(
      database,
      queue,
      many(8, () => ({})),
    )
    const [one, two] = [await begin(), await begin()]
    expect(idsOf(await claim(one.execute, queue, bottomOf(5), 3))).toEqual(ids.slice(0, 3))
    expect(idsOf(await claim(two.execute, queue, bottomOf(5), 10))).toEqual(ids.slice(3))
    expect(idsOf(await claim((await begin()).execute, queue, bottomOf(5), 10))).toEqual([])
  })

  test('that claim at the same time share a queue out, whoever is faster', async ({ database, queue, begin }) => {
    const ids = await put(
      database,
      queue,
      many(120, (at) => ({ priority: at % 3 })),
    )
    const sessions = await Promise.all(many(6, begin))
    const claims = sessions.map(async ({ execute }) => {
      let taken: readonly string[] = []
      // In one transaction all that was taken before is taken again: only what is new counts.
      for (let limit = 5; limit <= 20; limit += 5) taken = idsOf(await claim(execute, queue, bottomOf(0, 1, 2), limit))
      return taken
    })
    const taken = (await Promise.all(claims)).flat()
    expect(new Set(taken).size).toBe(taken.length)
    expect(taken.toSorted(byId)).toEqual(ids)
  })

  test('give back what they took when they roll back or break', async ({ database, queue, begin }) => {
    const ids = await put(
      database,
      queue,
      many(2, () => ({})),
    )
    const [one, two] = [await begin(), await begin()]
    await claim(one.execute, queue, bottomOf(5), 2)
    expect(await lockedIds(database, queue)).toEqual(ids)
    one.client.on('error', () => undefined)
    await database.sql('SELECT pg_terminate_backend($1, 5000)', [one.pid])
    expect(idsOf(await claim(two.execute, queue, bottomOf(5), 2))).toEqual(ids)
    await two.rollBack()
    expect(await lockedIds(database, queue)).toEqual([])
  })

  test('leave no trace in the rows that they claimed and did not settle', async ({ database, queue, begin }) => {
    await put(
      database,
      queue,
      many(3, () => ({})),
    )
    const versions = () =>
      database.sql('SELECT id, ctid::text, xmin::text FROM sluice.message WHERE queue = $1', [queue])
    const before = await versions()
    const { execute, commit } = await begin()
    await claim(execute, queue, bottomOf(5), 3)
    await commit()
    expect(await versions()).toEqual(before)
  })
})

async function nowUs(database: { sql(text: string): Promise<{ us?: string }[]> }): Promise<number> {
  const [row] = await database.sql('SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text AS us')
  return Number(row?.us)
}

function byId(a: string, b: string): number {
  return Number(a) - Number(b)
}
