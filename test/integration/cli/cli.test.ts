import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished } from 'vitest'
import { migrationSql } from '../../../src/migrate/migrate.ts'
import { type CliResult, runCli, spawnCli, startCli } from '../../support/processes/run-cli.ts'
import { bury, register } from '../../support/rows/operations.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/test.ts'

const test = base.extend(
  'cli',
  ({ database }) =>
    (...args: string[]) =>
      runCli(args, { DATABASE_URL: database.url }),
)

describe('sluice', () => {
  test.for([
    { args: ['statsu'], says: "unknown command 'statsu'" },
    { args: ['status', '--colour'], says: "unknown option '--colour'" },
    { args: ['peek', 'no spaces'], says: 'Expected 1 to 100 letters' },
    { args: ['dead', 'redrive', '--yes'], says: 'name a queue, or give --all-queues' },
    { args: ['dead', 'redrive', '--all-queues', 'payments'], says: 'but not both' },
    { args: ['status'], says: 'Set DATABASE_URL or --database-url' },
    { args: ['status', '--database-url', 'host=db password=tell'], says: 'expected a URL' },
  ])('answers $args with exit code 2 and what is wrong', async ({ args, says }) => {
    const result = await runCli(args)
    expect(result).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(says) })
    expect(result.stderr).not.toContain('tell')
  })

  test('without a schema fails with the command to run', async () => {
    await using database = await createTestDatabase({ migrated: false })
    const env = { DATABASE_URL: database.url }
    expect(await spawnCli(['status'], env)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('npx sluice migrate'),
    })
    const applied = migrationSql().map(({ name }) => `Applied ${name}\n`)
    expect(await spawnCli(['migrate'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(applied.join('')),
    })
    expect(await runCli(['migrate'], env)).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing to do') })
  })

  test('help finds a command below another', async () => {
    expect(await spawnCli(['help', 'dead', 'redrive'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Usage: sluice dead redrive'),
    })
  })

  test('says what to check of a server that is not there, or does not know the user', async ({ database }) => {
    const nobody = Object.assign(new URL(database.url), { port: '1' })
    expect((await runCli(['status'], { DATABASE_URL: nobody.href })).stderr).toContain(
      'Check the host and the port, and that the server runs there',
    )
    const stranger = Object.assign(new URL(database.url), { username: 'nobody_of_this_name' })
    expect((await runCli(['status'], { DATABASE_URL: stranger.href })).stderr).toContain(
      'Check the user and the password in DATABASE_URL',
    )
  })

  test('migrate --print needs no database', async () => {
    const { code, stdout } = await spawnCli(['migrate', '--print'])
    expect(code).toBe(0)
    for (const { sql } of migrationSql()) expect(stdout).toContain(sql)
  })

  test.for([
    { name: 'a wrong password', alter: (url: URL) => Object.assign(url, { password: 'hunter%2122' }) },
    { name: 'nobody there', alter: (url: URL) => Object.assign(url, { password: 'hunter%2122', port: '1' }) },
    { name: 'an unencoded character', alter: (url: URL) => url.href.replace(/:[^:@]*@/, ':hunter!22#x@') },
    { name: 'a wrong port', alter: (url: URL) => url.href.replace(/:[^:@]*@[^/]*/, ':hunter!22@db:port') },
    { name: 'a parameter', alter: () => 'postgres://db.invalid/app?password=hunter!22' },
  ])('never shows the password: $name', async ({ alter }, { database }) => {
    const url = String(alter(new URL(database.url)))
    for (const result of [
      await runCli(['status', '--database-url', url]),
      await runCli(['migrate'], { DATABASE_URL: url }),
    ]) {
      expect(result.code).toBeGreaterThan(0)
      expect(result.stderr).toMatch(/^error: .*(--database-url|DATABASE_URL)/)
      expect(result.stdout + result.stderr).not.toMatch(/hunter/)
    }
  })

  test('masks passwords that an application put into an error', async ({ database, cli }) => {
    await bury(database, { queue: 'leaky', error: 'Error: smtp://mail:hunter2@mx.example refused' })
    for (const args of [
      ['list', 'leaky'],
      ['list', 'leaky', '--json'],
      ['redrive', 'leaky', '--dry-run'],
    ]) {
      const { stdout } = await cli('dead', ...args)
      expect(stdout).toContain('smtp://mail:***@mx.example refused')
    }
  })
})

