import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { append } from '../../support/rows/streams.ts'
import { test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

describe('sluice stream and group', () => {
  test('make, list, read, move, pause, delete and trim', async ({ database, sluice, queue }) => {
    const env = { DATABASE_URL: database.url }
    const run = (...args: string[]) => runCli(args, env)
    expect((await run('stream', 'set', queue, '--retain', '30d')).stdout).toBe('Made.\n')
    expect((await run('stream', 'set', queue)).stdout).toMatch(/^It already existed/)
    await append(database, queue, 3)
    expect((await run('stream', 'list')).stdout).toMatch(/^q\.\d+ +3 +3 +\d+\.\d kB +30d +0 +-$/m)
    const read = await run('stream', 'read', queue, '--from', '2', '-n', '1', '--json')
    expect(JSON.parse(read.stdout)).toMatchObject({ position: 2, payload: 2 })
    expect((await run('stream', 'read', queue)).stdout.split('\n')).toHaveLength(4)

    expect((await run('group', 'set', queue, 'billing', '--from', 'start')).stdout).toBe('Made.\n')
    expect((await run('group', 'list', queue)).stdout).toMatch(/ billing +3 +\S+ +0 +0 +0 +no worker$/m)
    expect((await run('group', 'seek', queue, 'billing', '--to', 'end', '--dry-run')).stdout).toMatch(
      / 0 events to read then, 3 now/,
    )
    const unsure = await run('group', 'seek', queue, 'billing', '--to', 'end')
    expect(unsure).toMatchObject({ code: 1, stderr: expect.stringContaining('--yes is needed') })
    expect((await run('group', 'seek', queue, 'billing', '--to', 'end', '--yes')).stdout).toMatch(/Moved\.\n$/)
    expect((await run('peek', `${queue}:billing`)).stderr).not.toContain('No queue has this name')
    expect((await run('peek', `${queue}:biling`)).stderr).toContain(`Did you mean "${queue}:billing"?`)
    expect((await run('group', 'pause', queue, 'billing')).stdout).toBe('Paused.\n')
    expect((await run('group', 'list')).stdout).toMatch(/paused, no worker$/m)
    expect((await run('group', 'resume', queue, 'billing')).stdout).toBe('Resumed.\n')

    const trim = (...options: string[]) => run('stream', 'trim', queue, '--before', '3', ...options)
    const toTrim = '2 events to trim, up to position 2\n'
    expect((await trim('--dry-run')).stdout).toBe(toTrim)
    expect((await trim('--yes')).stdout).toBe(`${toTrim}Events up to position 2 are gone.\n`)
    expect((await trim('--yes')).stdout).toBe('Nothing to trim.\n')
    const status = await run('status')
    expect(status.stdout).toMatch(/^STREAM +HEAD +EVENTS/m)
    expect(status.stdout).toMatch(/^STREAM +GROUP +UNREAD/m)
    expect((await run('group', 'delete', queue, 'billing', '--yes')).stdout).toBe(
      'Deleted, with 0 deferred events and 0 dead letters.\n',
    )
    expect(await sluice.operate.groups.list({ stream: queue })).toEqual([])
  })

  test('say what needs attention', async ({ database, sluice, queue }) => {
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'late', { from: 'start' })
    await append(database, queue, 3)
    const env = { DATABASE_URL: database.url }
    await sluice.operate.streams.trim(queue, { position: 3 }, { force: true })
    expect((await runCli(['status'], env)).stdout).toContain(`${queue}, group late: lost its unread events from 1 to 2`)
  })

  test('refuse what cannot be', async ({ database, queue }) => {
    const env = { DATABASE_URL: database.url }
    expect(await runCli(['stream', 'read', queue, '--from', 'soon'], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Expected start, end, a position, or a time'),
    })
    expect(await runCli(['stream', 'read', queue], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Make it with'),
    })
    expect(await runCli(['group', 'delete', queue, 'g', '--yes'], env)).toMatchObject({ code: 1 })
  })

  test('exit with 2 for a name that no stream can have, and with 1 for a stream that does not exist', async ({
    database,
    queue,
  }) => {
    const codeOf = async (...args: string[]) => (await runCli(args, { DATABASE_URL: database.url })).code
    for (const [name, code] of [
      ['no stream', 2],
      [`${queue}.missing`, 1],
    ] as const) {
      expect(await codeOf('stream', 'read', name)).toBe(code)
      expect(await codeOf('stream', 'trim', name, '--before', '1')).toBe(code)
      expect(await codeOf('group', 'seek', name, 'billing', '--to', 'end', '--yes')).toBe(code)
    }
  })

  test('take the limits of a stream away', async ({ database, sluice, queue }) => {
    const run = async (...args: string[]) =>
      expect(await runCli(['stream', 'set', queue, ...args], { DATABASE_URL: database.url })).toMatchObject({ code: 0 })
    const limits = async () => (await sluice.streams.list()).filter(({ stream }) => stream === queue)
    await run('--retain', '30d', '--retain-bytes', '5000000')
    expect(await limits()).toMatchObject([{ retainMs: 30 * 86_400_000, retainBytes: 5_000_000 }])
    await run('--retain', 'none', '--retain-bytes', 'none')
    expect(await limits()).toMatchObject([{ retainMs: null, retainBytes: null }])
  })

  test('propose the stream and the group that may have been meant', async ({ database, sluice, queue }) => {
    const run = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'billing')
    expect((await run('stream', 'read', `${queue}x`)).stderr).toContain(`Did you mean "${queue}"?`)
    expect((await run('group', 'retry', queue, 'biling')).stderr).toContain('Did you mean "billing"?')
    expect((await run('group', 'retry', queue, 'audit')).stderr).not.toContain('Did you mean')
  })
})

