import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { ack } from '../../../src/message.ts'
import type { Finding } from '../../../src/table/operate/doctor.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { findingsOf, found } from '../../support/rows/findings.ts'
import { append, makeStream } from '../../support/rows/streams.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { ROLES_SQL } from '../../support/servers/logins.ts'
import { startRestartableServer } from '../../support/servers/restartable-server.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

async function fresh(): Promise<TestDatabase> {
  const database = await createTestDatabase()
  onTestFinished(() => database[Symbol.asyncDispose]())
  return database
}

describe('the doctor finds nothing', () => {
  test('in a new database', async () => {
    expect(await findingsOf(await fresh())).toEqual([])
  })

  test('after roles, streams, groups, the history and limits have made what they need, and a worker has worked', async () => {
    const database = await fresh()
    const sluice = startTestSluice(database)
    await database.sql(ROLES_SQL)
    await sluice.operate.queues.settings.set('orders', { history: '7d', concurrency: 5, rate: { limit: 9, per: '1s' } })
    await makeStream(database, 'log')
    await sluice.groups.set('log', 'all', { from: 'start' })
    await append(database, 'log', 3)
    await sluice.schedules.set('daily', { queue: 'orders', every: '1d', payload: 1 })
    await put(sluice, 'orders', [1, 2], { orderingKey: 'a' })
    await sluice
      .pipeline('orders')
      .handle(() => ack())
      .runOnce()
    await sluice.operate.maintain()
    expect(await database.sql(`SELECT FROM pg_class WHERE relname ~ '^(completed_2|event_1_0)'`)).not.toHaveLength(0)
    expect(await findingsOf(database)).toEqual([])
  })

  test('where all checks are made again from the words of the server, as a restore does', async () => {
    const database = await fresh()
    await database.sql(`DO $$ DECLARE c record; BEGIN
      FOR c IN SELECT o.conrelid::regclass AS t, quote_ident(o.conname) AS name, pg_get_constraintdef(o.oid) AS text
               FROM pg_constraint o WHERE o.contype = 'c' AND o.connamespace = 'sluice'::regnamespace AND o.conrelid <> 0
      LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %s, ADD CONSTRAINT %s %s', c.t, c.name, c.name, c.text);
      END LOOP;
    END $$`)
    const definition = `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname LIKE 'tenant: 1 to 255 bytes, w%'`
    const [now] = await database.sql(definition)
    const [made] = await database.sql(`SELECT definition AS pg_get_constraintdef FROM sluice.object_definition
      WHERE name LIKE 'sluice.schedule."tenant: 1%'`)
    expect(now).not.toEqual(made)
    expect(await findingsOf(database)).toEqual([])
  })

  test('on a server with the settings that it has by default', async () => {
    const server = await startRestartableServer({ fsync: 'on' })
    expect(await server.sql('SELECT * FROM sluice.doctor()')).toEqual([])
  })
})

