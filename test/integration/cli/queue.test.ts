import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { bury } from '../../support/rows/operations.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'

describe('sluice queue', () => {
  test('refuses a name that no queue has, and says which one may have been meant', async ({
    database,
    sluice,
    queue,
  }) => {
    const cli = (...args: string[]) => runCli(['queue', ...args], { DATABASE_URL: database.url })
    await put(sluice, queue, [1])
    const hint = `No queue has this name. Did you mean "${queue}"?\n`
    const other = `${queue}x`
    for (const args of [['pause'], ['set', '--ttl', '7d']] as const) {
      const [command, ...more] = args
      expect(await cli(command, other, ...more), command).toMatchObject({
        code: 1,
        stdout: '',
        stderr: `${hint}error: Nothing has changed: without a terminal to ask on, --yes is needed\n`,
      })
    }
    for (const command of ['resume', 'unset'])
      expect(await cli(command, other), command).toMatchObject({ code: 1, stdout: '', stderr: `error: ${hint}` })
    expect(await sluice.operate.queues.settings.list()).toEqual([])
    expect(await cli('get', other)).toMatchObject({ code: 0, stderr: hint })
    expect(await cli('get', queue)).toMatchObject({ code: 0, stderr: '' })
    expect(await cli('pause', other, '--yes')).toMatchObject({ code: 0, stderr: hint })
    // It is paused since.
    expect(await cli('resume', other)).toMatchObject({ code: 0, stderr: '' })
  })

  test('says of a stream which queues its groups have', async ({ database, sluice, queue }) => {
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'billing')
    const hint = `"${queue}" is a stream. Its groups have the queues ${queue}:billing.`
    const run = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    expect((await run('dead', 'list', queue)).stderr).toBe(`No dead letters match. ${hint}\n`)
    expect(await run('queue', 'pause', queue)).toMatchObject({ code: 1, stderr: expect.stringContaining(hint) })
  })

  test('pause says what the reason was, and keeps it unless another is given', async ({ database, sluice, queue }) => {
    const pause = (...args: string[]) => runCli(['queue', 'pause', queue, ...args], { DATABASE_URL: database.url })
    await sluice.operate.queues.pause(queue, { by: 'ada', reason: 'the provider' })
    expect((await pause()).stdout).toMatch(/was paused already, \d+m?s ago by ada: the provider\.\n$/)
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({ pausedBy: 'ada' })
    const { stdout } = await pause('--by', 'bob', '--reason', 'a test')
    expect(stdout).toMatch(/was paused already, .* by ada: the provider\. Now its reason is: a test\n$/)
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({ pausedBy: 'bob', pauseReason: 'a test' })
  })

  test('names the settings of unset as set takes them, and unsets all without a name', async ({
    database,
    sluice,
    queue,
  }) => {
    const cli = (...args: string[]) => runCli(['queue', ...args], { DATABASE_URL: database.url })
    expect(await cli('set', queue, '--on-expiry', 'explode', '--yes')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^error: --on-expiry: expected 'drop'/m),
    })
    expect(await cli('unset', queue, 'foo')).toMatchObject({ code: 2, stderr: expect.stringContaining('on-expiry') })
    await cli('set', queue, '--max-attempts', '5', '--ttl', '7d', '--yes')
    expect(await cli('unset', queue, 'max-attempts', 'ttl')).toMatchObject({
      code: 0,
      stdout: `Unset max-attempts, ttl of ${queue}.\n`,
    })
    await cli('set', queue, '--max-attempts', '5', '--ttl', '7d', '--yes')
    expect(await cli('unset', queue)).toMatchObject({ code: 0, stdout: `Unset all settings of ${queue}.\n` })
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
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
      ['--delay', '1h', '--at', '2050-01-31T09:00:00Z'],
      ['--at', '2050-01-31 09:00'],
      ['--at', 'x'],
    ])
      expect(await run(...args), args.join(' ')).toMatchObject({ code: 2 })
  })
})

describe('sluice message change', () => {
  test('of a dead letter says what helps, and that helps', async ({ database, queue }) => {
    const [id = ''] = await bury(database, { queue })
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    const change = () => cli('message', 'change', queue, id, '--payload', '{"to": "ada@example.com"}')
    const redrive = `npx sluice dead redrive ${queue} --id ${id}`
    const said = `it is dead. Nothing has changed. Pause the queue, redrive it (${redrive}), change it, and resume the queue.\n`
    expect(await change()).toMatchObject({ code: 1, stderr: expect.stringContaining(said) })
    expect(await cli('message', 'run-now', queue, id)).toMatchObject({
      stderr: expect.stringContaining(`To try it again: ${redrive}\n`),
    })
    expect(await cli('message', 'cancel', queue, id)).toMatchObject({
      stderr: expect.stringContaining(`To delete it: npx sluice dead delete ${queue} --id ${id}\n`),
    })
    await cli('queue', 'pause', queue)
    await cli('dead', 'redrive', queue, '--id', id, '--yes')
    expect(await change()).toMatchObject({ code: 0, stdout: 'Changed.\n' })
    await cli('queue', 'resume', queue)
    expect(await payloadsOf(database, queue)).toEqual([{ to: 'ada@example.com' }])
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
