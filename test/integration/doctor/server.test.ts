import pg from 'pg'
import { describe, expect, inject, onTestFinished } from 'vitest'
import type { EmbeddedServer } from '../../../faults/environment/embedded-server.ts'
import { migrate } from '../../../src/migrate/migrate.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { found } from '../../support/rows/findings.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { ROLES_SQL } from '../../support/servers/logins.ts'
import { startRestartableServer } from '../../support/servers/restartable-server.ts'
import { startStandbyPair } from '../../support/servers/standby-pair.ts'
import { startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

async function fresh(): Promise<TestDatabase> {
  const database = await createTestDatabase()
  onTestFinished(() => database[Symbol.asyncDispose]())
  return database
}

async function connect(url: string, name = 'a report'): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: name })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end().catch(() => undefined))
  return client
}

/** What the views and the doctor take for the time now. */
async function moveClock(database: TestDatabase, by: string): Promise<void> {
  await database.sql(
    `CREATE OR REPLACE FUNCTION sluice_private.clock() RETURNS timestamptz
     LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT pg_catalog.clock_timestamp() + interval '${by}' $$`,
  )
}

function nameOf({ url }: Pick<TestDatabase, 'url'>): string {
  return new URL(url).pathname.slice(1)
}

describe('settings', () => {
  test('that lose or destroy what was committed, or keep dead rows, are found on a server that has them', async () => {
    const server = await startRestartableServer({
      fsync: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'off',
      autovacuum: 'off',
      track_counts: 'off',
      track_activities: 'off',
    })
    const findings = await server.sql<{ kind: string; severity: string; remedy: string }>(
      `SELECT d.kind, d.severity, d.remedy FROM sluice.doctor() d WHERE d.kind LIKE 'settings.%' ORDER BY 1`,
    )
    expect(findings.map(({ kind, severity }) => [kind, severity])).toEqual([
      ['settings.autovacuum', 'error'],
      ['settings.fsync', 'error'],
      ['settings.full_page_writes', 'error'],
      ['settings.synchronous_commit', 'warning'],
      ['settings.track_activities', 'unknown'],
      ['settings.track_counts', 'error'],
    ])
    expect(findings[0]?.remedy).toBe('ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();')
  })

  test('of the database, or of another role in it, are found, and their remedies undo them', async () => {
    const database = await fresh()
    const role = `sluice_test_${nameOf(database).slice(-12)}`
    await database.sql(`CREATE ROLE ${role}`)
    onTestFinished(async () => void (await database.sql(`DROP ROLE ${role}`)))
    await database.sql(`ALTER ROLE ${role} IN DATABASE ${nameOf(database)} SET synchronous_commit = off`)
    const [ofRole, ...others] = await found(database, 'settings')
    expect(others).toEqual([])
    expect(ofRole).toMatchObject({ kind: 'settings.synchronous_commit', severity: 'warning', subject: `role ${role}` })
    await database.sql(ofRole!.remedy)
    await database.sql(`ALTER DATABASE ${nameOf(database)} SET default_transaction_read_only = on`)
    const client = await connect(database.url)
    const { rows } = await client.query(
      `SELECT d.kind, d.severity, d.remedy FROM sluice.doctor() d WHERE d.kind LIKE 'settings.default%'`,
    )
    expect(rows).toMatchObject([{ kind: 'settings.default_transaction_read_only', severity: 'error' }])
    for (const statement of rows[0].remedy.split('; ')) await client.query(statement)
    expect(
      await found(
        { sql: async (text, params = []) => (await (await connect(database.url)).query(text, [...params])).rows },
        'settings',
      ),
    ).toEqual([])
  })
})

describe('connections', () => {
  test('that are nearly as many as a database may have are found', async () => {
    const database = await fresh()
    await database.sql(`ALTER DATABASE ${nameOf(database)} CONNECTION LIMIT 4`)
    expect(await found(database, 'connections')).toEqual([])
    await connect(database.url)
    await connect(database.url)
    await connect(database.url, 'sluice batches')
    const [few, ...others] = await found(database, 'connections')
    expect(others).toEqual([])
    expect(few).toMatchObject({
      kind: 'connections.few',
      severity: 'error',
      subject: `database ${nameOf(database)}`,
      finding: `4 of 4 connections of the database ${nameOf(database)} are in use, 1 of them by Sluice`,
    })
    await database.sql(few!.remedy)
    expect(await found(database, 'connections')).toEqual([])
  })

  test('that are nearly as many as the server may have are found', async () => {
    const server = await startRestartableServer({ max_connections: 8, superuser_reserved_connections: 3 })
    expect(await found(server, 'connections')).toEqual([])
    for (let n = 0; n < 3; n++) await connect(server.url)
    expect(await found(server, 'connections')).toMatchObject([
      {
        severity: 'warning',
        subject: 'server',
        finding: '4 of 5 connections of the server are in use, 0 of them by Sluice',
      },
    ])
  })
})

