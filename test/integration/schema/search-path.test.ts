import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { deadLetter, snooze } from '../../../src/message.ts'
import { migrate, migrationSql } from '../../../src/migrate/migrate.ts'
import { foreignCharacters, readEncoding } from '../../../src/table/session/encoding.ts'
import type { Execute, Statement } from '../../../src/table/statement.ts'
import { enqueuedIn } from '../../../src/testing.ts'
import { EventLog } from '../../support/event-log.ts'
import { calledNames, castShadows, SHADOW } from '../../support/plans/shadows.ts'
import { tableStatements } from '../../support/plans/table-statements.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import { bury } from '../../support/rows/operations.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { ROLES_SQL } from '../../support/servers/logins.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { test as base } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'

const MIGRATION = readdirSync(new URL('../../../migrations/', import.meta.url))
  .filter((file) => file.endsWith('.sql'))
  .map((file) => readFileSync(new URL(`../../../migrations/${file}`, import.meta.url), 'utf8'))
  .join('\n')

/**
 * These name everything in full. Eight run in enqueues, appends and claims, where SET search_path would cost as much as the rest.
 * It would keep three from becoming part of the statement that calls them.
 */
const WITHOUT_A_PATH = [
  'clock',
  'event_partition',
  'first_due_at',
  'idle_lease',
  'is_unlocked',
  'leased_keys',
  'lock_due_again',
  'lock_missed',
  'lock_shared',
  'partition_of_many',
  'rows_of',
  'schema_version',
  'wake_inserted',
]

const test = base
  .extend('statements', { scope: 'file' }, () => tableStatements())
  .extend('evil', { scope: 'file' }, async ({ database }) => {
    await database.sql('CREATE SCHEMA evil')
    await castShadows(database, 'evil', calledNames(MIGRATION))
    await database.sql(`
      CREATE DOMAIN evil.text AS pg_catalog.text CHECK (VALUE = 'never');
      CREATE DOMAIN evil.jsonb AS pg_catalog.jsonb CHECK (VALUE IS NULL);
      CREATE TABLE evil.inserted (queue pg_catalog.text, due_at timestamptz);
      CREATE TABLE evil.message (); CREATE TABLE evil.dead_letter (); CREATE TABLE evil.slot (); CREATE VIEW evil.messages AS SELECT;
      CREATE TABLE evil.pg_locks (); CREATE TABLE evil.pg_database (); CREATE TABLE evil.pg_proc ();`)
    return 'evil'
  })
  .extend('hostile', { scope: 'file' }, async ({ statements }, { onCleanup }) => {
    const database = await createTestDatabase()
    onCleanup(() => database[Symbol.asyncDispose]())
    await castShadows(database, 'public', calledNames(statements.map(({ text }) => text).join()))
    return database
  })

test('every function of the schema has a path of its own, or names everything in full', async ({ database }) => {
  const rows = await database.sql<{ proname: string }>(
    `SELECT proname FROM pg_proc WHERE pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace)
       AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) ORDER BY proname`,
  )
  expect(rows.map(({ proname }) => proname)).toEqual(WITHOUT_A_PATH)
})

