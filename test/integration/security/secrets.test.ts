import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { inspect, promisify } from 'node:util'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe, expect, onTestFinished } from 'vitest'
import type { ConnectionConfig } from '../../../src/config.ts'
import { deadLetter } from '../../../src/message.ts'
import { migrate } from '../../../src/migrate/migrate.ts'
import { createSluice } from '../../../src/sluice.ts'
import { EventLog } from '../../support/event-log.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { test } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'

const SECRET = 'tell9Me8Not7'
const SLOW = { kind: 'fixed', delay: '1h' } as const

/** Everything that a program may print of a value, as a logger does and as a debugger does. */
function printed(value: unknown): string {
  const forms = [String(value), json(value), inspect(value, { depth: Infinity })]
  if (value instanceof Error) forms.push(inspect(value, { depth: Infinity, showHidden: true }), value.stack ?? '')
  return forms.join('\n')
}

function json(value: unknown): string {
  try {
    return JSON.stringify(value) ?? ''
  } catch {
    return '' // refers to itself
  }
}

/** `createSluice` refuses it, and so has nothing to connect to. */
const NO_URL = 'no URL'

/** Connections that fail, with the secret wherever a connection may hold one. */
const CONNECTIONS: readonly (readonly [name: string, connection: (url: URL) => ConnectionConfig])[] = [
  ['a wrong password', (url) => Object.assign(url, { password: SECRET }).href],
  ['a wrong password with encoded characters', (url) => Object.assign(url, { password: `${SECRET}@/:%#?` }).href],
  ['nobody there', (url) => Object.assign(url, { password: SECRET, port: '1' }).href],
  ['no such host', (url) => Object.assign(url, { password: SECRET, hostname: 'db.invalid' }).href],
  ['no such database', (url) => Object.assign(url, { pathname: '/nowhere', search: `?sslpassword=${SECRET}` }).href],
  ['a password as a parameter', (url) => Object.assign(url, { search: `?password=${SECRET}` }).href],
  ['TLS where there is none', (url) => Object.assign(url, { password: SECRET, search: '?sslmode=verify-full' }).href],
  ['an unencoded slash', (url) => url.href.replace(/:[^:@]*@/, `:${SECRET}/x@`)],
  ['an unencoded hash', (url) => url.href.replace(/:[^:@]*@/, `:x#${SECRET}@`)],
  ['an unencoded question mark', (url) => url.href.replace(/:[^:@]*@/, `:${SECRET}?x@`)],
  ['a port that is none', (url) => url.href.replace(/:[^:@]*@[^/]*/, `:${SECRET}@127.0.0.1:port`)],
  ['percent signs that encode nothing', (url) => url.href.replace(/:[^:@]*@/, `:%${SECRET}%@`)],
  [NO_URL, () => `host=127.0.0.1 port=1 password=${SECRET}`],
  ['an object', (url) => ({ host: url.hostname, port: Number(url.port), user: 'postgres', password: SECRET })],
  [
    'a function',
    (url) => ({ host: url.hostname, port: Number(url.port), user: 'postgres', password: async () => SECRET }),
  ],
  ['a key that is none', (url) => ({ connectionString: url.href, ssl: { key: SECRET, cert: SECRET } })],
]

/** The command line takes only these. */
const STRINGS = CONNECTIONS.findIndex(([name]) => name === 'an object')