describe('connections that live workers have planned', () => {
  test('beyond the limit of the database are found, until they plan fewer', async () => {
    const database = await fresh()
    const worker = startTestSluice(database, { pollInterval: '100ms' })
    const pipeline = worker
      .pipeline('orders', { concurrency: 30 })
      .handle(() => undefined)
      .start()
    const planned = async (connections: number) =>
      (await database.sql('SELECT FROM sluice.worker WHERE connections = $1', [connections])).length > 0
    await waitFor(() => planned(32), { what: 'a heartbeat' })
    expect(await found(database, 'connections.planned')).toEqual([])
    await database.sql(`ALTER DATABASE ${nameOf(database)} CONNECTION LIMIT 31`)
    expect(await found(database, 'connections.planned')).toMatchObject([
      {
        severity: 'warning',
        subject: `database ${nameOf(database)}`,
        finding: `1 live worker may open 32 connections at full load, and the database ${nameOf(database)} allows 31`,
        remedy: `ALTER DATABASE ${nameOf(database)} CONNECTION LIMIT -1;`,
      },
    ])
    pipeline.setConcurrency(29)
    await waitFor(() => planned(31), { what: 'the next heartbeat' })
    expect(await found(database, 'connections.planned')).toEqual([])
  })

  test('count the connections of a leased pipeline: for claims, settlements, and ten at most for its handlers', async () => {
    const database = await fresh()
    const worker = startTestSluice(database, { pollInterval: '100ms' })
    const pipeline = worker
      .pipeline('orders', { mode: 'leased', concurrency: 500 })
      .handle(() => undefined)
      .start()
    const planned = async () => (await database.sql<{ n: number }>('SELECT connections AS n FROM sluice.worker'))[0]?.n
    await waitFor(async () => (await planned()) === 2 + 2 + 10, { what: 'a heartbeat' })
    pipeline.setConcurrency(3)
    await waitFor(async () => (await planned()) === 2 + 2 + 3, { what: 'the next heartbeat' })
  })
})

describe('bloat', () => {
  test('of a table and of an index is found by an estimate, and gone after their remedies', async () => {
    const database = await fresh()
    // The last rows stay, so that VACUUM gives nothing back. Pages that are filled to a tenth are like those from which most rows have been removed.
    await database.sql(`ALTER TABLE sluice.action SET (fillfactor = 10);
      CREATE INDEX wide ON sluice.action (actor, application) WITH (fillfactor = 10);
      INSERT INTO sluice.action (actor, login, application, action, count)
      SELECT md5(n::text) || repeat('x', 150), 'me', md5(n::text) || repeat('y', 200), 'message.cancel', 1 FROM generate_series(1, 30000) n`)
    await database.sql('REINDEX INDEX sluice.wide; ANALYZE sluice.action')
    await database.sql('DELETE FROM sluice.action WHERE id <= 29000')
    await database.sql('VACUUM ANALYZE sluice.action')
    await database.sql('ALTER TABLE sluice.action RESET (fillfactor); ALTER INDEX sluice.wide RESET (fillfactor)')
    const bloated = async () => found(database, 'vacuum.bloat')
    // Statistics reach others with some delay.
    const [table, index] = await waitFor(async () => ((await bloated()).length === 2 ? bloated() : undefined), {
      what: 'both to be found',
    })
    expect(table).toMatchObject({
      severity: 'warning',
      subject: 'table sluice.action',
      finding: expect.stringMatching(/^sluice.action has \d+ MB, and its 1000 rows need about \d+ kB, by an estimate/),
    })
    expect(index).toMatchObject({ subject: 'index sluice.wide', remedy: 'REINDEX INDEX CONCURRENTLY sluice.wide;' })
    await database.sql(index!.remedy)
    expect(await bloated()).toMatchObject([{ subject: 'table sluice.action' }])
    await database.sql(table!.remedy.split(';')[0]!)
    expect(await bloated()).toEqual([])
  })

  test('of a table without statistics is unknown', async () => {
    const database = await fresh()
    await database.sql(`ALTER TABLE sluice.action SET (fillfactor = 10, autovacuum_enabled = off);
      INSERT INTO sluice.action (actor, login, action, count)
      SELECT repeat('x', 500), 'me', 'message.cancel', 1 FROM generate_series(1, 10000) n`)
    await waitFor(async () => (await found(database, 'vacuum.bloat')).length > 0, { what: 'the count of its rows' })
    expect(await found(database, 'vacuum.bloat')).toMatchObject([
      { severity: 'unknown', subject: 'table sluice.action', remedy: 'ANALYZE sluice.action;' },
    ])
  })
})