describe('with a hostile schema in front of pg_catalog', () => {
  test.for(['evil, pg_catalog', 'pg_temp, evil, pg_catalog'])(
    'nothing of it is called: %s',
    async (path, { database, evil }) => {
      const client = await connect(database)
      await client.query(`
      CREATE TEMP TABLE message (); CREATE TEMP TABLE dead_letter (); CREATE TEMP TABLE messages (); CREATE TEMP TABLE pg_locks ();
      CREATE TEMP TABLE inserted (queue text, due_at timestamptz); CREATE DOMAIN pg_temp.timestamptz AS integer;
      SET search_path = ${path}`)
      // The trap works: what does not say where it looks finds the shadows.
      expect(path).toContain(evil)
      await expect(client.query(`SELECT clock_timestamp()`)).rejects.toThrow(SHADOW)
      await expect(client.query('SELECT 1 = 1')).rejects.toThrow(SHADOW)

      const queue = `q${path.length}`
      await bury(database, { queue, count: 2 })
      await using sleeper = await sleepOn(database.url, queue)
      for (const text of [
        // First of all: the trigger is compiled once in a session, and here not under the path of enqueue().
        `INSERT INTO sluice.message (queue, payload, ordering_key) VALUES ('${queue}', '1', 'key'), ('${queue}', '2', NULL)`,
        `SELECT sluice.enqueue('${queue}', '{}')`,
        `SELECT sluice.enqueue('${queue}', '{}', 't', 2, '{"a": 1}', 'key', 3, NULL, 'tomorrow', 4)`,
        `SELECT sluice.enqueue('${queue}', '{}', delay => '1 hour')`,
        `SELECT sluice.redrive('${queue}', died_before => 'tomorrow', type => 'order.paid')`,
        `SELECT * FROM sluice.peek('${queue}', 5)`,
        `SELECT * FROM sluice.claim('${queue}', 10)`,
        `SELECT * FROM sluice.claim_get('${queue}', (SELECT pg_catalog.max(id) FROM sluice.claims))`,
        `SELECT sluice.claim_renew('${queue}', (SELECT pg_catalog.max(id) FROM sluice.claims))`,
        `SELECT * FROM sluice.claim_settle('${queue}', (SELECT pg_catalog.max(id) FROM sluice.claims), outcome => 'retry', delay => '0')`,
        `SELECT * FROM sluice.claim('${queue}', 10)`,
        `SELECT sluice.claim_release('${queue}', (SELECT pg_catalog.max(id) FROM sluice.claims))`,
        `SELECT * FROM sluice.pop('none', 10)`,
        `SELECT sluice.create_stream('${queue}', 4, retain => '1 day')`,
        `SELECT sluice.create_stream('${queue}', retain => '2 days', keep_unread => false)`,
        `SELECT sluice.append('${queue}', '{}', 'key', headers => '{"a": 1}')`,
        `SELECT sluice.append_many('${queue}', '[1, 2]', '[{"orderingKey": "a"}]')`,
        `SELECT sluice.create_group('${queue}', 'g', start_at => '{0}')`,
        `SELECT sluice_private.stable_ends(1, 'sluice.event_position_1')`,
        `SELECT sluice.schedule('tick', '${queue}.ticks', '{}', every => '1 day')`,
        `SELECT sluice.schedule('tick', '${queue}.ticks', '{"n": 1}', cron => '0 3 * * *', grace => '5 minutes')`,
        `SELECT sluice.schedule_pause('tick', 'for now')`,
        `SELECT sluice.schedule_resume('tick')`,
        `SELECT sluice.schedule_run_now('tick')`,
        `SELECT * FROM sluice_private.schedule_fire('tick', 4, pg_catalog.now(), '{}', NULL, 0)`,
        `SELECT sluice_private.schedule_plan('tick', 4, pg_catalog.now())`,
        `SELECT sluice_private.schedule_failed('tick', 4, 'no')`,
        'TABLE sluice.schedules',
        `SELECT sluice.schedule_delete('tick')`,
        'TABLE sluice.claims',
        `SELECT * FROM sluice.explain('${queue}', 1)`,
        `SELECT * FROM sluice.explain('${queue}', (SELECT pg_catalog.min(id) FROM sluice.messages))`,
        `SELECT * FROM sluice.explain('${queue}', (SELECT pg_catalog.max(id) FROM sluice.messages))`,
        `SELECT * FROM sluice.explain('${queue}', dedupe_key => 'key')`,
        `SELECT * FROM sluice.explain_queue('${queue}')`,
        `SELECT * FROM sluice.explain_queue('none')`,
        `SELECT * FROM sluice.explain_event('${queue}', 'g', 1)`,
        `SELECT * FROM sluice.explain_schedule('none')`,
        'TABLE sluice.queues',
        'TABLE sluice.messages',
        'TABLE sluice.in_flight',
        'TABLE sluice.workers',
        'TABLE sluice.dead_letters',
        'TABLE sluice.schema_version',
        ROLES_SQL,
      ]) {
        await client.query(text.replace('TABLE sluice.schema_version', 'SELECT * FROM sluice.schema_version()'))
      }
      expect(await sleeper.notifications()).toContain(queue)
      const slots = await database.sql(
        `SELECT count(*)::integer, count(slot)::integer AS slots FROM sluice.message WHERE queue = $1`,
        [queue],
      )
      expect(slots).toEqual([{ count: 7, slots: 2 }])
    },
  )

  test.for(['migrate', 'sluice migrate --print'])(
    '%s binds nothing to it, and leaves the path as it was',
    async (by) => {
      const database = await createTestDatabase({ migrated: false })
      onTestFinished(() => database[Symbol.asyncDispose]())
      await database.sql('CREATE SCHEMA evil')
      await castShadows(database, 'evil', calledNames(MIGRATION))
      await database.sql(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET search_path = evil, pg_catalog`)
      if (by === 'migrate') await migrate(database.url)
      else {
        const client = await connect(database)
        await client.query('BEGIN')
        for (const { sql } of migrationSql()) await client.query(sql)
        expect((await client.query('SHOW search_path')).rows).toEqual([{ search_path: 'evil, pg_catalog' }])
        await client.query('COMMIT')
      }
      expect(await boundTo(database, 'evil', `d.classid <> 'pg_operator'::regclass`)).toEqual([])
      const client = await connect(database)
      await client.query(`SELECT sluice.enqueue('q', '{}')`)
    },
  )
})

/** A temporary table is a type, and pg_temp is searched for types before pg_catalog, whatever the path says. */
describe('with temporary tables that are called as types are', () => {
  const NAMES = ['text', 'jsonb', 'timestamptz', 'xid8', 'int4', 'int8', 'float8', 'interval', 'bool', 'message']

  test('an application enqueues, and a test looks at that', async ({ database }) => {
    const client = await connect(database)
    await client.query(NAMES.map((name) => `CREATE TEMP TABLE "${name}" (shadow integer)`).join(';'))
    // The trap works.
    await expect(client.query('SELECT $1::text', ['x'])).rejects.toThrow(/malformed record literal/)
    const sluice = startTestSluice(database)
    await client.query('BEGIN')
    const at = { dueAt: new Date(2_000_000_000_000), headers: { a: 1 }, orderingKey: 'k', priority: 1 } as const
    await sluice.enqueue(client, 'shadowed', { n: 1 })
    await sluice.enqueue(client, 'shadowed', { n: 2 }, at)
    await sluice.enqueueMany(client, 'shadowed', [{ payload: { n: 3 } }, { payload: { n: 4 }, delay: '1h', type: 't' }])
    await client.query("SELECT sluice.create_stream('shadowed')")
    await sluice.append(client, 'shadowed', { n: 1 }, { orderingKey: 'k' })
    await sluice.appendMany(client, 'shadowed', [{ payload: 1, orderingKey: 'k' }, { payload: 2 }])
    const payloads = (await enqueuedIn(client)).map(({ payload }) => payload)
    expect(payloads).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }])
    await client.query('COMMIT')
  })

  test('characters are still compared with the encoding', async ({ database }) => {
    const client = await connect(database)
    await client.query(NAMES.map((name) => `CREATE TEMP TABLE "${name}" (shadow integer)`).join(';'))
    const execute: Execute = async ({ text }, params) => (await client.query(text, [...params])).rows
    expect(await readEncoding(execute)).toBe('UTF8')
    expect(await foreignCharacters(execute, ['é'])).toEqual([])
  })
})

/**
 * Where anybody may make things in a schema of the path, as in public before PostgreSQL 15, pg_catalog comes first; but a
 * function there that fits only with a conversion loses against one elsewhere that fits as it is.
 */
describe('with a hostile schema behind pg_catalog', () => {
  test('every statement of the library means pg_catalog', async ({ hostile, statements }) => {
    expect(statements.length).toBeGreaterThan(40)
    const bound = await Promise.all(
      statements.map(async (statement) => ({ [statement.name]: await shadowsIn(hostile, statement) })),
    )
    expect(bound.filter((one) => Object.values(one).some((shadows) => shadows.length > 0))).toEqual([])
    // The trap works.
    const careless = { name: 'careless', text: "SELECT $1::bigint * interval '1 day', unnest($2::bigint[])" }
    expect(await shadowsIn(hostile, careless)).toEqual(['function unnest(bigint[])', 'operator *(bigint,interval)'])
  })

  test('what takes any type is named in full', async ({ hostile, statements }) => {
    const polymorphic = await hostile.sql<{ proname: string }>(
      `SELECT p.proname FROM pg_proc p
       WHERE p.pronamespace = 'pg_catalog'::regnamespace
       GROUP BY p.proname HAVING bool_and(EXISTS (
         SELECT FROM pg_type t WHERE t.oid = ANY (p.proargtypes::oid[]) AND t.typtype = 'p' AND t.typname ~ '^any'))`,
    )
    const names = new Set(polymorphic.map(({ proname }) => proname))
    // In FROM and with several arrays, unnest is syntax, and means pg_catalog's.
    const named = statements.flatMap(({ name, text }) =>
      calledNames(text.replaceAll(/(?:FROM|JOIN|LATERAL) unnest\([^()]*,/g, '')).map((called) => ({ name, called })),
    )
    expect(named.filter(({ called }) => names.has(called))).toEqual([])
  })

  test('a worker, a producer and an operator call nothing of it', async ({ hostile }) => {
    const sluice = startTestSluice(hostile)
    const log = new EventLog(sluice.events)
    sluice
      .pipeline('q', { retry: { kind: 'fixed', delay: '1h' } })
      .handle(async ({ payload }) => {
        if (payload === 'throw') throw new Error('on purpose')
        return payload === 'bury'
          ? deadLetter('on purpose')
          : payload === 'snooze'
            ? snooze({ after: '1h' })
            : undefined
      })
      .subscribe()
    await put(sluice, 'q', ['ack', 'throw', 'snooze', 'bury'])
    await put(sluice, 'q', ['ack', 'throw'], { orderingKey: 'k' })
    const left = () => hostile.sql(`SELECT FROM sluice.message WHERE due_at < clock_timestamp()`)
    await waitFor(async () => log.of('message.failed').length === 2 && (await left()).length === 0, {
      what: 'all to be settled',
    })
    await sluice.stop()
    expect(log.all.filter((event) => JSON.stringify(event).includes(SHADOW))).toEqual([])
    const env = { DATABASE_URL: hostile.url }
    for (const args of [
      ['status'],
      ['peek', 'q'],
      ['dead', 'redrive', 'q', '--older-than', '0s', '--yes'],
      ['dead', 'list'],
    ]) {
      expect(await runCli(args, env)).toMatchObject({ code: 0 })
    }
  })
})

/** What of the schema public a statement means, found by making it the body of a function, which is not run. */
async function shadowsIn(database: TestDatabase, { name, text }: Statement): Promise<readonly string[]> {
  // Utility statements call nothing, and no function may have one of these.
  if (!/^(WITH|SELECT|INSERT|UPDATE|DELETE)\b/.test(text)) return []
  const types: string[] = []
  for (const [, at, type = ''] of text.matchAll(/\$(\d+)::(?:pg_catalog\.)?([a-z]+(?: precision)?(?:\[\])?)/g))
    types[Number(at) - 1] ??= type
  const probe = `probe_${name}`
  const create = (returns: string) =>
    database.sql(
      `CREATE FUNCTION sluice.${probe}(${types.join()}) RETURNS ${returns} LANGUAGE sql BEGIN ATOMIC ${text}; END`,
    )
  await create('SETOF record').catch((error: unknown) => {
    if (!(error instanceof pg.DatabaseError) || error.code !== RETURNS_NOTHING) throw error
    return create('void')
  })
  return boundTo(database, 'public', `d.objid = 'sluice.${probe}'::regproc`)
}

const RETURNS_NOTHING = '42P13'

/** The functions and operators of a schema that something else is bound to. The question itself must not meet them. */
async function boundTo({ pool }: TestDatabase, schema: string, what: string): Promise<readonly string[]> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN; SET LOCAL search_path = pg_catalog')
    const { rows } = await client.query<{ bound: string }>(
      `SELECT DISTINCT replace(pg_describe_object(d.refclassid, d.refobjid, 0), $1 || '.', '') AS bound
       FROM pg_depend d
       LEFT JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
       LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
       WHERE ${what} AND $1::regnamespace IN (f.pronamespace, o.oprnamespace) ORDER BY 1`,
      [schema],
    )
    return rows.map(({ bound }) => bound)
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
}

async function connect({ url }: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