describe('the events of a group', () => {
  test('are messages of its queue by the name that the log and handlers use', async ({ database, sluice, queue }) => {
    const env = { DATABASE_URL: database.url }
    const run = (...args: string[]) => runCli(args, env)
    await sluice.streams.set(queue)
    await append(database, queue, 3)
    await sluice.groups.set(queue, 'g', { from: 'start' })
    const [of, event] = [`${queue}:g`, `${queue}/2`]
    const group = sluice.pipeline(queue, { group: 'g', retry: { kind: 'fixed', delay: '1h' }, maxAttempts: 2 })
    const pipeline = group.handle((message) => (message.id === event ? raise('no') : undefined))
    await pipeline.runOnce()
    expect((await run('peek', of)).stdout).toMatch(new RegExp(`^ *ID +EVENT +STATE.*\\n.* ${event} +retrying`))
    expect((await run('message', 'status', of, event)).stdout).toMatch(/state +retrying/)
    expect(await run('message', 'status', of, `${queue}/1`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`Event ${queue}/1 is no message of queue "${of}"`),
    })
    expect((await run('message', 'run-now', of, event)).stdout).toBe('It is due now.\n')
    await pipeline.runOnce()
    expect((await run('dead', 'list', of)).stdout).toMatch(new RegExp(`QUEUE +ID +EVENT.*\\n.* ${event} `))
    expect((await run('dead', 'get', of, event)).stdout).toMatch(new RegExp(`^event +${event}$`, 'm'))
    expect(await run('dead', 'redrive', '--all-queues', '--id', event, '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`name the queue of its group, as in ${queue}:billing`),
    })
    expect((await run('dead', 'redrive', of, '--id', event, '--yes')).stdout).toContain('Redriven 1 dead letter.')
    expect(await sluice.operate.groups.messageOf(queue, 'g', 2)).toMatch(/^\d+$/)
    expect(
      (await sluice.operate.messages.status(of, (await sluice.operate.groups.messageOf(queue, 'g', 2)) ?? '')).state,
    ).toBe('ready')
    expect((await run('message', 'status', of, 'orders/0')).code).toBe(2)
  })
})

describe('sluice group, of a group that stops', () => {
  test('says at which event, tries it again and skips it', async ({ database, sluice, queue }) => {
    const env = { DATABASE_URL: database.url }
    const run = (...args: string[]) => runCli(args, env)
    await sluice.streams.set(queue, { partitions: 1 })
    await append(database, queue, 2)
    expect((await run('group', 'set', queue, 'g', '--from', 'start', '--on-failure', 'stop')).stdout).toBe('Made.\n')
    const pipeline = sluice.pipeline(queue, { group: 'g', maxAttempts: 1 }).handle(() => {
      throw new Error('no')
    })
    await pipeline.runOnce()
    expect((await run('group', 'list', queue)).stdout).toMatch(/ 1 partition stopped, no worker$/m)
    expect((await run('status')).stdout).toContain(
      `${queue}, group g: partition 0 blocked by event 1, which has failed for good: failed 1 of 1 attempts: Error: no\n    → npx sluice group retry ${queue} g --partition 0 # or: npx sluice group skip ${queue} g 1`,
    )
    const { stdout } = await run('group', 'partitions', queue, 'g')
    expect(stdout).toMatch(/^ +0 +0 +1 +2 .* stopped by event 1: failed 1 of 1 attempts: Error: no$/m)
    expect(stdout).toMatch(
      /failures of event 1 in partition 0\n +\S+Z +attempt 1 on .*: failed 1 of 1 attempts: Error: no\n +at /,
    )
    expect(await run('group', 'partitions', queue, 'h')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('has no group "h"'),
    })
    expect((await run('group', 'retry', queue, 'g', '--partition', '0')).stdout).toBe('Unblocked 1 partition.\n')
    expect((await run('group', 'retry', queue, 'g')).stdout).toBe('No partition was blocked.\n')
    await pipeline.runOnce()
    expect(await run('group', 'skip', queue, 'g', '1')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--yes is needed'),
    })
    expect(await run('group', 'skip', queue, 'g', '2', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Event 2 blocks no partition of group g.'),
    })
    expect((await run('group', 'skip', queue, 'g', '1', '--yes')).stdout).toBe('Skipped.\n')
    expect((await sluice.operate.deadLetters.list({ queue: `${queue}:g` })).deadLetters).toHaveLength(1)
  })
})
