import { describe, expect, inject } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import { EventLog } from '../../support/event-log.ts'
import { THIS_DATABASE } from '../../support/rows/flag.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

/** What a handler may leave on its connection, and how the next one would see it. */
interface Leftover {
  readonly leave: string
  readonly look: string
}

const LEFTOVERS: Readonly<Record<string, Leftover>> = {
  'a setting for the transaction': {
    leave: `SET LOCAL statement_timeout = '50s'`,
    look: 'SHOW statement_timeout',
  },
  'a setting for the session': { leave: 'SET search_path = other, pg_catalog', look: 'SHOW search_path' },
  'a setting by a function, for the transaction': {
    leave: `SELECT set_config('lock_timeout', '49s', true)`,
    look: 'SHOW lock_timeout',
  },
  'a setting by a function, for the session': {
    leave: `SELECT set_config('DateStyle', 'German', false)`,
    look: 'SHOW DateStyle',
  },
  'a setting by a block of code': {
    leave: `DO $$ BEGIN PERFORM set_config('work_mem', '77MB', false); END $$`,
    look: 'SHOW work_mem',
  },
  'a setting of the application, for the transaction': {
    leave: `SET LOCAL app.tenant = 'one'`,
    look: `SELECT coalesce(current_setting('app.tenant', true), '') AS tenant`,
  },
  'a setting of the application, for the session': {
    leave: `SET app.tenant = 'one'`,
    look: `SELECT coalesce(current_setting('app.tenant', true), '') AS tenant`,
  },
  'row security turned off': { leave: 'SET row_security = off', look: 'SHOW row_security' },
  'a name for the connection': { leave: `SET application_name = 'mine'`, look: 'SHOW application_name' },
  'an encoding': { leave: `SET client_encoding = 'SQL_ASCII'`, look: 'SHOW client_encoding' },
  'a role': { leave: 'SET ROLE pg_monitor', look: 'SELECT current_user, session_user' },
  'a role for the transaction': { leave: 'SET LOCAL ROLE pg_monitor', look: 'SELECT current_user, session_user' },
  "another user's session": {
    leave: 'SET SESSION AUTHORIZATION pg_monitor',
    look: 'SELECT current_user, session_user',
  },
  "another user's session, and a role": {
    leave: 'SET SESSION AUTHORIZATION pg_monitor; SET ROLE pg_monitor',
    look: `SELECT current_user, session_user, current_setting('role') AS role`,
  },
  'how transactions begin': {
    leave: 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE',
    look: `SELECT current_setting('default_transaction_read_only') AS ro, current_setting('default_transaction_isolation') AS level`,
  },
  'a transaction that only reads': { leave: 'SET TRANSACTION READ ONLY', look: 'SHOW transaction_read_only' },
  'freedom of the planner': {
    leave: `SET LOCAL enable_sort = off; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off`,
    look: `SELECT current_setting('enable_sort') AS sort, current_setting('plan_cache_mode') AS mode, current_setting('jit') AS jit`,
  },
  'a temporary table': {
    leave: 'CREATE TEMP TABLE left_over AS SELECT 1 AS n',
    look: `SELECT count(*) AS n FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relname = 'left_over'`,
  },
  'a temporary function': {
    leave: 'CREATE FUNCTION pg_temp.left_over() RETURNS integer LANGUAGE sql RETURN 1',
    look: `SELECT count(*) AS n FROM pg_proc WHERE pronamespace = pg_my_temp_schema() AND proname = 'left_over'`,
  },
  'a cursor': {
    leave: 'DECLARE left_over CURSOR FOR SELECT 1',
    look: `SELECT count(*) AS n FROM pg_cursors WHERE name = 'left_over'`,
  },
  'a cursor that outlives its transaction': {
    leave: 'DECLARE left_over CURSOR WITH HOLD FOR SELECT 1 FROM generate_series(1, 10)',
    look: `SELECT count(*) AS n FROM pg_cursors WHERE name = 'left_over'`,
  },
  'a cursor that would fail at COMMIT': {
    leave: 'DECLARE left_over CURSOR WITH HOLD FOR SELECT 1 / (n - 5) FROM generate_series(1, 10) n',
    look: `SELECT count(*) AS n FROM pg_cursors WHERE name = 'left_over'`,
  },
  'an ear for notifications': { leave: 'LISTEN left_over', look: 'SELECT count(*) AS n FROM pg_listening_channels()' },
}