describe('the horizon', () => {
  test('is held by a session with an open transaction: which, since when, and what that costs', async () => {
    const database = await fresh()
    // An autovacuum between the DELETE and its statistics, which reach others later, would count the dead rows twice.
    await database.sql('ALTER TABLE sluice.message SET (autovacuum_enabled = off)')
    const holder = await connect(database.url)
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    const { rows } = await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await database.sql(`SELECT sluice.enqueue('q', '1') FROM generate_series(1, 12000)`)
    await database.sql(`DELETE FROM sluice.message`)
    const counted = async () =>
      (
        await database.sql(
          `SELECT FROM pg_stat_all_tables WHERE relid = 'sluice.message'::regclass AND n_dead_tup = 12000`,
        )
      ).length > 0
    await waitFor(counted, { what: 'the statistics of the DELETE' })
    expect(await found(database, 'horizon')).toEqual([])
    const [session, ...others] = await found(database, 'horizon', '0')
    expect(others).toEqual([])
    expect(session).toMatchObject({
      kind: 'horizon.session',
      severity: 'warning',
      subject: `process ${rows[0]?.pid}`,
      finding: expect.stringMatching(
        /^A session of postgres \(a report\), idle in transaction, has had a transaction open for \d+m?s?(?: \d+s)?: .* 12\d{3} dead rows, the most in sluice.message$/,
      ),
    })
    await database.sql('VACUUM sluice.message')
    // Autovacuum comes once in a naptime, which is a minute.
    expect(await found(database, 'vacuum.behind')).toEqual([])
    await moveClock(database, '3 minutes')
    expect(await found(database, 'vacuum.behind')).toMatchObject([
      {
        severity: 'warning',
        subject: 'table sluice.message',
        finding: expect.stringMatching(
          /has 12000 dead rows and \d+ live ones?; autovacuum should begin at \d+; .* \d+m?s?(?: \d+s)? ago/,
        ),
      },
    ])
    await database.sql(session!.remedy)
    await waitFor(async () => (await found(database, 'horizon', '0')).length === 0, { what: 'the session to end' })
    const vacuumed = async () => {
      // A look at another table may have had a snapshot meanwhile.
      await database.sql('VACUUM sluice.message')
      return (await found(database, 'vacuum.behind')).length === 0
    }
    await waitFor(vacuumed, { what: 'no dead rows' })
  })

  test('is not held by a session in a transaction without a snapshot, nor by one of another database', async () => {
    const [database, other] = await Promise.all([fresh(), fresh()])
    const idle = await connect(database.url)
    await idle.query('BEGIN; SELECT 1')
    const elsewhere = await connect(other.url)
    await elsewhere.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    expect(await found(database, 'horizon', '0')).toEqual([])
  })

  test('is unknown where the owner of the schema may not see since when a session has its transaction', async () => {
    const database = await fresh()
    const owner = `sluice_test_${nameOf(database).slice(-12)}`
    await database.sql(
      `CREATE ROLE ${owner} LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE ${nameOf(database)} TO ${owner}`,
    )
    await database.sql('DROP SCHEMA sluice, sluice_private CASCADE')
    onTestFinished(async () => {
      await database.sql(`DROP OWNED BY ${owner} CASCADE`)
      await database.sql(`DROP ROLE ${owner}`)
    })
    const own = Object.assign(new URL(database.url), { username: owner, password: 'x' }).href
    await migrate(own)
    await database.sql(ROLES_SQL)
    const holder = await connect(database.url)
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    const [hidden, ...others] = await found(database, 'horizon', '0')
    expect(others).toEqual([])
    expect(hidden).toMatchObject({
      kind: 'horizon.hidden',
      severity: 'unknown',
      subject: '1 session',
      remedy: `GRANT pg_read_all_stats TO ${owner};`,
    })
    await database.sql(hidden!.remedy)
    expect(await found(database, 'horizon', '0')).toMatchObject([{ kind: 'horizon.session' }])
  })

  test('is held by a transaction that was prepared and forgotten', async () => {
    const server = await startRestartableServer({ max_prepared_transactions: 3 })
    const client = await connect(server.url)
    await client.query(
      `BEGIN; SET LOCAL sluice.notify = off; SELECT sluice.enqueue('q', '1'); PREPARE TRANSACTION 'it''s mine'`,
    )
    expect(await found(server, 'horizon')).toEqual([])
    const [prepared, ...others] = await found(server, 'horizon', '0')
    expect(others).toEqual([])
    expect(prepared).toMatchObject({
      kind: 'horizon.prepared',
      severity: 'warning',
      subject: `prepared transaction 'it''s mine'`,
      finding: expect.stringMatching(/^postgres prepared it \d+m?s ago, and it is neither committed nor rolled back/),
    })
    await server.sql(prepared!.remedy.split(';')[0]!)
    expect(await found(server, 'horizon', '0')).toEqual([])
  })

  test('is held by a standby that gives feedback, by its slot, and by the slot when the standby has gone', async () => {
    const pair = await startStandbyPair({ synchronous: false })
    await feedback(pair.standby)
    const reader = await connect(pair.standby.url)
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    const held = async () => {
      const rows = await pair.primary.sql('SELECT FROM pg_stat_replication WHERE backend_xmin IS NOT NULL')
      return rows.length > 0
    }
    await waitFor(held, { what: 'feedback' })
    expect(await found(pair.primary, 'horizon', '0')).toEqual([])
    await useUpTransactions(pair.primary, 10_000)
    expect(await found(pair.primary, 'horizon', '0')).toMatchObject([
      {
        kind: 'horizon.standby',
        severity: 'warning',
        subject: 'standby standby',
        finding: expect.stringMatching(/1\d{4} transactions ago/),
      },
    ])

    await pair.primary.sql(`SELECT pg_create_physical_replication_slot('standby_slot')`)
    await pair.standby.sql(`ALTER SYSTEM SET primary_slot_name = 'standby_slot'`)
    await pair.standby.sql('SELECT pg_reload_conf()')
    const bySlot = async () => (await found(pair.primary, 'horizon.slot')).length > 0
    await waitFor(bySlot, { what: 'the slot to hold the horizon' })
    expect(await found(pair.primary, 'horizon')).toMatchObject([
      {
        kind: 'horizon.slot',
        subject: 'replication slot standby_slot',
        finding: expect.stringMatching(/^It is in use,/),
      },
    ])
    await pair.standby.stop('immediate')
    const unused = async () =>
      (await found(pair.primary, 'horizon.slot', '0'))[0]?.finding.startsWith('It is not in use')
    await waitFor(unused, { what: 'the slot to be free' })
    const [slot] = await found(pair.primary, 'horizon.slot', '0')
    await pair.primary.sql(slot!.remedy.split(';')[0]!)
    expect(await found(pair.primary, 'horizon', '0')).toEqual([])
  })
})

