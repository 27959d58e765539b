import { describe, expect } from 'vitest'
import { claim } from '../../../src/table/claim/claim.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import { bottomOf, idsOf, put, test } from '../../support/rows/claim-session.ts'
import { deadLetterMessages } from '../../support/rows/write-settled.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

describe('sluice.redrive', () => {
  test('puts dead letters back as they were, due now, with their attempts from zero', async ({
    database,
    queue,
    begin,
  }) => {
    const enqueuedAt = new Date('2024-02-29T12:34:56.789Z')
    const [row] = await database.sql<{ id: string }>(
      `INSERT INTO sluice.message (queue, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, enqueued_at)
       VALUES ($1, 2, 'a key', 'order.paid', 3, '{"total": 12.50}', '{"trace": "abc"}', 4, 5, $2) RETURNING id::text AS id`,
      [queue, enqueuedAt],
    )
    const id = row!.id
    const { execute, commit } = await begin()
    await deadLetterMessages(execute, queue, [
      { id, attempt: 5, reason: 'failed 5 of 5 attempts', error: 'Error: broken' },
    ])
    await commit()
    expect(await redrive(database, 'queue => $1', [queue])).toBe(1)
    const [message] = await database.sql(
      `SELECT m.*, m.id::text AS id, m.payload::text AS payload, due_at <= clock_timestamp() AS due FROM sluice.messages m WHERE m.queue = $1`,
      [queue],
    )
    expect(message).toMatchObject({
      id,
      state: 'ready',
      priority: 2,
      ordering_key: 'a key',
      type: 'order.paid',
      schema_version: 3,
      payload: '{"total": 12.50}',
      headers: { trace: 'abc' },
      attempt: 0,
      max_attempts: 5,
      enqueued_at: enqueuedAt,
      last_error: 'Error: broken',
      failed_at: null,
      due: true,
    })
    expect(await deadIds(database, queue)).toEqual([])
  })

  test('takes the ids given, and no dead letter twice', async ({ database, queue }) => {
    const ids = await bury(database, queue, [{}, {}, {}])
    expect(await redrive(database, 'queue => $1, ids => $2', [queue, [ids[2], ids[0], '4711']])).toBe(2)
    expect(await redrive(database, 'queue => $1, ids => $2', [queue, ids.slice(0, 1)])).toBe(0)
    expect(await deadIds(database, queue)).toEqual([ids[1]])
  })

  test('takes only what matches every filter, in this queue', async ({ database, queue }) => {
    const ids = await bury(database, queue, [
      { type: 'paid', agoMin: 60 },
      { type: 'paid', agoMin: 30 },
      { type: 'sent', agoMin: 30 },
      { type: 'paid', agoMin: 5 },
    ])
    const others = await bury(database, `${queue}.other`, [{ type: 'paid', agoMin: 30 }])
    const filters = `queue => $1, type => 'paid', died_before => clock_timestamp() - interval '10 min',
                     died_after => clock_timestamp() - interval '40 min'`
    expect(await redrive(database, filters, [queue])).toBe(1)
    expect(await deadIds(database, queue)).toEqual([ids[0], ids[2], ids[3]])
    expect(await deadIds(database, `${queue}.other`)).toEqual(others)
  })

  test('wakes whoever sleeps on the queue', async ({ database, queue }) => {
    await bury(database, queue, [{}, {}])
    await using sleeper = await sleepOn(database.url, queue)
    await redrive(database, 'queue => $1', [queue])
    expect(await sleeper.notifications()).toEqual([queue])
  })

  test('is undone with its transaction', async ({ database, queue, begin }) => {
    const ids = await bury(database, queue, [{}])
    const { client, rollBack } = await begin()
    await client.query('SELECT sluice.redrive($1)', [queue])
    await rollBack()
    expect(await deadIds(database, queue)).toEqual(ids)
    const { execute } = await begin()
    expect(idsOf(await claim(execute, queue, bottomOf(5), 10))).toEqual([])
  })

  test('by two operators at once redrives each dead letter once', async ({ database, queue, begin }) => {
    const ids = await bury(database, queue, [{}, {}, {}])
    const [one, two] = [await begin(), await begin()]
    const counted = (client: typeof one.client) =>
      client.query<{ n: string }>('SELECT sluice.redrive($1) AS n', [queue]).then(({ rows }) => Number(rows[0]?.n))
    expect(await counted(one.client)).toBe(3)
    const waiting = counted(two.client)
    await one.commit()
    expect(await waiting).toBe(0)
    await two.commit()
    const { execute } = await begin()
    expect(idsOf(await claim(execute, queue, bottomOf(5), 10)).toSorted()).toEqual([...ids].sort())
  })
})