describe.for(Object.entries(LEFTOVERS))('%s', ([, { leave, look }]) => {
  test('reaches no later message of its batch, no later batch, and none after a failure', async ({
    sluice,
    queue,
    log,
  }) => {
    const seen: unknown[] = []
    const servers = new Set<unknown>()
    sluice
      .pipeline(queue, { ...LATER, batchSize: 3, concurrency: 1 })
      .handle(async ({ payload }, { tx }) => {
        servers.add((await tx.query('SELECT pg_backend_pid() AS pid')).rows[0]?.pid)
        if (payload === 'look') return void seen.push((await tx.query(look)).rows)
        await tx.query(leave)
        if (payload === 'leave and fail') raise()
      })
      .subscribe()
    await put(sluice, queue, ['look', 'leave', 'look', 'look', 'leave and fail', 'look', 'look'])
    await waitFor(() => log.of('batch.committed').length === 3, { what: 'three batches' })
    expect(log.of('batch.committed')).toMatchObject([
      { acked: 3, retried: 0 },
      { acked: 2, retried: 1 },
      { acked: 1, retried: 0 },
    ])
    expect(seen).toEqual(Array.from({ length: 5 }, () => seen[0]))
    expect(servers.size).toBe(1)
  })
})

describe('settings of a handler', () => {
  test('that end its siblings early in vain: each has the time that the database gives it', async ({
    sluice,
    queue,
    log,
  }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        if (payload === 'hurry') await tx.query(`SET statement_timeout = '50ms'`)
        else await tx.query('SELECT pg_sleep(0.1)')
      })
      .subscribe()
    await put(sluice, queue, [1, 'hurry', 2, 3])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 4 })
  })

  test('do not reach the other pipelines of the process', async ({ sluice, queue, log }) => {
    const seen: unknown[] = []
    sluice
      .pipeline(queue, LATER)
      .handle(async (_, { tx, enqueue }) => {
        await tx.query(`SET search_path = other; SET app.tenant = 'one'`)
        await enqueue(`${queue}.next`, {})
      })
      .subscribe()
    sluice
      .pipeline(`${queue}.next`, LATER)
      .handle(async (_, { tx }) => {
        seen.push(await tenantOf(tx), (await tx.query('SHOW search_path')).rows[0]?.search_path)
      })
      .subscribe()
    await put(sluice, queue, [1])
    await waitFor(() => log.of('batch.committed').length === 2, { what: 'both batches' })
    expect([null, '']).toContain(seen[0])
    expect(seen[1]).toBe('"$user", public')
  })

  test('return to those of the connection and the database', async ({ database, queue }) => {
    const name = new URL(database.url).pathname.slice(1)
    await database.sql(`ALTER DATABASE ${name} SET lock_timeout = '31s'`)
    const url = new URL(database.url)
    url.searchParams.set('options', '-c statement_timeout=33s -c app.tenant=nobody')
    const sluice = startTestSluice(database, { connection: url.href, directConnection: database.url })
    const seen: unknown[] = []
    const settings = `SELECT current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement,
      current_setting('app.tenant') AS tenant`
    const pipeline = sluice.pipeline(queue, LATER).handle(async (_, { tx }) => {
      seen.push((await tx.query(settings)).rows[0])
      await tx.query(`SET lock_timeout = 0; SET LOCAL statement_timeout = 0; SET app.tenant = 'me'`)
    })
    await put(sluice, queue, [1, 2])
    await pipeline.runOnce()
    await database.sql(`ALTER DATABASE ${name} RESET lock_timeout`)
    expect(seen).toEqual(Array(2).fill({ lock: '31s', statement: '33s', tenant: 'nobody' }))
  })

  test("leave the limit of the batch's transaction in force, and within what is left of its time", async ({
    sluice,
    queue,
  }) => {
    const seen: number[] = []
    const isOlder = inject('serverVersion') < 170_000
    const limit = isOlder ? 'idle_in_transaction_session_timeout' : 'transaction_timeout'
    const pipeline = sluice.pipeline(queue, { ...LATER, timeout: '10s' }).handle(async (_, { tx }) => {
      const { rows } = await tx.query<{ ms: number }>(
        'SELECT setting::integer AS ms FROM pg_settings WHERE name = $1',
        [limit],
      )
      seen.push(...rows.map(({ ms }) => ms))
      await tx.query(`SET ${limit} = 0`)
    })
    await put(sluice, queue, [1, 2, 3])
    await pipeline.runOnce()
    const [first = 0] = seen
    expect(seen).toHaveLength(3)
    for (const ms of seen) {
      expect(ms).toBeGreaterThan(isOlder ? first - 1 : 0)
      expect(ms).toBeLessThanOrEqual(first)
    }
  })

  test('reach nothing through a handler of whole batches', async ({ sluice, queue, log }) => {
    const seen: unknown[] = []
    sluice
      .pipeline(queue, { ...LATER, batchSize: 2, concurrency: 1 })
      .handleBatch(async (_, { tx }) => {
        seen.push(await tenantOf(tx), (await tx.query('SHOW statement_timeout')).rows[0]?.statement_timeout)
        await tx.query(`SET app.tenant = 'one'; SET statement_timeout = '51s'`)
      })
      .subscribe()
    await put(sluice, queue, [1, 2, 3, 4])
    await waitFor(() => log.of('batch.committed').length === 2, { what: 'two batches' })
    expect(seen.map((value) => value ?? '')).toEqual(['', '0', '', '0'])
  })

  test('reach nothing through deliveries', async ({ sluice, queue }) => {
    const seen: unknown[] = []
    await put(sluice, queue, [1, 2, 3])
    for await (const delivery of sluice.deliveries(queue, { demand: 2, batchSize: 2 })) {
      seen.push((await tenantOf(delivery.tx)) ?? '')
      await delivery.tx.query(`SET app.tenant = 'one'`)
      delivery.ack()
      if (seen.length === 3) break
    }
    expect(seen).toEqual(['', '', ''])
  })

  test('of any kind leave the settlement to the planner settings that it needs', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async (_, { tx }) => void (await tx.query('SET search_path = other; SET enable_indexscan = off')))
      .subscribe()
    await put(sluice, queue, [1, 2])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2 })
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).toEqual([])
  })
})

