import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { test } from '../../support/servers/logins.ts'

describe('sluice enqueue', () => {
  const GIVEN = [
    ['--type', 'order.paid'],
    ['--schema-version', '2'],
    ['--headers', '{"trace": "a"}'],
    ['--tenant', 'ada'],
    ['--priority', '1'],
    ['--ttl', '1h'],
    ['--max-attempts', '3'],
    ['--retry-policy', 'gentle'],
    ['--lease', '10m'],
    ['--at', '2050-01-31T10:00:00+01:00'],
  ].flat()

  test('gives a message all that it can be given, and says its number', async ({ database }) => {
    const result = await runCli(['enqueue', 'all', '{"n": 1}', ...GIVEN], { DATABASE_URL: database.url })
    expect(result).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Enqueued message \d+\.\n$/) })
    expect(
      await database.sql(
        `SELECT type, schema_version, payload, headers, tenant, priority, max_attempts, retry_policy, due_at,
                lease = interval '10 min' AS lease, expires_at - due_at = interval '1 h' AS lives
         FROM sluice.messages WHERE queue = 'all'`,
      ),
    ).toEqual([
      {
        type: 'order.paid',
        schema_version: 2,
        payload: { n: 1 },
        headers: { trace: 'a' },
        tenant: 'ada',
        priority: 1,
        max_attempts: 3,
        retry_policy: 'gentle',
        due_at: new Date('2050-01-31T09:00:00Z'),
        lease: true,
        lives: true,
      },
    ])
  })

  test('says what has become of a message with a dedupe key', async ({ database }) => {
    const run = (...args: string[]) =>
      runCli(['enqueue', 'keyed', '1', '--dedupe-key', 'k', ...args], { DATABASE_URL: database.url })
    const [, id = ''] = /^Enqueued message (\d+), which is ready\.\n$/.exec((await run()).stdout) ?? []
    expect(id).not.toBe('')
    expect((await run()).stdout).toBe(`Nothing was enqueued: the key is taken by message ${id}, which is ready.\n`)
    expect((await run('--on-duplicate', 'update')).stdout).toBe(`Updated message ${id}, which is ready.\n`)
    const debounced = await run('--on-duplicate', 'debounce', '--delay', '1h')
    expect(debounced.stdout).toBe(`Debounced message ${id}, which is scheduled.\n`)
    const json: unknown = JSON.parse((await run('--on-duplicate', 'throttle', '--dedupe-for', '1m', '--json')).stdout)
    expect(json).toEqual({ id, outcome: 'duplicate', state: 'scheduled' })
  })

  test('needs the rights of a producer, and says to others that no queue has the name', async ({ database, login }) => {
    const producer = await login('sluice_producer')
    const run = (url: string, queue: string) => runCli(['enqueue', queue, '1', '--json'], { DATABASE_URL: url })
    expect(await run(producer.url, 'shop')).toMatchObject({ code: 0, stderr: '' })
    expect(await run(database.url, 'shop')).toMatchObject({ code: 0, stderr: '' })
    expect(await run(database.url, 'shpo')).toMatchObject({
      code: 0,
      stderr: 'No queue has this name. Did you mean "shop"?\n',
    })
  })

  test('refuses what cannot be, with the exit code 2', async ({ database }) => {
    for (const [args, words] of [
      [['{'], 'Expected JSON'],
      [
        ['{"n": 9007199254740993}'],
        'expected integers that JavaScript holds exactly, up to 2^53, received 9007199254740993',
      ],
      [['1', '--delay', '1x'], 'Expected a duration'],
      [['1', '--delay', '1m', '--at', '2050-01-31T10:00:00Z'], 'expected delay or dueAt, received both'],
      [['1', '--headers', '7'], 'headers: expected'],
      [['1', '--dedupe-for', '1m'], 'expected --dedupe-key'],
      [['1', '--dedupe-key', 'k', '--on-duplicate', 'replace'], 'Expected one of reject, update'],
      [
        ['1', '--dedupe-key', 'k', '--on-duplicate', 'throttle'],
        '--dedupe-for: throttle needs it. As in --dedupe-for 10m',
      ],
      [['1', '--dedupe-key', 'k', '--on-duplicate', 'debounce'], 'expected --delay or --at with --on-duplicate'],
      [
        ['1', '--tenant', 'a', '--dedupe-key', 'k', '--on-duplicate', 'requeue'],
        '--on-duplicate: requeue excludes a tenant',
      ],
      [['1', '--lease', '1ms'], '--lease: expected'],
      [['1', '--tenant', 'a', '--ordering-key', 'b'], 'expected tenant or orderingKey, received both'],
    ] as const) {
      const result = await runCli(['enqueue', 'never', ...args], { DATABASE_URL: database.url })
      expect(result, args.join(' ')).toMatchObject({ code: 2, stderr: expect.stringContaining(words) })
    }
    expect(await database.sql(`SELECT FROM sluice.message WHERE queue = 'never'`)).toEqual([])
  })
})