describe('sluice.enqueue', () => {
  test.for([
    { args: `'no spaces', '1'`, says: 'queue: 1 to 100 letters, digits and _ . : - (no . : - first)' },
    { args: `'q', '1', priority => 10`, says: 'priority: from 0 to 9' },
    { args: `'q', '1', priority => -70000`, says: 'priority: from 0 to 9' },
    { args: `'q', '1', priority => 70000`, says: 'priority: from 0 to 9' },
    { args: `'q', '1', ordering_key => ''`, says: 'ordering_key: 1 to 255 bytes' },
    { args: `'q', '1', type => repeat('x', 256)`, says: 'type: 1 to 255 bytes' },
    { args: `'q', '1', schema_version => 0`, says: 'schema_version: 1 or more' },
    { args: `'q', '1', headers => '[]'`, says: 'headers: a JSON object' },
    { args: `'q', '1', max_attempts => 0`, says: 'max_attempts: 1 or more' },
  ])('says what it expected: $says', async ({ args, says }, { database }) => {
    await expect(database.sql(`SELECT sluice.enqueue(${args})`)).rejects.toMatchObject({
      code: '23514',
      message: expect.stringContaining(`"${says}"`),
    })
  })
})

describe('sluice.peek', () => {
  test('shows the next messages of one queue in the order in which they fall due', async ({ database, queue }) => {
    const ids = await put(database, queue, [{ dueInMs: 60_000 }, { dueInMs: -1_000 }, { dueInMs: -9_000, key: 'a' }])
    await put(database, `${queue}.other`, [{ dueInMs: -99_000 }])
    expect(await peek(database, 'queue => $1', [queue])).toEqual([ids[2], ids[1], ids[0]])
  })

  test('shows ten, or as many as asked for', async ({ database, queue }) => {
    const ids = await put(
      database,
      queue,
      Array.from({ length: 12 }, () => ({})),
    )
    expect(await peek(database, 'queue => $1', [queue])).toEqual(ids.slice(0, 10))
    expect(await peek(database, '$1, 12', [queue])).toEqual(ids)
    expect(await peek(database, 'queue => $1, max => 1', [queue])).toEqual(ids.slice(0, 1))
    expect(await peek(database, 'queue => $1', [`${queue}.empty`])).toEqual([])
  })

  test('waits for nobody, and takes nothing away', async ({ database, queue, begin }) => {
    const ids = await put(database, queue, [{}, {}])
    const { execute } = await begin()
    await claim(execute, queue, bottomOf(5), 1)
    expect(await peek(database, 'queue => $1', [queue])).toEqual(ids)
    const other = await begin()
    expect(idsOf(await claim(other.execute, queue, bottomOf(5), 2))).toEqual(ids.slice(1))
  })
})

async function redrive(database: TestDatabase, args: string, params: readonly unknown[]): Promise<number> {
  const [row] = await database.sql<{ n: string }>(`SELECT sluice.redrive(${args}) AS n`, params)
  return Number(row?.n)
}

async function peek(database: TestDatabase, args: string, params: readonly unknown[]): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }>(`SELECT id::text AS id FROM sluice.peek(${args})`, params)
  return rows.map(({ id }) => id)
}

/** Puts dead letters into a queue, dead for so many minutes, and returns their ids, in order. */
async function bury(
  database: TestDatabase,
  queue: string,
  letters: readonly { readonly type?: string; readonly agoMin?: number }[],
): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }>(
    `INSERT INTO sluice.dead_letter
       (queue, id, priority, type, schema_version, payload, headers, attempt, reason, enqueued_at, died_at)
     SELECT $1, nextval(pg_get_serial_sequence('sluice.message', 'id')), 5, l.type, 1, '{}', '{}', 3, 'broken',
            clock_timestamp(), clock_timestamp() - l.ago_min * interval '1 minute'
     FROM unnest($2::text[], $3::integer[]) WITH ORDINALITY AS l (type, ago_min, ordinal) ORDER BY l.ordinal
     RETURNING id::text AS id`,
    [queue, letters.map(({ type = 'paid' }) => type), letters.map(({ agoMin = 0 }) => agoMin)],
  )
  return rows.map(({ id }) => id)
}

async function deadIds(database: TestDatabase, queue: string): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }>(
    'SELECT d.id::text AS id FROM sluice.dead_letters d WHERE d.queue = $1 ORDER BY d.id',
    [queue],
  )
  return rows.map(({ id }) => id)
}