describe('constraints that a handler sets', () => {
  test.for([
    'SET CONSTRAINTS ALL IMMEDIATE',
    'SET CONSTRAINTS ALL DEFERRED',
    'set constraints early, late deferred; set constraints late immediate',
  ])('are for the next one as they were declared: %s', async (text, { database, sluice, queue, log }) => {
    await database.sql(`
      DROP TABLE IF EXISTS child, parent;
      CREATE TABLE parent (id integer PRIMARY KEY);
      CREATE TABLE child (
        soon integer CONSTRAINT early REFERENCES parent DEFERRABLE,
        later integer CONSTRAINT late REFERENCES parent DEFERRABLE INITIALLY DEFERRED
      )`)
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        if (payload === 'set') return void (await tx.query(text))
        if (payload === 'late') await tx.query('INSERT INTO child (later) VALUES (1)')
        if (payload === 'early') await tx.query('INSERT INTO child (soon) VALUES (2)')
        await tx.query(`INSERT INTO parent VALUES (${payload === 'late' ? 1 : 2})`)
      })
      .subscribe()
    await put(sluice, queue, ['set', 'late', 'set', 'early'])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 3, retried: 1 })
    expect(log.of('message.failed')).toMatchObject([{ error: expect.stringContaining('violates foreign key') }])
    expect(await database.sql('SELECT later, soon FROM child')).toEqual([{ later: 1, soon: null }])
  })

  test('stay as they are where a namesake in the schema is not deferrable', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    await database.sql(`
      DROP TABLE IF EXISTS one, other, third;
      CREATE TABLE one (id integer CONSTRAINT namesake UNIQUE DEFERRABLE INITIALLY DEFERRED);
      CREATE TABLE other (id integer CONSTRAINT namesake CHECK (id > 0));
      CREATE TABLE third (id integer CONSTRAINT single UNIQUE DEFERRABLE)`)
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        if (payload === 'set') return void (await tx.query('SET CONSTRAINTS single DEFERRED'))
        await tx.query('INSERT INTO one VALUES (1), (1); DELETE FROM one')
        if (payload === 'third') await tx.query('INSERT INTO third VALUES (1), (1); DELETE FROM third')
      })
      .subscribe()
    await put(sluice, queue, ['set', 'one', 'third'])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
    expect(log.of('message.failed')).toMatchObject([{ error: expect.stringContaining('"single"') }])
  })
})

