import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { deadLetter } from '../../../src/index.ts'
import { LeaseWriter } from '../../../src/modes/leased/settle/lease-writer.ts'
import { Alphabet } from '../../../src/session/alphabet.ts'
import { Settings } from '../../../src/settings/settings.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { openPool } from '../../support/servers/pool.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Refuses the dead letters of a queue, as a missing right to insert them would. */
async function refuseDeadLetters(database: TestDatabase, queue: string): Promise<void> {
  await database.sql(`
    CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
    CREATE TRIGGER "refuse ${queue}" BEFORE INSERT ON sluice.dead_letter FOR EACH ROW
      WHEN (NEW.queue = '${queue}') EXECUTE FUNCTION refuse()`)
}

async function serverVersionOf(database: TestDatabase): Promise<number> {
  const [row] = await database.sql<{ version: string }>(`SELECT current_setting('server_version_num') AS version`)
  return Number(row?.version)
}

describe('messages whose outcome the server refuses for good', () => {
  test('have failed, and give their places to others', async ({ sluice, queue, database, log }) => {
    await refuseDeadLetters(database, queue)
    await put(sluice, queue, Array(10).fill('bad'))
    await put(sluice, queue, ['good'])
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', retry: { kind: 'fixed', delay: '1h' } })
      .handle(({ payload }) => (payload === 'bad' ? deadLetter('no use') : undefined))
      .start()
    const left = () => database.sql(`SELECT payload FROM sluice.message WHERE queue = $1`, [queue])
    await waitFor(async () => (await left()).length === 10, { what: 'the good message to be settled' })
    await pipeline.drain()
    const rows = await database.sql(
      `SELECT DISTINCT attempt, last_error, lease, due_at > clock_timestamp() + interval '50 min' AS later
       FROM sluice.message WHERE queue = $1`,
      [queue],
    )
    expect(rows).toEqual([{ attempt: 1, last_error: expect.stringContaining('refused'), lease: null, later: true }])
    expect(log.of('message.failed')).toHaveLength(10)
    expect(log.of('lease.lost')).toEqual([])
  })

  test('and that are out of attempts are put aside for a minute', async ({ sluice, queue, database }) => {
    await refuseDeadLetters(database, queue)
    await put(sluice, queue, ['bad'], { maxAttempts: 1 })
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => {
        throw new Error('no')
      })
      .runOnce()
    expect(counts).toMatchObject({ dead: 0, snoozed: 1 })
    const rows = await database.sql(
      `SELECT attempt, lease, due_at > clock_timestamp() + interval '30 s' AS later FROM sluice.message WHERE queue = $1`,
      [queue],
    )
    expect(rows).toEqual([{ attempt: 0, lease: null, later: true }])
  })

  test('and nothing else of them either are left to their leases', async ({ sluice, queue, database, log }) => {
    await put(sluice, queue, [1])
    await database.sql(`
      CREATE FUNCTION refuse_ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
      CREATE TRIGGER refuse_ends BEFORE UPDATE OR DELETE ON sluice.message FOR EACH ROW
        WHEN (OLD.queue = '${queue}' AND OLD.lease IS NOT NULL) EXECUTE FUNCTION refuse_ends()`)
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => undefined)
      .start()
    await log.first('lease.lost')
    await pipeline.drain()
    expect(await database.sql('SELECT lease > 0 AS leased FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { leased: true },
    ])
    await database.sql('DROP TRIGGER refuse_ends ON sluice.message')
  })

  test('do not keep the others from being settled in batches', async ({ sluice, queue, database, log }) => {
    const [refused] = await put(sluice, queue, ['bad'])
    await database.sql(`
      CREATE FUNCTION refuse_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
      CREATE TRIGGER refuse_it BEFORE UPDATE OR DELETE ON sluice.message FOR EACH ROW
        WHEN (OLD.id = ${refused} AND OLD.lease IS NOT NULL) EXECUTE FUNCTION refuse_it()`)
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 200, batchSize: 100 })
      .handleBatch(() => undefined)
      .start()
    await log.first('settlement.failed')
    await put(sluice, queue, Array(50).fill('good'))
    const left = () => database.sql('SELECT payload FROM sluice.message WHERE queue = $1', [queue])
    await waitFor(async () => (await left()).length === 1, { what: 'the others to be settled' })
    await pipeline.drain()
    expect(log.of('batch.committed').map(({ acked }) => acked)).toEqual([50])
    await database.sql('DROP TRIGGER refuse_it ON sluice.message')
  })
})

