import { describe, expect } from 'vitest'
import { whoever } from '../../../src/cli/whoever.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { test } from '../../support/sluice.ts'

describe('sluice schedule', () => {
  test('sets, lists, gets, pauses, resumes, runs and deletes', async ({ database, queue }) => {
    const env = { DATABASE_URL: database.url }
    const run = (...args: string[]) => runCli(['schedule', ...args], env)
    const set = [
      'set',
      'nightly',
      queue,
      '{"n": 1}',
      '--cron',
      '0 3 * * *',
      '--zone',
      'Asia/Tokyo',
      '--no-overlap',
      '--grace',
      '5m',
      '--catch-up',
      '10/2d',
      '--tenant',
      'ada',
      ...['--priority', '1', '--delay', '1s', '--ttl', '1h', '--max-attempts', '3', '--headers', '{"a": 1}'],
      ...['--retry-policy', 'gentle', '--lease', '10m', '--schema-version', '2'],
    ]
    const created = await run(...set)
    expect(created).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Schedule created, next \S+T18:00:00\.000Z\n$/),
    })
    expect((await run(...set)).stdout).toMatch(/^Unchanged, next /)
    expect((await run('next', 'nightly', '-n', '1')).stdout).toMatch(/ 03:00:00 Asia\/Tokyo {2}in /)
    expect(await run('run-now', 'nightly')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Enqueued message \d+\.\n$/),
    })
    expect(await run('run-now', 'nightly')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('must not overlap'),
    })
    expect((await run('pause', 'nightly', '--reason', 'maintenance')).stdout).toBe('Paused.\n')
    expect(await run('next', 'nightly', '-n', '1')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/ 03:00:00 Asia\/Tokyo {2}in /),
      stderr: expect.stringContaining('It is paused'),
    })
    expect((await run('list')).stdout).toMatch(/^nightly +\S+ +0 3 \* \* \* Asia\/Tokyo +paused +1 +0$/m)
    const shown: unknown = JSON.parse((await run('get', 'nightly')).stdout)
    expect(shown).toMatchObject({ payload: { n: 1 }, overlap: false, paused: { reason: 'maintenance', by: whoever() } })
    const given = { priority: 1, delayMs: 1_000, ttlMs: 3_600_000, maxAttempts: 3, headers: { a: 1 }, tenant: 'ada' }
    expect(shown).toMatchObject({ ...given, retryPolicy: 'gentle', leaseMs: 600_000, schemaVersion: 2 })
    const [told] = await database.sql('SELECT grace_ms, catch_up_most, catch_up_ms, tenant FROM sluice.schedule')
    expect(told).toEqual({ grace_ms: '300000', catch_up_most: 10, catch_up_ms: '172800000', tenant: 'ada' })
    expect((await run('resume', 'nightly')).stdout).toBe('Resumed.\n')
    expect(await run('delete', 'nightly')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('without a terminal to ask on, --yes is needed'),
    })
    expect((await run('delete', 'nightly', '-y')).stdout).toBe('Deleted.\n')
    expect(await run('delete', 'nightly', '-y')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('There is no schedule'),
    })
  })

  test('refuses what cannot be, with the exit code 2', async ({ database, queue }) => {
    const env = { DATABASE_URL: database.url }
    for (const [args, words] of [
      [['--cron', '0 0 31 2 *'], 'with an occurrence to come'],
      [['--cron', '* * * * *', '--zone', 'Mars'], 'a time zone'],
      [[], 'expected either --cron or --every, received neither'],
      [['--every', '1x'], 'Expected a duration'],
      [['{', '--every', '1h'], 'Expected JSON'],
      [['--every', '1h', '--catch-up', '/'], 'Expected how many, how old, or both'],
      [['--every', '1h', '--missed', 'some'], 'Expected skip, last or all'],
    ] as const) {
      const result = await runCli(['schedule', 'set', 'never', queue, ...args], env)
      expect(result, args.join(' ')).toMatchObject({ code: 2, stderr: expect.stringContaining(words) })
    }
  })

  test('says that there is none, and which one may have been meant', async ({ database, sluice, queue }) => {
    const run = (...args: string[]) => runCli(['schedule', ...args], { DATABASE_URL: database.url })
    await sluice.schedules.set('weekly', { every: '7d', queue, payload: {} })
    const stderr = 'error: There is no schedule "weekli". Did you mean "weekly"?\n'
    const commands = ['get', 'pause', 'run-now', 'delete'].map(async (command) => {
      expect(await run(command, 'weekli'), command).toMatchObject({ code: 1, stdout: '', stderr })
    })
    await Promise.all(commands)
    expect(await run('list', `${queue}x`)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`There are no schedules for queue "${queue}x". No queue has this name.`),
    })
  })

  test('is mentioned by sluice status, with what needs attention', async ({ database, sluice, queue }) => {
    const env = { DATABASE_URL: database.url }
    await sluice.schedules.set('late', { every: '1d', queue, payload: {} })
    await database.sql(`UPDATE sluice.schedule SET next_at = next_at - interval '1 day 2 hours' WHERE name = 'late'`)
    await sluice.schedules.set('wrong', { every: '1d', queue, payload: {} })
    await database.sql(`UPDATE sluice.schedule SET error = 'no such zone' WHERE name = 'wrong'`)
    const { stdout } = await runCli(['status', '--queue', queue], env)
    expect(stdout).toMatch(/^late +\S+ +every 1d +now /m)
    expect(stdout).toMatch(/schedule late: late by .*: no worker enqueues it/)
    expect(stdout).toContain('schedule wrong: fails: no such zone')
  })
})