describe('a lock of the session', () => {
  const HELD = `SELECT count(*)::integer AS n FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = $1 AND ${THIS_DATABASE}`

  test.for(['succeeds', 'fails'])(
    'that a handler takes and that %s is free when its batch has ended',
    async (how, { database, sluice, queue, log }) => {
      const key = how === 'fails' ? 4_711 : 4_712
      const held: unknown[] = []
      sluice
        .pipeline(queue, { ...LATER, batchSize: 1, concurrency: 1 })
        .handle(async ({ payload }, { tx }) => {
          if (payload === 2) return void held.push((await tx.query(HELD, [key])).rows[0]?.n)
          await tx.query('SELECT pg_advisory_lock($1::bigint)', [key])
          if (how === 'fails') raise()
        })
        .subscribe()
      await put(sluice, queue, [1, 2])
      await waitFor(() => log.of('batch.committed').length === 2, { what: 'two batches' })
      expect(held).toEqual([0])
      expect(await database.sql(HELD, [key])).toEqual([{ n: 0 }])
    },
  )
})

test('why nothing of it could be taken back is the reason of the lost batch', async ({ queue }) => {
  await using database = await createTestDatabase()
  const sluice = startTestSluice(database)
  const log = new EventLog(sluice.events)
  await database.sql('ALTER FUNCTION pg_catalog.pg_advisory_unlock_all() RENAME TO pg_unlock_all')
  sluice
    .pipeline(queue, LATER)
    .handle(async (_, { tx }) => void (await tx.query('SELECT 1')))
    .subscribe()
  await put(sluice, queue, [1])
  const { error } = await log.first('batch.released')
  expect(error?.message).toContain('pg_advisory_unlock_all')
  await waitFor(
    async () => (await database.sql('SELECT FROM sluice.messages WHERE last_error ~ $1', ['unlock_all']))[0],
    {
      what: 'the failed attempt',
    },
  )
})

describe('a statement that is prepared by SQL', () => {
  test.for(['PREPARE left_over AS SELECT 1', 'DEALLOCATE sluice_claim', 'DEALLOCATE ALL'])(
    'is refused: %s',
    async (text, { sluice, queue, log }) => {
      sluice
        .pipeline(queue, LATER)
        .handle(async ({ payload }, { tx }) => {
          if (payload === 2) await tx.query(text)
        })
        .subscribe()
      await put(sluice, queue, [1, 2, 3])
      expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
      expect(log.of('message.failed')).toMatchObject([{ error: expect.stringContaining('received') }])
    },
  )
})

describe("the batch's own savepoint", () => {
  test.for([
    'RELEASE SAVEPOINT sluice_message',
    String.raw`RELEASE SAVEPOINT U&"sluice\005fmessage"`,
    'ROLLBACK TO SAVEPOINT "sluice_message"',
    String.raw`ROLLBACK TO U&"sluice\005fmessage"`,
  ])('is out of reach: %s fails its own message only', async (text, { sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        await tx.query('SELECT 1')
        if (payload === 2) await tx.query(text)
      })
      .subscribe()
    await put(sluice, queue, [1, 2, 3])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
    expect(log.of('batch.released')).toEqual([])
  })
})

async function tenantOf(tx: HandlerTransaction): Promise<unknown> {
  return (await tx.query(`SELECT current_setting('app.tenant', true) AS tenant`)).rows[0]?.tenant
}

test('a deferred trigger runs once per handler, with its settings and its role', async ({ queue }) => {
  await using database = await createTestDatabase()
  await database.sql(`
    CREATE TABLE tenant_row (tenant text); CREATE TABLE tenant_audit (tenant text, setting text, by text);
    CREATE ROLE deferring; GRANT ALL ON tenant_row, tenant_audit TO deferring;
    CREATE FUNCTION audit_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO tenant_audit VALUES (NEW.tenant, current_setting('app.tenant', true), current_user);
        RETURN NULL;
      END $$;
    CREATE CONSTRAINT TRIGGER audits AFTER INSERT ON tenant_row DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION audit_tenant()`)
  try {
    const sluice = startTestSluice(database)
    await put(sluice, queue, ['a', 'b', 'c'])
    const settled = await sluice
      .pipeline(queue, { batchSize: 3 })
      .handle(async ({ payload }, { tx }) => {
        await tx.query(`SELECT set_config('app.tenant', $1, true)`, [payload])
        await tx.query('SET LOCAL ROLE deferring')
        await tx.query('INSERT INTO tenant_row VALUES ($1)', [payload])
      })
      .runOnce()
    expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['ack', 'ack', 'ack'])
    expect(await database.sql('SELECT * FROM tenant_audit ORDER BY tenant')).toEqual(
      ['a', 'b', 'c'].map((tenant) => ({ tenant, setting: tenant, by: 'deferring' })),
    )
    await sluice.stop()
  } finally {
    await database.sql(
      'DROP TABLE tenant_row, tenant_audit; DROP FUNCTION audit_tenant; DROP OWNED BY deferring; DROP ROLE deferring',
    )
  }
})