describe('sluice status', () => {
  test('shows queues, workers, and what needs attention', async ({ database, cli }) => {
    await database.sql(`SELECT sluice.enqueue('lonely', '{}') FROM generate_series(1, 3)`)
    await database.sql(`SELECT sluice.enqueue('lonely', '{}', delay => '62 minutes')`)
    await bury(database, { queue: 'lonely' })
    await register(database, { name: 'alive:1', queues: ['served'], alive: true })
    await register(database, { name: 'gone:2', queues: ['lonely', 'served'], alive: false, inHand: 2 })
    await database.sql(`UPDATE sluice.message SET due_at = due_at - interval '2 minutes' WHERE queue = 'lonely'`)
    await database.sql(`UPDATE sluice.worker SET seen_at = seen_at - interval '4 minutes' WHERE name = 'gone:2'`)
    const { code, stdout, stderr } = await cli('status')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^QUEUE +READY +SCHEDULED +RETRYING +IN FLIGHT +DEAD +OLDEST READY +NEXT DUE +WORKERS$/m)
    expect(stdout).toMatch(/^lonely +3 +1 +0 +0 +1 +2m(?: \d+s)? +in 59m 5\ds +0$/m)
    expect(stdout).toMatch(/^served +0 +0 +0 +0 +0 +- +- +1$/m)
    expect(stdout).toMatch(/^alive:1 +yes +0 +\d+m?s ago +served$/m)
    expect(stdout).toMatch(/^gone:2 +no +2 +4m(?: \d+s)? ago +lonely, served$/m)
    expect(stdout).toMatch(
      /needs attention\n(?:.*\n)*? {2}lonely: 3 ready, .*no live worker.*\n {4}→ .*\n {2}lonely: 1 dead letter\n(?:.*\n)* {2}worker gone:2 .*: gone with 2 messages/,
    )

    const json: unknown = JSON.parse((await cli('status', '--json', '--queue', 'lonely')).stdout)
    expect(json).toEqual({
      at: expect.stringMatching(/^\d{4}-.*Z$/),
      queues: [
        {
          queue: 'lonely',
          ready: 3,
          held: 0,
          scheduled: 1,
          retrying: 0,
          expired: 0,
          inFlight: 0,
          dead: 1,
          oldestReadyAgeMs: expect.any(Number),
          nextDueAt: expect.stringMatching(/^\d{4}-.*Z$/),
          nextDueInMs: expect.any(Number),
          workers: 0,
          pausedAt: null,
        },
      ],
      workers: [
        {
          id: expect.stringMatching(/^\d+$/),
          name: 'gone:2',
          host: 'host',
          pid: 1,
          version: '0',
          queues: ['lonely', 'served'],
          startedAt: expect.stringMatching(/^\d{4}-.*Z$/),
          seenAt: expect.stringMatching(/^\d{4}-.*Z$/),
          seenAgoMs: expect.any(Number),
          alive: false,
          stale: false,
          inFlight: 2,
        },
      ],
      schedules: [],
      streams: [],
      groups: [],
      settings: [],
      limits: [],
      relays: [],
      inboxes: [],
      attention: [
        {
          kind: 'queues.no_worker',
          severity: 'wrong',
          subject: 'lonely',
          queue: 'lonely',
          messages: 3,
          text: expect.stringMatching(/^3 ready, the oldest for .*, and no live worker consumes it$/),
          remedy: 'npx sluice explain lonely',
        },
        expect.objectContaining({ kind: 'queues.dead_letters', messages: 1, text: '1 dead letter' }),
        expect.objectContaining({ kind: 'workers.gone', worker: 'gone:2', messages: 2 }),
      ],
    })
  })

  test('--watch prints again, and ends well when interrupted', async ({ database }) => {
    const child = startCli(['status', '--watch', '--json'], { DATABASE_URL: database.url })
    onTestFinished(() => void child.kill('SIGKILL'))
    const lines = createInterface(child.stdout)
    await once(lines, 'line')
    const [second] = await once(lines, 'line')
    expect(JSON.parse(String(second))).toHaveProperty('queues')
    const names = await database.sql(
      `SELECT FROM pg_stat_activity WHERE application_name = 'sluice cli' AND datname = current_database()`,
    )
    expect(names).toHaveLength(1)
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  test('--watch ends quietly when nobody reads any more', async ({ database }) => {
    const child = startCli(['status', '--watch'], { DATABASE_URL: database.url })
    onTestFinished(() => void child.kill('SIGKILL'))
    let complaint = ''
    child.stderr.on('data', (data) => {
      complaint += String(data)
    })
    await once(child.stdout, 'data')
    child.stdout.destroy()
    expect(await once(child, 'exit')).toEqual([0, null])
    expect(complaint).toBe('')
  })
})

describe('sluice peek', () => {
  test('shows the next messages, with numbers as the database has them', async ({ database, cli }) => {
    const payload = '{"big": 12345678901234567890, "price": 1.10, "bell": "\\u0007"}'
    await database.sql(`SELECT sluice.enqueue('peeked', $1::text::jsonb, type => 'a.b', ordering_key => 'k')`, [
      payload,
    ])
    await database.sql(`SELECT sluice.enqueue('peeked', '2', delay => '1 hour')`)
    const { stdout } = await cli('peek', 'peeked')
    expect(stdout).toMatch(/^ *\d+ +ready +\d+m?s ago +0 +a\.b +k +- +\{.*12345678901234567890.*1\.10/m)
    expect(stdout).toMatch(/^ *\d+ +scheduled +in 59m 5\ds +0 +- +- +- +2$/m)

    const json = (await cli('peek', 'peeked', '--limit', '1', '--json')).stdout
    expect(json).toMatch(/"big": 12345678901234567890,\n.*\n *"price": 1\.10/)
    expect(JSON.parse(json)).toEqual([
      expect.objectContaining({
        queue: 'peeked',
        id: expect.any(String),
        state: 'ready',
        orderingKey: 'k',
        attempt: 0,
      }),
    ])
  })

  test('of an empty queue prints nothing to a pipe', async ({ database }) => {
    expect(await spawnCli(['peek', 'empty'], { DATABASE_URL: database.url })).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('"empty"'),
    })
  })
})