describe('a password', () => {
  test.for(CONNECTIONS.filter(([name]) => name !== NO_URL))(
    'is in no error, event or object of ours: %s',
    async ([, make], { database }) => {
      const connection = make(new URL(database.url))
      const warnings = warningsOf()
      const sluice = createSluice({ connection, connectTimeout: 2_000 })
      const log = new EventLog(sluice.events)
      const attempts = [
        sluice.start(),
        sluice.enqueue(sluice.ownTransaction, 'q', 1),
        sluice.migrate(),
        migrate(typeof connection === 'string' ? connection : { ...connection, connectionTimeoutMillis: 2_000 }),
      ]
      const outcomes = await Promise.allSettled(attempts)
      const pipeline = sluice.pipeline('q').handle(() => undefined)
      await sluice.stop({ timeout: 0 })
      expect(outcomes.map(({ status }) => status)).toEqual(attempts.map(() => 'rejected'))
      for (const value of [...outcomes, ...log.all, ...warnings, sluice, sluice.events, pipeline]) {
        expect(printed(value)).not.toContain(SECRET)
      }
      for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { name: 'SluiceError' } })
    },
  )

  test('is in no error about a connection string in the wrong place', async () => {
    const url = `postgres://me:${SECRET}@db/app`
    const sluice = createSluice({ connection: 'postgres://db.invalid/app' })
    const mistakes: readonly (() => unknown)[] = [
      () => createSluice(url as never),
      () => createSluice({ connection: [url] as never }),
      () => createSluice({ connection: `host=db password=${SECRET}` }),
      () => createSluice({ connection: SECRET }),
      () => createSluice({ connection: url, pollInterval: url as never }),
      () => createSluice({ connection: url, url } as never),
      () => sluice.enqueue(url as never, 'q', 1),
      () => sluice.enqueue({ connectionString: url } as never, 'q', 1),
      () => sluice.enqueue(sluice.ownTransaction, url, 1),
      () => sluice.enqueue(`host=db password=${SECRET}` as never, 'q', 1),
    ]
    for (const mistake of mistakes) {
      const error = await (async () => mistake())().catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ name: 'SluiceError' })
      expect(printed(error)).not.toContain(SECRET)
    }
    await sluice.stop()
  })

  test('that works is in nothing of a worker that runs, fails, and loses its connections', async ({ database }) => {
    const { url, password } = await withPassword(database)
    const warnings = warningsOf()
    const sluice = startTestSluice({ url })
    const log = new EventLog(sluice.events)
    const seen: unknown[] = []
    sluice
      .pipeline('lost', { retry: SLOW })
      .handle(async (message, context) => {
        seen.push(message, context)
        await context.tx.query('SELECT 1 / 0')
      })
      .subscribe()
    await put(sluice, 'lost', [1])
    await log.first('message.failed')
    for (const application of ['sluice listener', 'sluice control']) {
      await database.sql(`ALTER ROLE ${new URL(url).username} PASSWORD 'another'`)
      // Of this database alone: others test beside it.
      await database.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = $1 AND datname = current_database()`,
        [application],
      )
    }
    await log.first(
      'connection.lost',
      ({ role, error }) => role === 'control' && error.message !== 'The connection ended',
    )
    const activity = await database.sql('SELECT query, application_name FROM pg_stat_activity')
    const workers = await database.sql('SELECT * FROM sluice.workers')
    expect(workers).toHaveLength(1)
    for (const value of [...log.all, ...warnings, ...seen, sluice, activity, workers, await processes()]) {
      expect(printed(value)).not.toContain(password)
    }
  })

  test.for(CONNECTIONS.slice(0, STRINGS))('is in no output of the command line: %s', async ([, make], { database }) => {
    const env = { DATABASE_URL: String(make(new URL(database.url))) }
    const warnings = warningsOf()
    for (const command of ['migrate', 'roles']) {
      const { code, stdout, stderr } = await runCli([command], env)
      expect(code).toBeGreaterThan(0)
      expect(stdout + stderr).not.toContain(SECRET)
    }
    for (const warning of warnings) expect(printed(warning)).not.toContain(SECRET)
  })
})

describe('a payload', () => {
  test('is in no event and no stored error, whatever fails with it', async ({ database }) => {
    const schema: StandardSchemaV1 = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value) => (isStrict(value) ? { issues: [{ message: 'no' }] } : { value }),
      },
    }
    const sluice = createSluice({ connection: database.url, queues: { q: { schema }, strict: {} } })
    onTestFinished(() => sluice.stop({ timeout: 0 }))
    const log = new EventLog(sluice.events)
    await database.sql(`
      CREATE TABLE strict (note text NOT NULL CHECK (length(note) < 5), at integer);
      CREATE UNIQUE INDEX ON strict (note);
      CREATE TABLE late (note text UNIQUE DEFERRABLE INITIALLY DEFERRED);
      INSERT INTO late VALUES ('${SECRET}')`)
    const insert = 'INSERT INTO strict VALUES ($1)'
    const ends: Readonly<
      Record<string, (secret: string, query: (text: string, params: unknown[]) => Promise<unknown>) => unknown>
    > = {
      check: (secret, query) => query(insert, [secret]),
      swallowed: (secret, query) => query(insert, [secret]).catch(() => undefined),
      deferred: (secret, query) => query('INSERT INTO late VALUES ($1)', [secret]),
      missing: (_, query) => query('INSERT INTO strict (at) VALUES (1)', []),
      returned: (secret) => ({ secret }),
      thrown: (secret) => Promise.reject({ secret }),
      buried: () => deadLetter('on purpose'),
    }
    sluice
      .pipeline('q', { retry: SLOW })
      .handle(async ({ payload }, { tx }) => {
        const { end, secret } = payload as { end: string; secret: string }
        return ends[end]?.(secret, (text, params) => tx.query(text, params)) as undefined
      })
      .subscribe()
    const names = Object.keys(ends)
    for (const end of names) await sluice.enqueue(sluice.ownTransaction, 'q', { end, secret: SECRET })
    await database.sql(`SELECT sluice.enqueue('q', '{"end": "strict", "secret": "${SECRET}"}')`)
    await waitFor(() => log.of('message.failed').length + log.of('message.dead').length === names.length + 1, {
      what: 'all to fail',
    })
    const errors = await database.sql(
      `SELECT last_error FROM sluice.messages WHERE queue = 'q' UNION ALL SELECT concat(reason, error) FROM sluice.dead_letters`,
    )
    expect(errors).toHaveLength(names.length + 1)
    for (const value of [...log.all, errors]) expect(printed(value)).not.toContain(SECRET)
  })

  test.for([
    ['a string that its schema refuses', SECRET],
    ['a number that JSON has not', { card: 12345678901234567890n }],
    ['a NUL character', { note: `${SECRET}\0` }],
    ['an object of a class', { note: new Map([[SECRET, SECRET]]) }],
    ['what is too large', { note: SECRET.repeat(100) }],
  ] as const)('is in no error that refuses it: %s', async ([, payload]) => {
    const schema: StandardSchemaV1 = {
      '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
    }
    const sluice = createSluice({
      connection: 'postgres://db.invalid/app',
      queues: { q: { schema } },
      payloadLimitBytes: 500,
    })
    const error = await sluice.enqueue(sluice.ownTransaction, 'q', payload).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: expect.stringMatching(/^PAYLOAD_/) })
    expect(printed(error)).not.toMatch(new RegExp(`${SECRET}|12345678901234567890`))
    await sluice.stop()
  })

  test('is not printed by the command line when the server quotes a row that it refuses', async ({ database }) => {
    await database.sql(
      `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
       VALUES ('odd', 4711, 5, 0, '"${SECRET}"', '{}', 1, 'by hand', now())`,
    )
    const { code, stderr } = await runCli(['dead', 'redrive', 'odd', '--yes'], { DATABASE_URL: database.url })
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('schema_version: 1 or more') })
    expect(stderr).not.toContain(SECRET)
  })
})

function isStrict(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'end' in value && value.end === 'strict'
}

/** The warnings of this process from now on. */
function warningsOf(): readonly Error[] {
  const warnings: Error[] = []
  const keep = (warning: Error) => void warnings.push(warning)
  process.on('warning', keep)
  onTestFinished(() => void process.off('warning', keep))
  return warnings
}

/** A login whose password stands nowhere else, and may do everything in the database. */
async function withPassword(database: TestDatabase): Promise<{ readonly url: string; readonly password: string }> {
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const password = randomBytes(12).toString('hex')
  await database.sql(`CREATE ROLE ${name} SUPERUSER LOGIN PASSWORD '${password}'`)
  onTestFinished(async () => void (await database.sql(`DROP ROLE ${name}`)))
  return { url: Object.assign(new URL(database.url), { username: name, password }).href, password }
}

/** The command lines of all processes of the machine. */
async function processes(): Promise<string> {
  return (await promisify(execFile)('ps', ['-A', '-ww', '-o', 'args='])).stdout
}
