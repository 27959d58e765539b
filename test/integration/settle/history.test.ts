import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { Message } from '../../../src/message.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { keepHistory } from '../../support/rows/history.ts'
import { ackAndKeep } from '../../support/rows/write-settled.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const DAY_MS = 86_400_000
const MODES = ['transactional', 'leased'] as const

describe('the history', () => {
  test('has nothing of a queue that is not set to keep it', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    await sluice.pop(queue)
    expect((await sluice.operate.history.list({ queue })).messages).toEqual([])
    expect(await database.sql('SELECT FROM sluice.completed_message WHERE queue = $1', [queue])).toEqual([])
  })

  test('has a message of a claim as it was, with its claim and its times', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue)
    const options = {
      type: 'order.paid',
      headers: { trace: 'abc' },
      orderingKey: 'k',
      priority: 3,
      maxAttempts: 7,
    }
    const [id = ''] = await put(sluice, queue, [{ order: 1 }], options)
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages)
    const completed = await sluice.operate.history.get(queue, id)
    expect(completed).toEqual({
      queue,
      id,
      state: 'completed',
      completedAt: expect.any(Date),
      ageMs: expect.any(Number),
      claimedAt: expect.any(Date),
      tookMs: expect.any(Number),
      worker: null,
      claim: claim?.id,
      attempt: 1,
      maxAttempts: 7,
      failedAt: null,
      lastError: null,
      enqueuedAt: expect.any(Date),
      type: 'order.paid',
      schemaVersion: 1,
      orderingKey: 'k',
      priority: 3,
      tenant: null,
      dedupeKey: null,
      headers: { trace: 'abc' },
      headersJson: '{"trace": "abc"}',
      payload: { order: 1 },
      payloadJson: '{"order": 1}',
    })
    expect(completed!.claimedAt <= completed!.completedAt).toBe(true)
    expect(completed!.tookMs).toBeLessThan(60_000)
    expect(await sluice.operate.history.get(`${queue}.other`, id)).toBeUndefined()
    expect(await sluice.operate.messages.status(queue, { id })).toMatchObject({ id, state: 'completed' })
    expect(await sluice.operate.messages.status(queue, { id: '1' })).toMatchObject({ state: 'unknown' })
  })

  test('has what was popped, and nothing of what failed, was put off or died', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue)
    const ids = await put(sluice, queue, [1, 2, 3, 4, 5])
    const [popped] = await sluice.pop(queue)
    const claim = await sluice.claim(queue)
    for (const [at, outcome] of ['retry', 'snooze', 'dead_letter'].entries()) {
      await database.sql(
        `SELECT FROM sluice.claim_settle($1, $2, ARRAY[$3::bigint], $4, delay => $5::interval, reason => $6)`,
        [queue, claim!.id, claim!.messages[at]!.id, outcome, at < 2 ? '1 s' : null, at < 2 ? null : 'no'],
      )
    }
    await claim!.release()
    const { messages } = await sluice.operate.history.list({ queue })
    expect(messages.map(({ id }) => id)).toEqual([popped!.id])
    expect(messages[0]).toMatchObject({ id: ids[0], claim: null, worker: null, attempt: 1 })
  })

  test('says which try succeeded, and how the one before failed', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue)
    const [id = ''] = await put(sluice, queue, [1])
    const first = await sluice.claim(queue)
    await database.sql(
      `SELECT FROM sluice.claim_settle($1, $2, outcome => 'retry', delay => interval '0', error => 'closed')`,
      [queue, first!.id],
    )
    await sluice.pop(queue)
    expect(await sluice.operate.history.get(queue, id)).toMatchObject({
      attempt: 2,
      lastError: 'closed',
      failedAt: expect.any(Date),
    })
  })

  test('rolls back with the transaction that settles', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue)
    await put(sluice, queue, [1])
    const client = await connect(database)
    await client.query('BEGIN')
    await client.query('SELECT FROM sluice.pop($1)', [queue])
    await client.query('ROLLBACK')
    expect((await sluice.operate.history.list({ queue })).messages).toEqual([])
    expect(await sluice.pop(queue)).toHaveLength(1)
  })

  test('comes in pages, the latest first, without one twice or missing', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue, 30 * DAY_MS)
    // Several at one instant, on both sides of midnight.
    await database.sql(
      `INSERT INTO sluice.completed_message (queue, id, completed_at, claimed_at, priority, schema_version, payload, headers, attempt, enqueued_at, type, tenant)
       SELECT $1, n, date_trunc('day', now()) - (n / 5) * interval '7 hours', now(), 5, 1, to_jsonb(n), '{}', 1, now(), 't' || n % 2, 'acme' || n % 10
       FROM generate_series(1, 53) n`,
      [queue],
    )
    const seen: string[] = []
    const sizes: number[] = []
    for (let after: string | null = null; ; ) {
      const page = await sluice.operate.history.list({ queue, limit: 10, after })
      seen.push(...page.messages.map(({ id }) => id))
      sizes.push(page.messages.length)
      after = page.next
      if (after === null) break
    }
    expect(sizes).toEqual([10, 10, 10, 10, 10, 3])
    expect(new Set(seen).size).toBe(53)
    const rows = await database.sql<{ id: string }>(
      `SELECT id FROM sluice.completed WHERE queue = $1 ORDER BY completed_at DESC, id DESC`,
      [queue],
    )
    expect(seen).toEqual(rows.map(({ id }) => id))
    const { messages } = await sluice.operate.history.list({ queue, type: 't1', limit: 100 })
    expect(messages).toHaveLength(27)
    const ofTenant = await sluice.operate.history.list({ queue, tenant: 'acme1', limit: 100 })
    expect(ofTenant.messages.map(({ id }) => Number(id) % 10)).toEqual(Array(6).fill(1))
    const middle = seen[24]
    const [row] = await database.sql<{ at: Date }>('SELECT completed_at AS at FROM sluice.completed WHERE id = $1', [
      middle,
    ])
    const before = await sluice.operate.history.list({ queue, completedBefore: row?.at, limit: 100 })
    const since = await sluice.operate.history.list({ queue, completedAfter: row?.at, limit: 100 })
    expect([...since.messages, ...before.messages].map(({ id }) => id)).toEqual(seen)
    expect(before.messages.length).toBeGreaterThan(20)
    expect(since.messages.length).toBeGreaterThan(20)
  })

  test('takes messages of a day that has no partition, and shows them', async ({ database, sluice, queue }) => {
    await keepHistory(database, queue)
    const [id = ''] = await put(sluice, queue, [1])
    const client = await connect(database)
    await client.query('BEGIN')
    for (const { name } of await database.sql<{ name: string }>(PARTITIONS))
      await client.query(`DROP TABLE sluice.${name}`)
    await client.query('SELECT FROM sluice.pop($1)', [queue])
    await client.query('COMMIT')
    expect(await database.sql('SELECT id FROM sluice.completed_default WHERE queue = $1', [queue])).toEqual([{ id }])
    expect(await sluice.operate.history.get(queue, id)).toMatchObject({ id })
    // Today stays in the default partition; the next days get theirs.
    await database.sql('SELECT sluice.make_history()')
    expect(await database.sql(PARTITIONS)).toHaveLength(7)
    await database.sql('DELETE FROM sluice.completed_default')
    expect(await database.sql('SELECT sluice.make_history() AS made')).toEqual([{ made: 1 }])
  })

  test('keeps no settlement waiting for a look through a large default partition', async ({
    database,
    sluice,
    queue,
  }) => {
    await keepHistory(database, queue)
    // While autovacuum has the default partition, no other one is attached: make_history waits for 50 ms, and makes none.
    await database.sql('ALTER TABLE sluice.completed_default SET (autovacuum_enabled = off)')
    const client = await connect(database)
    for (const { name } of await database.sql<{ name: string }>(PARTITIONS))
      await client.query(`DROP TABLE sluice.${name}`)
    await database.sql(
      `INSERT INTO sluice.completed_message (queue, id, completed_at, priority, schema_version, payload, headers, attempt, enqueued_at)
       SELECT $1, n, now(), 5, 1, to_jsonb(repeat(md5(n::text), 30)), '{}', 1, now() FROM generate_series(1, 3000) n`,
      [queue],
    )
    await client.query('BEGIN')
    expect((await client.query('SELECT sluice.make_history() AS made')).rows).toEqual([{ made: 0 }])
    expect((await client.query(LOCKED_DEFAULT)).rows).toEqual([])
    await client.query('COMMIT')
    // As the page on the history says: then nobody looks through it.
    await database.sql(`
      DO $$ BEGIN EXECUTE format('ALTER TABLE sluice.completed_default ADD CONSTRAINT past CHECK (completed_at < %L) NOT VALID',
        sluice_private.day_of(now()) + interval '24 hours'); END $$`)
    await database.sql('ALTER TABLE sluice.completed_default VALIDATE CONSTRAINT past')
    expect(await database.sql('SELECT sluice.make_history() AS made')).toEqual([{ made: 7 }])
    await database.sql('ALTER TABLE sluice.completed_default DROP CONSTRAINT past')
    // Where today has a partition, a settlement has nothing to do with the default one.
    // VACUUM would keep the file as large as it is while an autovacuum analyzes any table of the database.
    await database.sql('TRUNCATE sluice.completed_default')
    expect(await database.sql('SELECT sluice.make_history() AS made')).toEqual([{ made: 1 }])
    await put(sluice, queue, [1])
    await client.query('BEGIN')
    await client.query('LOCK TABLE sluice.completed_default')
    expect(await sluice.pop(queue)).toHaveLength(1)
    await client.query('COMMIT')
  })

  test('has days of UTC, whatever the session has set', async ({ database, queue }) => {
    await keepHistory(database, queue)
    const bounds = await database.sql(BOUNDS)
    const client = await connect(database)
    for (const { name } of await database.sql<{ name: string }>(PARTITIONS))
      await client.query(`DROP TABLE sluice.${name}`)
    await client.query(`SET timezone = 'Asia/Kolkata'`)
    await client.query(`SET datestyle = 'SQL, DMY'`)
    expect((await client.query('SELECT sluice.make_history() AS made')).rows).toEqual([{ made: 8 }])
    expect(await database.sql(BOUNDS)).toEqual(bounds)
  })

  test('passes over a day that partitions of other bounds have', async ({ database, queue }) => {
    await keepHistory(database, queue)
    const partitions = await database.sql<{ name: string }>(PARTITIONS)
    const [, , third, fourth] = partitions.map(({ name }) => name)
    await database.sql(`DROP TABLE sluice.${third}, sluice.${fourth}`)
    await database.sql(`
      DO $$ DECLARE day timestamptz := sluice_private.day_of_partition('${third}'); BEGIN
        EXECUTE format('CREATE TABLE sluice.half PARTITION OF sluice.completed_message FOR VALUES FROM (%L) TO (%L)',
          day + interval '3 hours', day + interval '4 hours');
      END $$`)
    expect(await database.sql('SELECT sluice.make_history() AS made')).toEqual([{ made: 1 }])
    await database.sql('DROP TABLE sluice.half')
    expect(await database.sql('SELECT sluice.make_history() AS made')).toEqual([{ made: 1 }])
  })

  test('is written by the statement that removes the messages: all of them or none', async ({
    database,
    sluice,
    queue,
  }) => {
    await keepHistory(database, queue)
    const ids = await put(sluice, queue, [1, 2])
    const client = await connect(database)
    const kept = { worker: 'w', attempts: [1, 2], claimedUs: [Date.now() * 1_000, Date.now() * 1_000] }
    const [server] = await database.sql(`SELECT current_setting('server_version_num')::integer AS version`)
    await client.query('BEGIN')
    await ackAndKeep(executeOn(client), queue, ids, kept, Number(server!.version))
    await client.query('COMMIT')
    const { messages } = await sluice.operate.history.list({ queue })
    expect(messages.map(({ id, attempt, worker }) => ({ id, attempt, worker }))).toEqual([
      { id: ids[1], attempt: 2, worker: 'w' },
      { id: ids[0], attempt: 1, worker: 'w' },
    ])
  })
  test.for(MODES)(
    'has what a worker has handled, and which try it was: %s',
    async (mode, { database, sluice, queue }) => {
      await keepHistory(database, queue)
      const [first = '', second = ''] = await put(sluice, queue, ['ok', 'once'], { type: 't', tenant: 'them' })
      const done = await handleAll(
        database,
        startTestSluice(database, { name: 'w-1' }),
        queue,
        mode,
        ({ payload }, { attempt }) => {
          if (payload === 'once' && attempt === 1) throw new Error('not yet')
        },
      )
      expect(done).toHaveLength(3)
      const { messages } = await sluice.operate.history.list({ queue })
      const byId = new Map(messages.map((message) => [message.id, message]))
      expect(messages).toHaveLength(2)
      expect(byId.get(first)).toMatchObject({
        worker: 'w-1',
        claim: null,
        attempt: 1,
        lastError: null,
        payload: 'ok',
        type: 't',
        tenant: 'them',
      })
      expect(byId.get(second)).toMatchObject({ worker: 'w-1', attempt: 2, lastError: 'Error: not yet' })
      for (const { enqueuedAt, claimedAt, completedAt } of messages) {
        // The clock of the claim is read to the microsecond, and shown by the millisecond.
        expect(enqueuedAt.getTime()).toBeLessThanOrEqual(claimedAt.getTime() + 1)
        expect(claimedAt.getTime()).toBeLessThanOrEqual(completedAt.getTime())
      }
      expect(await sluice.operate.history.list({ queue, worker: 'w-1', minAttempts: 2 })).toMatchObject({
        messages: [{ id: second }],
      })
    },
  )

  test.for(MODES)(
    'begins and ends while a worker runs, when the queue is set so: %s',
    async (mode, { database, sluice, queue }) => {
      const worker = startTestSluice(database)
      const settled = new Set<string>()
      const note = ({ id }: Message) => void settled.add(id)
      if (mode === 'leased') worker.pipeline(queue, { mode }).handle(note).start()
      else worker.pipeline(queue).handle(note).start()
      const handle = async (): Promise<string> => {
        const [id = ''] = await put(sluice, queue, [1])
        const gone = async () => (await sluice.operate.messages.get(queue, id)) === undefined
        await waitFor(gone, { what: 'the message to be settled' })
        return id
      }
      const known = async () => (await sluice.operate.history.get(queue, await handle())) !== undefined
      expect(await known()).toBe(false)
      await sluice.operate.queues.settings.set(queue, { history: '1d' })
      await waitFor(known, { what: 'the worker to keep the history' })
      await sluice.operate.queues.settings.set(queue, { history: null })
      await waitFor(async () => !(await known()), { what: 'the worker to keep none' })
      expect(settled.size).toBeGreaterThanOrEqual(3)
    },
  )

  test('has what transaction() of a leased handler has removed, and nothing of one that failed', async ({
    database,
    sluice,
    queue,
  }) => {
    await keepHistory(database, queue)
    const [id] = await put(sluice, queue, [1, 2], { maxAttempts: 1 })
    const worker = startTestSluice(database, { name: 'w-2' })
    await worker
      .pipeline(queue, { mode: 'leased' })
      .handle(async ({ payload }, { transaction }) => {
        await transaction(async () => {
          if (payload === 2) throw new Error('no')
        })
      })
      .runOnce()
    expect((await sluice.operate.history.list({ queue })).messages).toMatchObject([{ id, worker: 'w-2', attempt: 1 }])
  })
})