describe('sluice claims', () => {
  test('lists claims, and releases one', async ({ database, cli }) => {
    await database.sql(`SELECT sluice.enqueue('claimed', '{}') FROM generate_series(1, 3)`)
    const [row] = await database.sql<{ id: string }>(
      `SELECT claim_id::text AS id FROM sluice.claim('claimed', 2, '10 minutes') LIMIT 1`,
    )
    const id = row?.id ?? ''
    const { code, stdout } = await cli('claims', 'list')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^QUEUE +CLAIM +MESSAGES +RENEWED +ENDS$/m)
    expect(stdout).toMatch(new RegExp(`^claimed +${id} +2 +\\d+m?s ago +in 9m 5\\ds$`, 'm'))
    expect(JSON.parse((await cli('claims', 'list', 'claimed', '--json')).stdout)).toMatchObject([{ id, messages: 2 }])
    expect((await cli('claims', 'release', 'claimed', id)).stdout).toBe('Released 2 messages.\n')
    const again = await cli('claims', 'release', 'claimed', id)
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining(`has no live claim ${id}`) })
    expect(await cli('claims', 'release', 'claimed', 'x')).toMatchObject({ code: 2 })
    expect((await cli('claims', 'list', 'claimed')).stderr).toContain('There are no claims.')
  })
})

describe('the name of a queue that there is not', () => {
  test.for([
    { args: ['peek', 'known.quee'], code: 0 },
    { args: ['status', '--queue', 'known.quee'], code: 0 },
    { args: ['dead', 'list', 'known.quee'], code: 0 },
    { args: ['dead', 'redrive', 'known.quee', '--yes'], code: 0 },
    { args: ['dead', 'get', 'known.quee', '1'], code: 1 },
  ])('is told apart from an empty queue: $args', async ({ args, code }, { database, cli }) => {
    await database.sql(`SELECT sluice.enqueue('known.queue', '1')`)
    const wrong = await cli(...args)
    expect(wrong.code).toBe(code)
    expect(wrong.stdout + wrong.stderr).toContain('No queue has this name. Did you mean "known.queue"?')
    const right = await cli(...args.map((arg) => arg.replace('quee', 'queue')))
    expect(right.code).toBe(code)
    expect(right.stdout + right.stderr).not.toContain('No queue')
  })
})

