import { describe, expect, onTestFinished } from 'vitest'
import { ack } from '../../src/message.ts'
import { runCli } from '../support/processes/run-cli.ts'
import { findingsOf, found } from '../support/rows/findings.ts'
import { append, makeStream } from '../support/rows/streams.ts'
import { createTestDatabase, type TestDatabase } from '../support/servers/database.ts'
import { ROLES_SQL } from '../support/servers/logins.ts'
import { startRestartableServer } from '../support/servers/restartable-server.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'

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
    const [made] = await database.sql(`SELECT definition AS pg_get_constraintdef FROM sluice.made
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
    expect(findings).toMatchObject([{ check, severity, subject }])
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
    [
      'CREATE OR REPLACE VIEW sluice.claims AS SELECT * FROM (SELECT c.* FROM sluice.claims c) c',
      'schema.changed',
      'view sluice.claims',
    ],
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
    await database.sql(damage.includes('sluice.claims c') ? VIEW_REPLACED : damage)
    const findings = await findingsOf(database)
    expect(findings.find((finding) => finding.subject === subject)).toMatchObject({
      check,
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
        check: 'privileges.roles',
        severity: 'warning',
        finding: expect.stringMatching(/^No role has the rights on sluice.messages, sluice.pop\(.*\) that/),
        remedy: 'npx sluice roles',
      },
    ])
    expect(await runCli(['roles'], { DATABASE_URL: database.url })).toMatchObject({ code: 0 })
    expect(await found(database, 'privileges')).toEqual([])
  })

  test('names a table that is gone once, without all that belonged to it, and says which part could not look', async () => {
    const database = await fresh()
    await database.sql('DROP TABLE sluice.crash')
    expect(await findingsOf(database)).toMatchObject([
      { check: 'schema.missing', subject: 'table sluice.crash' },
      {
        check: 'doctor.failed',
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
    const blind = await found(database, 'doctor')
    expect(blind.map(({ severity, subject }) => [severity, subject])).toContainEqual(['unknown', 'doctor_crashes'])
    await client.query('ROLLBACK')
    expect(await found(database, 'doctor')).toEqual([])
  })

  test('takes no difference for damage where another version of the server has written the definition', async () => {
    const database = await fresh()
    await database.sql(`UPDATE sluice.made SET server = server - 1;
      UPDATE sluice.made SET definition = definition || ' in other words'
      WHERE name IN ('sluice.message_due_idx', 'sluice.claims') AND kind IN ('index', 'view')`)
    const [unknown, ...others] = await findingsOf(database)
    expect(others).toEqual([])
    expect(unknown).toMatchObject({
      check: 'schema.changed',
      severity: 'unknown',
      subject: '2 definitions',
      finding: expect.stringContaining(': index sluice.message_due_idx, view sluice.claims'),
    })
    await database.sql(unknown!.remedy.split('; --')[0]!)
    expect(await findingsOf(database)).toEqual([])
  })

  test('says that it cannot compare where nothing is noted', async () => {
    const database = await fresh()
    await database.sql('TRUNCATE sluice.made; DROP INDEX sluice.message_due_idx')
    expect(await findingsOf(database)).toMatchObject([{ check: 'schema.made', severity: 'unknown' }])
  })

  test('compares with what later migrations note, which bless nothing but what they name', async () => {
    const database = await fresh()
    await database.sql(`DROP INDEX sluice.message_due_idx; CREATE INDEX another ON sluice.message (queue, priority);
      DROP INDEX sluice.message_lease_idx; SELECT sluice_private.note_made('{sluice.another,sluice.message_due_idx}')`)
    expect(await findingsOf(database)).toMatchObject([
      { check: 'schema.missing', subject: 'index sluice.message_lease_idx' },
    ])
  })

  test('compares alike whatever the settings of its session are', async () => {
    const database = await fresh()
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    await client.query(`SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET intervalstyle = 'iso_8601';
      SET quote_all_identifiers = on; SET search_path = sluice, sluice_private; SET extra_float_digits = -10`)
    const { rows } = await client.query(`SELECT d.check FROM sluice.doctor() d WHERE d.check LIKE 'schema.%'`)
    expect(rows).toEqual([])
  })

  test('changes nothing: it runs in a transaction that may not write', async () => {
    const database = await fresh()
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    await client.query('BEGIN READ ONLY')
    const { rows } = await client.query(`SELECT FROM sluice.doctor() d WHERE d.check = 'doctor.failed'`)
    expect(rows).toEqual([])
  })

  test.for([
    [`SELECT sluice.doctor(NULL)`, 'expected a time, received NULL'],
    [`SELECT sluice.doctor('-1 second')`, 'open_for: expected from zero to 100 years'],
  ] as const)('refuses %s', async ([call, message], { database }) => {
    await expect(database.sql(call)).rejects.toThrow(message)
  })
})

const VIEW_REPLACED = `DO $$ BEGIN
  EXECUTE 'CREATE OR REPLACE VIEW sluice.claims AS ' || rtrim(pg_get_viewdef('sluice.claims'::regclass), ';') || ' AND true';
END $$`