/** What is done to the schema, and the finding about it. Its remedy undoes it. */
const DAMAGE: readonly (readonly [damage: string, check: string, severity: string, subject: string])[] = [
  ['DROP INDEX sluice.message_lease_idx', 'schema.missing', 'error', 'index sluice.message_lease_idx'],
  [
    'DROP INDEX sluice.completed_message_time_idx',
    'schema.missing',
    'error',
    'index sluice.completed_message_time_idx',
  ],
  ['DROP TRIGGER message_wake ON sluice.message', 'schema.missing', 'error', 'trigger sluice.message.message_wake'],
  [
    'ALTER TABLE sluice.slot DROP CONSTRAINT slot_range',
    'schema.missing',
    'error',
    'constraint sluice.slot.slot_range',
  ],
  [
    'ALTER TABLE sluice.claim DROP CONSTRAINT claim_pkey',
    'schema.missing',
    'error',
    'constraint sluice.claim.claim_pkey',
  ],
  [
    'ALTER TABLE sluice.message DISABLE TRIGGER message_wake',
    'schema.disabled',
    'error',
    'trigger sluice.message.message_wake',
  ],
  [
    `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sluice.message_due_idx'::regclass`,
    'schema.invalid',
    'error',
    'index sluice.message_due_idx',
  ],
  [
    'DROP INDEX sluice.permit_free_idx; CREATE INDEX permit_free_idx ON sluice.permit (queue)',
    'schema.changed',
    'error',
    'index sluice.permit_free_idx',
  ],
  [
    `CREATE OR REPLACE TRIGGER message_wake AFTER INSERT ON sluice.message FOR EACH ROW
     EXECUTE FUNCTION sluice_private.wake_inserted()`,
    'schema.changed',
    'error',
    'trigger sluice.message.message_wake',
  ],
  [
    'ALTER TABLE sluice.message SET (autovacuum_vacuum_scale_factor = 0.5, fillfactor = 70)',
    'schema.changed',
    'warning',
    'storage sluice.message',
  ],
  ['ALTER TABLE sluice.claim RESET (vacuum_truncate)', 'schema.changed', 'warning', 'storage sluice.claim'],
  ['CREATE INDEX mine ON sluice.message (type)', 'schema.added', 'warning', 'index sluice.mine'],
  ['ALTER TABLE sluice.dead_letter ADD COLUMN mine text', 'schema.added', 'warning', 'column sluice.dead_letter.mine'],
  [
    'ALTER TABLE sluice.message ADD CONSTRAINT mine CHECK (priority < 10)',
    'schema.added',
    'warning',
    'constraint sluice.message.mine',
  ],
  [
    `CREATE TABLE mine (queue text, id bigint, CONSTRAINT refers FOREIGN KEY (queue, id) REFERENCES sluice.message)`,
    'schema.added',
    'warning',
    'foreign key public.mine.refers',
  ],
  [
    `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
     CREATE TRIGGER swallow BEFORE INSERT ON sluice.dead_letter FOR EACH ROW EXECUTE FUNCTION swallow()`,
    'schema.added',
    'warning',
    'trigger sluice.dead_letter.swallow',
  ],
  [
    'CREATE RULE ignores AS ON DELETE TO sluice.message DO INSTEAD NOTHING',
    'schema.added',
    'warning',
    'rule sluice.message.ignores',
  ],
  ['ALTER TABLE sluice.message ENABLE ROW LEVEL SECURITY', 'schema.added', 'warning', 'row security sluice.message'],
  ['ALTER TABLE sluice.claim OWNER TO pg_monitor', 'schema.owner', 'error', 'table sluice.claim'],
  ['ALTER FUNCTION sluice.pause OWNER TO pg_monitor', 'schema.owner', 'error', 'function sluice.pause(text,text,text)'],
  [
    'GRANT EXECUTE ON FUNCTION sluice.redrive TO PUBLIC',
    'privileges.public',
    'error',
    'function sluice.redrive(text,bigint[],text,timestamp with time zone,timestamp with time zone,text,text,text)',
  ],
  ['ALTER TABLE sluice.message SET (autovacuum_enabled = off)', 'vacuum.off', 'error', 'table sluice.message'],
  [
    'ALTER TABLE sluice.dead_letter SET (toast.autovacuum_enabled = off)',
    'vacuum.off',
    'error',
    'table sluice.dead_letter',
  ],
]

describe('the doctor finds what was done to the schema, and its remedy undoes it:', () => {
  test.for(DAMAGE)('%s', async ([damage, check, severity, subject]) => {
    const database = await fresh()
    await database.sql(damage)
    const findings = await findingsOf(database)
    expect(findings).toMatchObject([{ kind: check, severity, subject }])
    for (const statement of findings[0]!.remedy.split('; ')) await database.sql(statement)
    expect(await findingsOf(database)).toEqual([])
  })
})