describe('sluice dead', () => {
  test('lists and shows dead letters', async ({ database, cli }) => {
    const [first, second] = await bury(database, {
      queue: 'buried',
      count: 2,
      error: 'Error: no\n  at x',
      reason: 'Timeout',
    })
    const list = await cli('dead', 'list', 'buried', '--reason', 'time', '--limit', '1')
    expect(list.stdout).toMatch(
      new RegExp(`^buried +${second} +order\\.paid +5 +\\d+m?s ago +Timeout +Error: no at x$`, 'm'),
    )
    expect(list.stdout.trim().split('\n')).toHaveLength(2)
    expect(list.stderr).toContain('There are more than these 1')

    const shown = (await cli('dead', 'get', 'buried', String(first))).stdout
    expect(shown).toMatch(/^type +order\.paid$/m)
    expect(shown).toContain('payload\n  {\n    "order": 1\n  }\n')
    expect(shown).toContain('headers\n  {\n    "trace": "abc"\n  }\n')
    expect(shown).toContain('error\n  Error: no\n    at x\n')

    const json: unknown = JSON.parse((await cli('dead', 'list', 'buried', '--json')).stdout)
    expect(json).toEqual(
      [second, first].map((id) => expect.objectContaining({ id, payload: { order: 1 }, reason: 'Timeout' })),
    )
    expect(await cli('dead', 'get', 'buried', '1')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('has no dead letter 1'),
    })
  })

  test.for(['redrive', 'delete'])(
    '%s shows what it will do, and refuses without --yes',
    async (verb, { database, cli }) => {
      const queue = `refused.${verb}`
      await bury(database, { queue, count: 4 })
      const dry = await cli('dead', verb, queue, '--dry-run')
      expect(dry).toMatchObject({ code: 0, stderr: expect.stringContaining('dry run') })
      expectPlan(dry, queue)
      const refused = await cli('dead', verb, queue)
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('--yes') })
      expectPlan(refused, queue)
      expect(await countDead(database, queue)).toBe(4)
    },
  )

  test('redrive --yes puts back those that match', async ({ database, cli }) => {
    const [id] = await bury(database, { queue: 'redriven', count: 3 })
    const result = await cli('dead', 'redrive', 'redriven', '--id', String(id), '--id', '7', '--yes')
    expect(result).toMatchObject({ code: 0, stdout: expect.stringContaining('Redriven 1 dead letter.') })
    expect(await database.sql(`SELECT id, attempt FROM sluice.message WHERE queue = 'redriven'`)).toEqual([
      { id, attempt: 0 },
    ])
    expect(await countDead(database, 'redriven')).toBe(2)
  })

  test('delete --yes deletes those that match, and finds nothing the second time', async ({ database, cli }) => {
    await bury(database, { queue: 'deleted', count: 3 })
    await database.sql(
      `UPDATE sluice.dead_letter SET type = 'other' WHERE id = (SELECT max(id) FROM sluice.dead_letter WHERE queue = 'deleted')`,
    )
    const args = ['dead', 'delete', 'deleted', '--type', 'order.paid', '--newer-than', '1h', '--yes']
    expect(await cli(...args)).toMatchObject({ code: 0, stdout: expect.stringContaining('Deleted 2 dead letters.') })
    expect(await countDead(database, 'deleted')).toBe(1)
    expect(await cli(...args)).toMatchObject({ code: 0, stdout: 'No dead letters match.\n' })
  })
})

function expectPlan({ stdout }: CliResult, queue: string): void {
  expect(stdout).toMatch(/^(Redrive|Delete) 4 dead letters:$/m)
  expect(stdout).toMatch(new RegExp(`^${queue} +order\\.paid +4 +Too many attempts +-?$`, 'm'))
  expect(stdout.match(new RegExp(`^${queue} +\\d+ `, 'gm'))).toHaveLength(3)
}

async function countDead(database: TestDatabase, queue: string): Promise<number> {
  const rows = await database.sql(`SELECT FROM sluice.dead_letter WHERE queue = $1`, [queue])
  return rows.length
}