describe('on a standby', () => {
  test('the doctor compares the schema, and calls the rest unknown', async () => {
    const pair = await startStandbyPair({ synchronous: false })
    await pair.primary.sql(
      `DROP INDEX sluice.message_lease_idx; SELECT sluice.enqueue('q', '1', due_at => now() - interval '1 hour')`,
    )
    await pair.caughtUp()
    expect(await found(pair.standby, 'server')).toMatchObject([{ kind: 'server.standby', severity: 'unknown' }])
    expect(await found(pair.standby, 'schema')).toMatchObject([{ subject: 'index sluice.message_lease_idx' }])
    expect(await found(pair.standby, 'queues')).toEqual([])
    expect(await found(pair.standby, 'doctor')).toEqual([])
    const { code, stdout } = await runCli(['doctor', '--json'], { DATABASE_URL: pair.standby.url })
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ kind: 'server.standby' }))
  })
})

describe('the queue of notifications', () => {
  test('that fills because a session listens in an open transaction is found', async ({ skip }) => {
    if (inject('serverVersion') < 170_000) skip('Before PostgreSQL 17 it has 8 GB, and nothing makes it smaller')
    const server = await startRestartableServer({ max_notify_queue_pages: 64 })
    const listener = await connect(server.url)
    await listener.query('LISTEN sluice')
    await listener.query('BEGIN; SELECT 1')
    const notify = (count: number) =>
      server.sql(`SELECT pg_notify('sluice', n || repeat('x', 7000)) FROM generate_series(1, $1::integer) n`, [count])
    await notify(16)
    expect(await found(server, 'notify')).toMatchObject([{ kind: 'notify.full', severity: 'warning' }])
    await notify(20)
    expect(await found(server, 'notify')).toMatchObject([
      { severity: 'error', finding: expect.stringContaining('Sluice notifies no more') },
    ])
    const [full] = await found(server, 'notify')
    const idle = await server.sql<{ pid: number }>(full!.remedy.split('; --')[0]!)
    expect(idle).toHaveLength(1)
    await listener.query('COMMIT')
    await notify(1)
    await waitFor(async () => (await found(server, 'notify')).length === 0, { what: 'the queue to be read' })
  })
})

/** The standby tells its primary which rows its queries need. */
async function feedback(standby: EmbeddedServer): Promise<void> {
  await standby.sql('ALTER SYSTEM SET hot_standby_feedback = on')
  await standby.sql(`ALTER SYSTEM SET wal_receiver_status_interval = '1s'`)
  await standby.sql('SELECT pg_reload_conf()')
}

async function useUpTransactions(server: EmbeddedServer, count: number): Promise<void> {
  await server.sql(`DO $$ BEGIN FOR n IN 1..${count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$`)
}