describe('the doctor', () => {
  test.for([
    [
      `CREATE OR REPLACE FUNCTION sluice.is_paused(queue text) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
      'schema.changed',
      'function sluice.is_paused(text)',
    ],
    ['ALTER FUNCTION sluice.pause SECURITY INVOKER', 'schema.changed', 'function sluice.pause(text,text,text)'],
    ['CREATE OR REPLACE VIEW sluice.claims AS …', 'schema.changed', 'view sluice.claims'],
    ['CREATE OR REPLACE VIEW sluice_private.peers AS …', 'schema.changed', 'view sluice_private.peers'],
    ['ALTER TABLE sluice.turn ALTER COLUMN noted_at TYPE timestamp', 'schema.changed', 'column sluice.turn.noted_at'],
    ['ALTER TABLE sluice.turn SET LOGGED', 'schema.changed', 'table sluice.turn'],
    ['DROP FUNCTION sluice.free_keys', 'schema.missing', 'function sluice.free_keys(text,text,boolean)'],
    ['ALTER TABLE sluice.bucket DROP COLUMN tokens CASCADE', 'schema.missing', 'column sluice.bucket.tokens'],
    [
      'ALTER DOMAIN sluice_private.priority DROP CONSTRAINT "priority: from 0 to 9"',
      'schema.missing',
      'constraint sluice_private.priority."priority: from 0 to 9"',
    ],
  ] as const)('finds %s, of which the migration has the text', async ([damage, check, subject]) => {
    const database = await fresh()
    const [, view] = /^CREATE OR REPLACE VIEW (\S+)/.exec(damage) ?? []
    await database.sql(view === undefined ? damage : viewReplaced(view))
    const findings = await findingsOf(database)
    expect(findings.find((finding) => finding.subject === subject)).toMatchObject({
      kind: check,
      severity: 'error',
      remedy: 'npx sluice migrate --print # has its definition',
    })
  })

  test('finds that the roles lack what sluice roles would grant, once it has been run in the database', async () => {
    const database = await fresh()
    expect(await found(database, 'privileges')).toEqual([])
    await database.sql(ROLES_SQL)
    expect(await found(database, 'privileges')).toEqual([])
    await database.sql('REVOKE ALL ON sluice.messages FROM sluice_admin')
    await database.sql('REVOKE ALL ON FUNCTION sluice.pop FROM sluice_claimer')
    expect(await found(database, 'privileges')).toMatchObject([
      {
        kind: 'privileges.roles',
        severity: 'warning',
        finding: expect.stringMatching(/^No role has the rights on sluice.messages, sluice.pop\(.*\) that/),
        remedy: 'npx sluice roles',
      },
    ])
    expect(await runCli(['roles'], { DATABASE_URL: database.url })).toMatchObject({ code: 0 })
    expect(await found(database, 'privileges')).toEqual([])
  })

  test('finds that a view which is not public belongs to another role', async () => {
    const database = await fresh()
    await database.sql('ALTER VIEW sluice_private.peers OWNER TO pg_monitor')
    const [finding] = await found(database, 'schema')
    expect(finding).toMatchObject({ kind: 'schema.owner', severity: 'error', subject: 'view sluice_private.peers' })
    await database.sql(finding!.remedy)
    expect(await findingsOf(database)).toEqual([])
  })

  test('names a table that is gone once, without all that belonged to it, and says which part could not look', async () => {
    const database = await fresh()
    await database.sql('DROP TABLE sluice.crash')
    expect(await findingsOf(database)).toMatchObject([
      { kind: 'schema.missing', subject: 'table sluice.crash' },
      {
        kind: 'doctor.failed',
        severity: 'unknown',
        subject: 'doctor_crashes',
        finding: expect.stringContaining('42P01'),
      },
    ])
  })

  test('waits for no lock longer than a second, and says which part could not look', async () => {
    const database = await fresh()
    const client = await database.pool.connect()
    onTestFinished(() => client.release())
    await client.query('BEGIN; LOCK TABLE sluice.crash')
    expect(await found(database, 'locks')).toMatchObject([
      { severity: 'error', subject: 'table sluice.crash', remedy: expect.stringContaining('pg_terminate_backend') },
    ])
    const blind = await found(database, 'doctor')
    expect(blind.map(({ severity, subject }) => [severity, subject])).toEqual([
      ['unknown', expect.stringContaining('doctor_crashes')],
    ])
    await client.query('ROLLBACK')
    expect(await found(database, 'doctor')).toEqual([])
  })

  test('names first who has locked a table, and once all parts that the lock kept from looking', async () => {
    const database = await fresh()
    const client = await database.pool.connect()
    onTestFinished(() => client.release())
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await client.query('BEGIN; LOCK TABLE sluice.message, sluice.worker')
    const [first, ...others] = await findingsOf(database)
    expect(first).toMatchObject({
      kind: 'locks.table',
      severity: 'error',
      subject: 'table sluice.message',
      finding: expect.stringContaining(`It is server process ${rows[0]?.pid}`),
      remedy: `SELECT pg_terminate_backend(${rows[0]?.pid});`,
    })
    expect(others).toMatchObject([
      {
        kind: 'doctor.failed',
        severity: 'unknown',
        subject: expect.stringMatching(/doctor_workers, doctor_relays, doctor_inboxes, doctor_names/),
      },
    ])
    await client.query('ROLLBACK')
    expect(await findingsOf(database)).toEqual([])
  })

  test('tells groups of conditions apart that differ in nothing but parentheses', async () => {
    const database = await fresh()
    const change = (condition: string) =>
      database.sql(`ALTER TABLE sluice.slot DROP CONSTRAINT slot_range;
        ALTER TABLE sluice.slot ADD CONSTRAINT slot_range CHECK (${condition})`)
    const blank = "held = '{}'"
    await change(`(slot >= 0 AND ${blank}) OR slot > 0`)
    await database.sql(`SELECT sluice_private.note_definitions('{sluice.slot}')`)
    await change(`slot >= 0 AND (${blank} OR slot > 0)`)
    expect(await findingsOf(database)).toMatchObject([
      { kind: 'schema.changed', severity: 'error', subject: 'constraint sluice.slot.slot_range' },
    ])
    await change(`(slot >= 0 AND ${blank}) OR (slot > 0)`)
    expect(await findingsOf(database)).toEqual([])
  })

  test('tells groups apart in a view too, and finds nothing in a view that was made from its own words', async () => {
    const database = await fresh()
    const make = (condition: string) =>
      database.sql(`CREATE OR REPLACE VIEW sluice.mine AS SELECT c.id FROM sluice.claim c WHERE ${condition}`)
    await make('c.id > 0 AND (c.id < 9 OR c.lease_ms BETWEEN 5 AND 9 AND c.id > 1)')
    await database.sql(`SELECT sluice_private.note_definitions('{sluice.mine}')`)
    await database.sql(
      `DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW sluice.mine AS ' || pg_get_viewdef('sluice.mine'::regclass); END $$`,
    )
    expect(await findingsOf(database)).toEqual([])
    await make('(c.id > 0 AND c.id < 9) OR c.lease_ms BETWEEN 5 AND 9 AND c.id > 1')
    expect(await findingsOf(database)).toMatchObject([{ kind: 'schema.changed', subject: 'view sluice.mine' }])
  })

  test('looks at what it can within the statement_timeout of its session, and says what it could not look at', async () => {
    const database = await fresh()
    await database.sql(`INSERT INTO sluice.message (queue, payload, due_at, priority)
      SELECT 'q' || n, '1', now() - interval '1 hour', 5 FROM generate_series(1, 2000) n`)
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    await database.sql(`CREATE OR REPLACE FUNCTION sluice_private.doctor_horizon(open_for interval)
      RETURNS SETOF sluice_private.finding LANGUAGE sql SET search_path = pg_catalog, pg_temp
      AS 'SELECT pg_sleep(60)::text, NULL, NULL, NULL, NULL'`)
    await client.query(`SET statement_timeout = '3s'`)
    const { rows } = await client.query<Finding>(
      `SELECT d.kind, d.severity, d.subject, d.finding FROM sluice.doctor() d WHERE d.kind NOT LIKE 'settings.%'`,
    )
    const failed = rows.filter(({ kind }) => kind === 'doctor.failed')
    expect(failed[0]).toMatchObject({
      severity: 'unknown',
      subject: 'doctor_horizon',
      finding: 'It could not look: the time of statement_timeout, 3s, is over',
    })
    expect(failed.map(({ subject }) => subject)).toContain('doctor_consumers')
    expect(rows[0]).toMatchObject({ kind: 'schema.changed', subject: expect.stringContaining('doctor_horizon') })
  })

  test('ends at once where its statement is cancelled', async () => {
    const database = await fresh()
    await database.sql(`CREATE OR REPLACE FUNCTION sluice_private.doctor_schema(open_for interval)
      RETURNS SETOF sluice_private.finding LANGUAGE sql SET search_path = pg_catalog, pg_temp
      AS 'SELECT pg_sleep(60)::text, NULL, NULL, NULL, NULL'`)
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    const examined = client.query('SELECT * FROM sluice.doctor()')
    examined.catch(() => undefined)
    const sleeping = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`
    await waitFor(async () => (await database.sql(sleeping, [rows[0]?.pid])).length > 0, {
      what: 'the doctor to sleep',
    })
    await expect(examined).rejects.toMatchObject({ code: '57014' })
  })

  test('lists twenty findings of a check, and says how many more there are, and that it looked at no more queues', async () => {
    const database = await fresh()
    await database.sql(`INSERT INTO sluice.message (queue, payload, due_at, priority)
      SELECT 'q' || n, '1', now() - interval '1 hour', 5 FROM generate_series(1, 1100) n`)
    const findings = await findingsOf(database)
    const unconsumed = findings.filter(({ kind }) => kind === 'queues.no_worker')
    expect(unconsumed).toHaveLength(21)
    expect(unconsumed[20]).toMatchObject({
      severity: 'error',
      subject: '1080 more',
      finding: 'This check has 1100 findings, and the first 20 are listed',
      remedy: expect.stringContaining('sluice_private.doctor_consumers'),
    })
    expect(findings.filter(({ kind }) => kind === 'queues.many')).toMatchObject([
      { severity: 'unknown', finding: expect.stringContaining('the first 1000 by name were looked at') },
    ])
    const { stdout } = await runCli(['doctor', '--json'], { DATABASE_URL: database.url })
    const subjects = JSON.parse(stdout).map(({ subject }: Finding) => subject)
    expect(subjects).toEqual(expect.arrayContaining(['1080 more', 'queues']))
  })

  test('finds a worker whose login may not write its activity', async () => {
    const database = await fresh()
    const role = `sluice_test_${randomBytes(6).toString('hex')}`
    await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`)
    onTestFinished(async () => {
      await database.sql(`DROP OWNED BY ${role}`)
      await database.sql(`DROP ROLE ${role}`)
    })
    const [worker] = await database.sql<{ id: number }>(
      `INSERT INTO sluice.worker (name, host, pid, version) VALUES ('w', 'h', 1, '0') RETURNING id`,
    )
    const client = new pg.Client(Object.assign(new URL(database.url), { username: role, password: 'x' }).href)
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('SELECT pg_advisory_lock(746502, $1)', [worker?.id])
    expect(await findingsOf(database)).toMatchObject([
      {
        kind: 'privileges.worker',
        severity: 'warning',
        subject: 'worker w',
        remedy: `npx sluice roles # and then: GRANT sluice_worker TO ${role};`,
      },
    ])
    await database.sql(`GRANT INSERT ON sluice.worker_activity TO ${role}`)
    expect(await findingsOf(database)).toEqual([])
  })

  test('takes no difference for damage where another version of the server has written the definition', async () => {
    const database = await fresh()
    await database.sql(`UPDATE sluice.object_definition SET server = server - 1;
      UPDATE sluice.object_definition SET definition = definition || ' in other words'
      WHERE name IN ('sluice.message_due_idx', 'sluice.claims') AND kind IN ('index', 'view')`)
    const [unknown, ...others] = await findingsOf(database)
    expect(others).toEqual([])
    expect(unknown).toMatchObject({
      kind: 'schema.changed',
      severity: 'unknown',
      subject: '2 definitions',
      finding: expect.stringContaining(': index sluice.message_due_idx, view sluice.claims'),
    })
    await database.sql(unknown!.remedy.split('; --')[0]!)
    expect(await findingsOf(database)).toEqual([])
  })

  test('says that it cannot compare where nothing is noted', async () => {
    const database = await fresh()
    await database.sql('TRUNCATE sluice.object_definition; DROP INDEX sluice.message_due_idx')
    expect(await findingsOf(database)).toMatchObject([{ kind: 'schema.definitions', severity: 'unknown' }])
  })

  test('compares with what later migrations note, which bless nothing but what they name', async () => {
    const database = await fresh()
    await database.sql(`DROP INDEX sluice.message_due_idx; CREATE INDEX another ON sluice.message (queue, priority);
      DROP INDEX sluice.message_lease_idx; SELECT sluice_private.note_definitions('{sluice.another,sluice.message_due_idx}')`)
    expect(await findingsOf(database)).toMatchObject([
      { kind: 'schema.missing', subject: 'index sluice.message_lease_idx' },
    ])
  })

  test('compares alike whatever the settings of its session are', async () => {
    const database = await fresh()
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    await client.query(`SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET intervalstyle = 'iso_8601';
      SET quote_all_identifiers = on; SET search_path = sluice, sluice_private; SET extra_float_digits = -10`)
    const { rows } = await client.query(`SELECT d.kind FROM sluice.doctor() d WHERE d.kind LIKE 'schema.%'`)
    expect(rows).toEqual([])
  })

  test('changes nothing: it runs in a transaction that may not write', async () => {
    const database = await fresh()
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    await client.query('BEGIN READ ONLY')
    const { rows } = await client.query(`SELECT FROM sluice.doctor() d WHERE d.kind = 'doctor.failed'`)
    expect(rows).toEqual([])
  })

  test.for([
    [`SELECT sluice.doctor(NULL)`, 'expected a time, received NULL'],
    [`SELECT sluice.doctor('-1 second')`, 'open_for: expected from zero to 100 years'],
  ] as const)('refuses %s', async ([call, message], { database }) => {
    await expect(database.sql(call)).rejects.toThrow(message)
  })
})

/** The view with a condition more. */
function viewReplaced(view: string): string {
  return `DO $$ BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW ${view} AS ' || rtrim(pg_get_viewdef('${view}'::regclass), ';') || ' AND true';
  END $$`
}