test('extend() of a message that somebody has locked waits until its lease is renewed', async ({ queue, database }) => {
  const proxy = await startProxy(database.url)
  const sluice = startTestSluice(database, { connection: proxy.url })
  let looks = 0
  proxy.passes = ({ type, bytes }) => {
    if (type === 'B' && bytes.includes('unlocked_leased')) looks += 1
    return true
  }
  await put(sluice, queue, [1])
  const until = async () => {
    const text = `SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us FROM sluice.message WHERE queue = $1`
    const [row] = await database.sql<{ us: string }>(text, [queue])
    return BigInt(row?.us ?? 0)
  }
  const ends: bigint[] = []
  const { counts } = await sluice
    .pipeline(queue, { mode: 'leased' })
    .handle(async (_, { extend }) => {
      ends.push(await until())
      const holder = new pg.Client({ connectionString: database.url })
      await holder.connect()
      await holder.query('BEGIN')
      await holder.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE', [queue])
      const extended = extend()
      // By then the first look has found the row locked.
      await Promise.race([extended, waitFor(() => looks > 1, { what: 'the renewal to be tried again' })])
      await holder.end()
      await extended
      ends.push(await until())
    })
    .runOnce()
  expect(counts.acked).toBe(1)
  expect(ends[1]).toBeGreaterThan(ends[0]!)
})

test('a write that is cut while it waits for its connection sends nothing', async ({ sluice, queue, database }) => {
  const [id] = await put(sluice, queue, [1])
  await database.sql('UPDATE sluice.message SET lease = 1::bigint << 50 WHERE queue = $1', [queue])
  const pool = openPool({ connectionString: database.url })
  onTestFinished(() => pool.end())
  const version = await serverVersionOf(database)
  const writer = new LeaseWriter(
    {
      connections: { batches: pool, transactions: pool, claims: pool, settlements: pool, calls: pool },
      serverVersion: () => version,
      settings: new Settings(),
      historyBy: () => undefined,
      alphabet: new Alphabet(),
    },
    { queue, leaseMs: 3_600_000 },
  )
  const written = writer.renew([{ id: id!, lease: String(1n << 50n), leaseMs: 3_600_000 }], false)
  writer.cut()
  await expect(written).rejects.toMatchObject({ code: 'STOPPED' })
  const due = 'SELECT due_at < clock_timestamp() AS due FROM sluice.message WHERE queue = $1'
  expect(await database.sql(due, [queue])).toEqual([{ due: true }])
})

test('evidence about a message goes in the transaction that settles it, and only then', async ({
  sluice,
  queue,
  database,
  log,
}) => {
  const [settled, lost] = await put(sluice, queue, ['settled', 'lost'])
  await database.sql(
    `INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
     SELECT $1, given.id, 1, 1, 'vanished', 'w', false FROM unnest($2::bigint[]) AS given (id)`,
    [queue, [settled, lost]],
  )
  await database.sql(`
    CREATE TABLE gone (what text, id bigint, xid xid8 DEFAULT pg_current_xact_id());
    CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO gone (what, id) VALUES (TG_TABLE_NAME, CASE TG_TABLE_NAME WHEN 'crash' THEN to_jsonb(OLD) ->> 'message_id' ELSE to_jsonb(OLD) ->> 'id' END::bigint);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_gone AFTER DELETE ON sluice.message FOR EACH ROW WHEN (OLD.queue = '${queue}') EXECUTE FUNCTION note_gone();
    CREATE TRIGGER note_gone AFTER DELETE ON sluice.crash FOR EACH ROW WHEN (OLD.queue = '${queue}') EXECUTE FUNCTION note_gone()`)
  const pipeline = sluice
    .pipeline(queue, { mode: 'leased' })
    .handle(async ({ payload }) => {
      if (payload === 'lost')
        await database.sql(
          `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() + interval '1 h' WHERE id = $1`,
          [lost],
        )
    })
    .start()
  await log.first('lease.lost')
  const gone = 'SELECT what, xid FROM gone ORDER BY what'
  await waitFor(async () => (await database.sql(gone)).length === 2, { what: 'the message and its evidence to go' })
  await pipeline.drain()
  const [crash, message] = await database.sql<{ what: string; xid: string }>(gone)
  expect([crash?.what, message?.what]).toEqual(['crash', 'message'])
  expect(crash?.xid).toBe(message?.xid)
  const left = 'SELECT message_id::text AS id FROM sluice.crash WHERE queue = $1'
  expect(await database.sql(left, [queue])).toEqual([{ id: lost }])
})
