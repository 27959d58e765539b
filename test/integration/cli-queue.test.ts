import { describe, expect } from 'vitest'
import { runCli } from '../support/processes/run-cli.ts'
import { put, test } from '../support/sluice.ts'

describe('sluice queue', () => {
  test('says that no queue has the name, and which one may have been meant', async ({ database, sluice, queue }) => {
    const cli = (...args: string[]) => runCli(['queue', ...args], { DATABASE_URL: database.url })
    await put(sluice, queue, [1])
    const stderr = `No queue has this name. Did you mean "${queue}"?\n`
    const commands = [['get'], ['resume'], ['unset'], ['pause'], ['set', '--ttl', '7d']] as const
    const all = commands.map(async ([command, ...more]) => {
      expect(await cli(command, `${queue}${command.slice(0, 2)}`, ...more), command).toMatchObject({ code: 0, stderr })
    })
    await Promise.all([...all, expect(cli('get', queue)).resolves.toMatchObject({ code: 0, stderr: '' })])
    // It has a setting since.
    expect(await cli('resume', `${queue}pa`)).toMatchObject({ code: 0, stderr: '' })
  })

  test('names the settings of unset as set takes them', async ({ database, queue }) => {
    const cli = (...args: string[]) => runCli(['queue', ...args], { DATABASE_URL: database.url })
    expect(await cli('set', queue, '--on-expiry', 'explode')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^error: --on-expiry: expected 'drop'/m),
    })
    expect(await cli('unset', queue, 'foo')).toMatchObject({ code: 2, stderr: expect.stringContaining('on-expiry') })
    await cli('set', queue, '--max-attempts', '5', '--ttl', '7d')
    expect(await cli('unset', queue, 'max-attempts', 'ttl')).toMatchObject({
      code: 0,
      stdout: `Unset max-attempts, ttl of ${queue}.\n`,
    })
  })
})

describe('sluice message reschedule', () => {
  test('takes a time, with its offset from UTC', async ({ database, sluice, queue }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const run = (...args: string[]) =>
      runCli(['message', 'reschedule', queue, id, ...args], { DATABASE_URL: database.url })
    expect(await run('--at', '2050-01-31T10:00:00+01:00')).toMatchObject({ code: 0, stdout: 'Rescheduled.\n' })
    expect(await database.sql('SELECT due_at FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { due_at: new Date('2050-01-31T09:00:00Z') },
    ])
    for (const args of [
      [],
      ['--in', '1h', '--at', '2050-01-31T09:00:00Z'],
      ['--at', '2050-01-31 09:00'],
      ['--at', 'x'],
    ])
      expect(await run(...args), args.join(' ')).toMatchObject({ code: 2 })
  })
})

describe('sluice status', () => {
  test('says that messages wait for a limit', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1, 2, 3])
    await sluice.operate.queues.settings.set(queue, { concurrency: 1 })
    await sluice.claim(queue)
    const { stdout } = await runCli(['status'], { DATABASE_URL: database.url })
    expect(stdout).toContain(`${queue}: 2 ready wait for the limit: concurrency 1, 1 in flight`)
  })
})
