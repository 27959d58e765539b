import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { register } from '../../support/rows/operations.ts'
import { test as base, put } from '../../support/sluice.ts'

const test = base.extend(
  'cli',
  ({ database }) =>
    (...args: string[]) =>
      runCli(['queue', 'move', ...args], { DATABASE_URL: database.url }),
)

describe('sluice queue move', () => {
  test('counts, changes nothing without --yes, and moves with it', async ({ cli, sluice, queue, database }) => {
    const to = `${queue}.to`
    await put(sluice, queue, [1, 2], { type: 'a' })
    await put(sluice, queue, [3])
    await register(database, { name: to, queues: [to], alive: true })
    const plan = `Move 2 messages of queue ${queue} to queue ${to}.\n`
    expect(await cli(queue, to, '--type', 'a', '--dry-run')).toEqual({
      code: 0,
      stdout: plan,
      stderr: 'Nothing has changed: this is a dry run.\n',
    })
    expect(await cli(queue, to, '--type', 'a')).toMatchObject({ code: 1, stderr: expect.stringContaining('--yes') })
    expect(await cli(queue, to, '--type', 'a', '--yes')).toEqual({
      code: 0,
      stdout: `${plan}Moved 2 messages.\n`,
      stderr: '',
    })
    expect(await sluice.operate.queues.list({ queue: to })).toMatchObject([{ ready: 2 }])
  })

  test('says what stays, and what is odd about the target', async ({ cli, sluice, queue, database }) => {
    const to = `${queue}.to`
    await put(sluice, queue, [1, 2])
    await sluice.claim(queue, { limit: 1 })
    expect((await cli(queue, to, '--dry-run')).stderr).toBe(
      `Left where they are: 1 in flight.\nTarget "${to}": No queue has this name. Did you mean "${queue}"?\nNothing has changed: this is a dry run.\n`,
    )
    await register(database, { name: to, queues: [to], alive: false })
    expect((await cli(queue, to, '--yes')).stderr).toContain(`Target "${to}": no live worker consumes it.\n`)
    expect(await cli(queue, queue)).toMatchObject({ code: 2, stderr: expect.stringContaining('expected two queues') })
    expect(await cli(`${queue}x`, to)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('No queue has this name. Did you mean'),
    })
    expect(await cli(`${queue}x`, to, '--yes')).toMatchObject({ code: 0, stdout: 'No messages to move.\n' })
  })
})
