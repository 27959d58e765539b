import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { maintain } from '../../../src/services/maintain.ts'
import { beginPass } from '../../../src/table/maintain/tasks.ts'
import { keepHistory } from '../../support/rows/history.ts'
import { bury } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const DAY_MS = 86_400_000
const NOTHING = {
  expired: 0,
  deadLetters: 0,
  dedupeKeys: 0,
  receipts: 0,
  history: 0,
  historyDropped: 0,
  historyPartitions: 0,
  leftovers: 0,
  segments: 0,
  segmentsDropped: 0,
  finished: true,
}

describe('a pass of maintenance', () => {
  test('does nothing where no queue has settings', async ({ sluice, queue }) => {
    await put(sluice, queue, [1])
    expect(await sluice.operate.maintain()).toEqual(NOTHING)
    expect((await sluice.operate.messages.list({ queue })).messages).toHaveLength(1)
  })

  test('drops expired messages that wait, and none that is in hand or not yet due', async ({
    database,
    sluice,
    queue,
  }) => {
    const [waits, claimed, locked, later, fresh] = await put(sluice, queue, [1, 2, 3, 4, 5], { ttl: '1h' })
    const claim = await sluice.claim(queue, { limit: 2 })
    expect(claim!.messages.map(({ id }) => id)).toEqual([waits, claimed])
    await database.sql('SELECT FROM sluice.claim_settle($1, $2, ARRAY[$3::bigint], $4, delay => $5)', [
      queue,
      claim!.id,
      waits,
      'retry',
      '0 s',
    ])
    const holder = await connect(database)
    await holder.query('BEGIN')
    await holder.query('SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE', [queue, locked])
    await database.sql(
      `UPDATE sluice.message SET expires_at = now() - interval '1 s',
         due_at = CASE id WHEN $3::bigint THEN now() + interval '1 h' ELSE due_at END
       WHERE queue = $1 AND id = ANY ($2::bigint[])`,
      [queue, [waits, claimed, later], later],
    )
    await database.sql(`UPDATE sluice.message SET expires_at = now() + interval '1 h' WHERE queue = $1 AND id = $2`, [
      queue,
      fresh,
    ])
    await holder.query(`UPDATE sluice.message SET expires_at = now() - interval '1 s' WHERE queue = $1 AND id = $2`, [
      queue,
      locked,
    ])
    expect(await sluice.operate.maintain()).toEqual({ ...NOTHING, expired: 1 })
    await holder.query('COMMIT')
    expect((await sluice.operate.messages.list({ queue, order: 'oldest' })).messages.map(({ id }) => id)).toEqual([
      claimed,
      locked,
      later,
      fresh,
    ])
    expect(await sluice.operate.maintain()).toEqual({ ...NOTHING, expired: 1 })
    expect((await sluice.operate.deadLetters.list({ queue })).deadLetters).toEqual([])
    // What was in hand ends as it would have.
    expect(await claim!.settle(claim!.messages.slice(1))).toMatchObject({ settled: [claimed] })
  })

  test('moves them to the dead letters where the queue says so, and opens their keys', async ({
    database,
    sluice,
    queue,
  }) => {
    await database.sql(`INSERT INTO sluice.queue (queue, on_expiry) VALUES ($1, 'dead_letter')`, [queue])
    const [first] = await put(sluice, queue, [1], { ttl: '1h', orderingKey: 'k' })
    const [second] = await put(sluice, queue, [2], { orderingKey: 'k' })
    const claim = await sluice.claim(queue)
    expect(claim!.messages.map(({ id }) => id)).toEqual([first])
    await database.sql(`SELECT FROM sluice.claim_settle($1, $2, outcome => 'retry', delay => '0 s', error => 'no')`, [
      queue,
      claim!.id,
    ])
    await database.sql(`UPDATE sluice.message SET expires_at = now() WHERE queue = $1 AND id = $2`, [queue, first])
    expect(await sluice.operate.maintain()).toEqual({ ...NOTHING, expired: 1 })
    expect(await sluice.operate.deadLetters.get(queue, first!)).toMatchObject({
      reason: 'expired',
      error: 'no',
      attempt: 1,
      payload: 1,
    })
    expect((await sluice.pop(queue)).map(({ id }) => id)).toEqual([second])
  })

  test('deletes dead letters that are older than their queue keeps them', async ({ database, sluice, queue }) => {
    await database.sql(`INSERT INTO sluice.queue (queue, dead_letter_retention_ms) VALUES ($1, $2)`, [
      queue,
      2 * DAY_MS,
    ])
    await bury(database, { queue, count: 2, agoMs: 3 * DAY_MS })
    const [young] = await bury(database, { queue, agoMs: DAY_MS })
    await bury(database, { queue: `${queue}.other`, agoMs: 30 * DAY_MS })
    expect(await sluice.operate.maintain()).toEqual({ ...NOTHING, deadLetters: 2 })
    const { deadLetters } = await sluice.operate.deadLetters.list({ queue })
    expect(deadLetters.map(({ id }) => id)).toEqual([young])
    expect((await sluice.operate.deadLetters.list({ queue: `${queue}.other` })).deadLetters).toHaveLength(1)
  })

  test('takes more than one step where there is more than a step may take', async ({ database, sluice, queue }) => {
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, expires_at) SELECT $1, '1', now() - interval '1 s' FROM generate_series(1, 2500)`,
      [queue],
    )
    const steps: string[] = []
    const result = await maintain({
      inTransaction: async (work) => {
        const client = await connect(database)
        await client.query('BEGIN')
        const taken = await work(async ({ name, text }, params) => {
          steps.push(name)
          return (await client.query(text, [...params])).rows
        })
        await client.query('COMMIT')
        return taken
      },
      inSession: () => Promise.reject(new Error('no segment is to go')),
      onFailed: (_, error) => {
        throw error
      },
    })
    expect(result).toEqual({ ...NOTHING, expired: 2_500 })
    expect(steps.filter((name) => name === 'sluice_maintain_expired')).toHaveLength(3)
    expect((await sluice.operate.messages.list({ queue })).messages).toEqual([])
  })

  test('leaves the work to another process that is at it', async ({ database, sluice }) => {
    const other = await connect(database)
    await other.query('BEGIN')
    await other.query('SELECT pg_advisory_xact_lock(746503, 0)')
    expect(await sluice.operate.maintain()).toEqual({ ...NOTHING, finished: false })
    await other.query('COMMIT')
    expect(await sluice.operate.maintain()).toEqual(NOTHING)
  })
})

describe('the history', () => {
  test('is kept for as long as its queue says, in whole days, and dropped by the day', async ({
    database,
    sluice,
    queue,
  }) => {
    await database.sql('DELETE FROM sluice.queue')
    await keepHistory(database, queue, 3 * DAY_MS)
    await keepHistory(database, `${queue}.short`, DAY_MS)
    for (const ago of [-1, 0, 1, 2, 3, 4, 5]) await partition(database, ago)
    for (const name of [queue, `${queue}.short`, `${queue}.none`])
      for (const ago of [0, 1, 2, 3, 4, 5]) await completed(database, name, ago)
    // Of a queue that keeps none: all of them. Of the one that keeps a day: those of the two days before yesterday.
    expect(await sluice.operate.maintain()).toMatchObject({ historyDropped: 2, history: 4 + 2, finished: true })
    expect(await daysOf(database, queue)).toEqual([3, 2, 1, 0])
    expect(await daysOf(database, `${queue}.short`)).toEqual([1, 0])
    expect(await daysOf(database, `${queue}.none`)).toEqual([])
    expect(await sluice.operate.maintain()).toEqual(NOTHING)
  })

  test('is emptied where it cannot be dropped at once, and keeps no settlement waiting', async ({
    database,
    sluice,
    queue,
  }) => {
    await database.sql('DELETE FROM sluice.queue')
    await database.sql('TRUNCATE sluice.completed_message')
    await keepHistory(database, queue, DAY_MS)
    const old = await partition(database, 9)
    await completed(database, queue, 9)
    await put(sluice, queue, [1, 2])
    const settling = await connect(database)
    await settling.query('BEGIN')
    await settling.query('SELECT FROM sluice.pop($1)', [queue])
    expect(await sluice.operate.maintain()).toEqual({ ...NOTHING, finished: true })
    expect(await database.sql(`SELECT FROM sluice.${old}`)).toEqual([])
    expect(await sluice.pop(queue)).toHaveLength(1)
    await settling.query('COMMIT')
    expect((await sluice.operate.maintain()).historyDropped).toBeGreaterThan(0)
    expect(await database.sql(`SELECT to_regclass('sluice.${old}') AS gone`)).toEqual([{ gone: null }])
    expect((await sluice.operate.history.list({ queue })).messages).toHaveLength(2)
  })

  test('has its next days made ahead', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue)
    await database.sql(`DROP TABLE sluice.${await nameOf(database, -3)}`)
    expect(await sluice.operate.maintain()).toMatchObject({ historyPartitions: 1 })
    expect(await database.sql(`SELECT FROM sluice.${await nameOf(database, -3)}`)).toEqual([])
  })
})

describe('workers', () => {
  test('make one pass per interval, whoever of them is first', async ({ database, queue }) => {
    const passes: string[] = []
    for (const name of ['a', 'b', 'c']) {
      const sluice = startTestSluice(database, { name, maintenanceInterval: '1s' })
      sluice.events.subscribe(({ kind }) => kind === 'maintenance.done' && passes.push(name))
      sluice
        .pipeline(queue)
        .handle(() => undefined)
        .start()
    }
    const startedAt = performance.now()
    await waitFor(() => passes.length >= 2, { what: 'two passes' })
    const took = performance.now() - startedAt
    expect(passes.length).toBeLessThanOrEqual(took / 900 + 1)
    const begunBy = async () => (await database.sql('SELECT begun_by FROM sluice.maintenance'))[0]?.begun_by
    // The next one may have begun meanwhile.
    await waitFor(async () => (await begunBy()) === passes.at(-1), { what: 'the pass of who is noted' })
  })

  test('make their passes also where the row that says whose turn it is is missing', async ({ database }) => {
    await database.sql('DELETE FROM sluice.maintenance')
    const client = await connect(database)
    const execute = executeOn(client)
    expect(await beginPass(execute, 'a', 60_000)).toBe(true)
    expect(await beginPass(execute, 'b', 60_000)).toBe(false)
    expect(await database.sql('SELECT begun_by FROM sluice.maintenance')).toEqual([{ begun_by: 'a' }])
    expect(await beginPass(execute, 'c', null)).toBe(true)
    expect(await database.sql('SELECT begun_by FROM sluice.maintenance')).toEqual([{ begun_by: 'c' }])
  })

  test('remove what has expired by themselves, and report a task that fails', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { maintenanceInterval: '1s' })
    const failed: string[] = []
    sluice.events.subscribe((event) => event.kind === 'maintenance.failed' && failed.push(event.task))
    await database.sql('ALTER FUNCTION sluice.prune_dead_letters RENAME TO hidden')
    await database.sql(`INSERT INTO sluice.message (queue, payload, expires_at) VALUES ($1, '1', now())`, [
      `${queue}.other`,
    ])
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .start()
    const gone = async () =>
      (await database.sql('SELECT FROM sluice.message WHERE queue = $1', [`${queue}.other`])).length === 0
    await waitFor(gone, { what: 'the expired message to be gone' })
    await waitFor(() => failed.length > 0, { what: 'the report' })
    await database.sql('ALTER FUNCTION sluice.hidden RENAME TO prune_dead_letters')
    expect(new Set(failed)).toEqual(new Set(['deadLetters']))
  })

  test('and a process that only enqueues starts none of it: it ends by itself, and had no session of ours', async ({
    database,
    queue,
  }) => {
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', PRODUCER], {
      env: { ...process.env, URL: database.url, QUEUE: queue },
      timeout: 60_000,
    })
    expect(JSON.parse(stdout)).toEqual({ timers: 0, sessions: [] })
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).toHaveLength(1)
  })
})

const PRODUCER = `
import pg from 'pg'
import { createSluice } from '${new URL('../../../src/index.ts', import.meta.url)}'
const client = new pg.Client({ connectionString: process.env.URL })
await client.connect()
const sluice = createSluice({ connection: process.env.URL, maintenanceInterval: '1s' })
await client.query('BEGIN')
await sluice.enqueue(client, process.env.QUEUE, 1)
await client.query('COMMIT')
const { rows } = await client.query(
  "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'sluice%'",
)
const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
console.log(JSON.stringify({ timers, sessions: rows }))
await client.end()
`

/** The partition of so many days ago. */
async function partition(database: TestDatabase, daysAgo: number): Promise<string> {
  const name = await nameOf(database, daysAgo)
  await database.sql(`
    DO $$ DECLARE day timestamptz := sluice_private.day_of(now()) - interval '24 hours' * ${daysAgo}; BEGIN
      EXECUTE format('CREATE TABLE IF NOT EXISTS sluice.${name} PARTITION OF sluice.completed_message FOR VALUES FROM (%L) TO (%L)',
        day, day + interval '24 hours');
    END $$`)
  return name
}

async function nameOf(database: TestDatabase, daysAgo: number): Promise<string> {
  const [row] = await database.sql<{ name: string }>(
    `SELECT 'completed_' || to_char((now() - interval '24 hours' * $1::integer) AT TIME ZONE 'UTC', 'YYYYMMDD') AS name`,
    [daysAgo],
  )
  return row!.name
}

async function completed(database: TestDatabase, queue: string, daysAgo: number): Promise<void> {
  await database.sql(
    `INSERT INTO sluice.completed_message (queue, id, completed_at, priority, schema_version, payload, headers, attempt, enqueued_at)
     VALUES ($1, $2::bigint, sluice_private.day_of(now()) - interval '24 hours' * $2::bigint::integer, 5, 1, '1', '{}', 1, now())`,
    [queue, daysAgo],
  )
}

async function daysOf(database: TestDatabase, queue: string): Promise<readonly number[]> {
  const rows = await database.sql<{ id: string }>('SELECT id FROM sluice.completed WHERE queue = $1 ORDER BY id DESC', [
    queue,
  ])
  return rows.map(({ id }) => Number(id))
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  return client
}
