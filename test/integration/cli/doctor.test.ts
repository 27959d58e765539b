import { describe, expect } from 'vitest'
import { clockFindings } from '../../../src/operate/doctor.ts'
import type { Finding } from '../../../src/table/operate/doctor.ts'
import { runCli, spawnCli } from '../../support/processes/run-cli.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test as withLogins } from '../../support/servers/logins.ts'
import { startPooler } from '../../support/servers/pooler.ts'
import { startRestartableServer } from '../../support/servers/restartable-server.ts'
import { startTestSluice, test } from '../../support/sluice.ts'

const DAMAGE = 'DROP INDEX sluice.message_lease_idx'
const HARMLESS = 'CREATE INDEX mine ON sluice.message (type)'

describe('sluice doctor', () => {
  test('says that it found nothing, prints each finding with its remedy, and exits with 1 for an error alone', async () => {
    const server = await startRestartableServer({ fsync: 'on' })
    const cli = (...args: string[]) => runCli(['doctor', ...args], { DATABASE_URL: server.url })
    expect(await cli()).toEqual({ code: 0, stdout: 'The doctor found nothing\n', stderr: '' })
    expect(await cli('--json')).toEqual({ code: 0, stdout: '[]\n', stderr: '' })
    await server.sql(HARMLESS)
    expect(await cli()).toEqual({
      code: 0,
      stdout:
        'warning  schema.added  index sluice.mine\n' +
        '  The index sluice.mine is on a table of Sluice, and no migration made it: every message is written to it\n' +
        '  → DROP INDEX CONCURRENTLY sluice.mine;\n',
      stderr: '',
    })
    await server.sql(DAMAGE)
    const both = await cli()
    expect(both).toMatchObject({ code: 1, stderr: 'error: the doctor found 1 error\n' })
    expect(both.stdout).toMatch(
      /^error {4}schema.missing {2}index sluice.message_lease_idx\n[\s\S]*\n\nwarning {2}schema.added/,
    )
    const json = await cli('--json')
    expect(json).toMatchObject({ code: 1, stderr: both.stderr })
    expect(JSON.parse(json.stdout).map(({ kind, severity }: Finding) => [kind, severity])).toEqual([
      ['schema.missing', 'error'],
      ['schema.added', 'warning'],
    ])
  })

  test('counts a transaction as open from when it is told to', async ({ database }) => {
    const client = await database.pool.connect()
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await client.query('SELECT 1')
    const cli = (...args: string[]) => runCli(['doctor', ...args], { DATABASE_URL: database.url })
    expect((await cli()).stdout).not.toContain('horizon.session')
    expect((await cli('--open-for', '0s')).stdout).toContain('horizon.session')
    client.release(true)
    expect(await cli('--open-for', 'long')).toMatchObject({ code: 2 })
  })

  test('finds that the clock of its machine is wrong, in either direction', async ({ database }) => {
    for (const [shiftMs, words] of [
      [600_000, /is (?:599|600)(?:\.\d)? s ahead of the database's/],
      [-30_000, /is (?:29|30)(?:\.\d)? s behind the database's/],
    ] as const) {
      const shifted = `data:text/javascript,const now = Date.now; Date.now = () => now() + ${shiftMs}`
      const env = { DATABASE_URL: database.url, NODE_OPTIONS: `--import "${shifted.replaceAll(' ', '%20')}"` }
      const { stdout } = await spawnCli(['doctor', '--json'], env)
      const findings: readonly Finding[] = JSON.parse(stdout)
      expect(findings.filter(({ kind }) => kind === 'clock.apart')).toMatchObject([
        { severity: 'warning', finding: expect.stringMatching(words) },
      ])
    }
  })

  test('finds a transaction pooler between it and the server, unless there is a direct connection', async ({
    database,
    skip,
  }) => {
    const through = await startPooler(database, skip)
    const poolers = (findings: readonly Finding[]) => findings.filter(({ kind }) => kind === 'pooler.transaction')
    const pooled = startTestSluice(database, { connection: through.url })
    expect(poolers(await pooled.operate.doctor())).toMatchObject([{ severity: 'warning', subject: 'connection' }])
    const direct = startTestSluice(database, { connection: through.url, directConnection: database.url })
    expect(poolers(await direct.operate.doctor())).toEqual([])
  })

  test('still says what the database has found where it gets no second connection', async () => {
    await using database = await createTestDatabase()
    const role = `sluice_test_${new URL(database.url).pathname.slice(-12)}`
    await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 1`)
    await database.sql(`GRANT USAGE ON SCHEMA sluice TO ${role}; GRANT SELECT ON sluice.workers TO ${role};
      GRANT EXECUTE ON FUNCTION sluice.doctor, sluice.schema_version TO ${role}`)
    await database.sql(DAMAGE)
    const url = Object.assign(new URL(database.url), { username: role, password: 'x' }).href
    const sluice = startTestSluice({ url })
    const findings = await sluice.operate.doctor()
    expect(findings.filter(({ kind }) => !kind.startsWith('settings.'))).toMatchObject([
      { kind: 'schema.missing', subject: 'index sluice.message_lease_idx' },
      { kind: 'connections.few', subject: `role ${role}` },
      { kind: 'pooler.transaction', severity: 'unknown' },
    ])
    await sluice.stop()
    await database.sql(`DROP OWNED BY ${role}`)
    await database.sql(`DROP ROLE ${role}`)
  })
})

describe('the clocks', () => {
  test('are apart only by more than the measurement may be wrong', () => {
    expect(clockFindings({ aheadMs: 1_900, withinMs: 0 })).toEqual([])
    expect(clockFindings({ aheadMs: -2_500, withinMs: 600 })).toEqual([])
    expect(clockFindings({ aheadMs: -2_700, withinMs: 600 })).toMatchObject([
      { kind: 'clock.apart', finding: expect.stringContaining('2.7 s behind') },
    ])
  })
})

describe('a member of', () => {
  withLogins.for(['sluice_reader', 'sluice_operator', 'sluice_admin'] as const)(
    '%s sees what the owner of the schema sees',
    async (role, { database, login }) => {
      const { url, name } = await login(role)
      await database.sql(`DROP INDEX IF EXISTS sluice.message_lease_idx`)
      const { stdout, code } = await runCli(['doctor', '--json'], { DATABASE_URL: url })
      expect(code, name).toBe(1)
      const findings: readonly Finding[] = JSON.parse(stdout)
      expect(findings.filter(({ kind }) => !kind.startsWith('settings.'))).toMatchObject([
        { kind: 'schema.missing', subject: 'index sluice.message_lease_idx' },
      ])
    },
  )

  withLogins('sluice_worker alone is told which role it takes', async ({ login }) => {
    const { url } = await login('sluice_worker')
    expect(await runCli(['doctor'], { DATABASE_URL: url })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('sluice_reader'),
    })
  })
})