/** Handles messages until all are gone; returns what became of each try. A retry without a delay may be due a moment later. */
async function handleAll(
  database: TestDatabase,
  worker: Sluice,
  queue: string,
  mode: (typeof MODES)[number],
  handle: (message: Message, context: { readonly attempt: number }) => void,
): Promise<readonly unknown[]> {
  const retry = { retry: { kind: 'fixed', delay: 0 } } as const
  const pipeline =
    mode === 'leased'
      ? worker.pipeline(queue, { mode, ...retry }).handle(handle)
      : worker.pipeline(queue, retry).handle(handle)
  const all: unknown[] = []
  for (;;) {
    all.push(...(await pipeline.runOnce()))
    const left = await database.sql('SELECT FROM sluice.message WHERE queue = $1 LIMIT 1', [queue])
    if (left.length === 0) return all
  }
}

const LOCKED_DEFAULT = `
  SELECT mode FROM pg_locks
  WHERE relation = 'sluice.completed_default'::regclass AND pid = pg_backend_pid() AND mode <> 'AccessShareLock'`

const BOUNDS = `
  SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'sluice.completed_message'::regclass ORDER BY 1`

const PARTITIONS = `
  SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'sluice.completed_message'::regclass AND c.relname <> 'completed_default' ORDER BY 1`

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  return client
}
