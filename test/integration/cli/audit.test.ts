import { hostname, userInfo } from 'node:os'
import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { bury } from '../../support/rows/operations.ts'
import { put, test } from '../../support/sluice.ts'

const ME = `${userInfo().username}@${hostname()}`

describe('sluice audit', () => {
  test('lists what was done, under the name of the user of the machine or the one that was given', async ({
    database,
    sluice,
    queue,
  }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    const [id = ''] = await put(sluice, queue, [1])
    const dead = await bury(database, { queue, count: 4 })
    expect(await cli('message', 'cancel', queue, id)).toMatchObject({ code: 0 })
    expect(await cli('dead', 'redrive', queue, '--yes')).toMatchObject({ code: 0 })
    expect(await cli('queue', 'pause', queue, '--by', 'ada', '--reason', 'a trial')).toMatchObject({ code: 0 })
    const { code, stdout, stderr } = await cli('audit', 'list', queue)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout.trim().split('\n')
    expect(lines[0]).toMatch(/^AT +ACTOR +ACTION +QUEUE +COUNT +OF +DETAILS$/)
    expect(lines[1]).toMatch(new RegExp(`Z +ada +queue\\.pause +${queue} +1 +- +reason=a trial$`))
    expect(lines[2]).toMatch(
      new RegExp(`Z +${ME} +dead\\.redrive +${queue} +4 +${dead.slice(0, 3).join(' ')} … +died_before=`),
    )
    expect(lines[3]).toMatch(
      new RegExp(`Z +${ME} +message\\.cancel +${queue} +1 +${id} +state=ready result=cancelled$`),
    )
    expect((await cli('audit', queue)).stdout).toBe(stdout)
    const one = await cli('audit', 'list', queue, '--id', id, '--newer-than', '1h', '--json')
    expect(JSON.parse(one.stdout)).toMatchObject([
      { action: 'message.cancel', actor: ME, application: 'sluice cli', messageIds: [id], count: 1 },
    ])
    const latest = await cli('audit', 'list', '--actor', ME, '--action', 'dead', '--limit', '1')
    expect(latest.stdout).toContain('dead.redrive')
    expect((await cli('audit', 'list', queue, '-n', '1')).stderr).toContain('There are more than these 1')
    expect(await cli('audit', 'list', queue, '--older-than', '1h')).toMatchObject({
      code: 0,
      stdout: '',
      stderr: 'No action is noted.\n',
    })
  })

  test('refuses an action that there is not, and says which there are', async ({ database }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    expect(await cli('audit', 'list', '--action', 'cancel')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`--action: expected an action such as 'message.cancel'`),
    })
  })

  test('keep says how long actions are kept, and changes it', async ({ database }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    expect(await cli('audit', 'keep')).toMatchObject({ code: 0, stdout: 'Actions are kept for 90d.\n' })
    expect(await cli('audit', 'keep', '365d')).toMatchObject({ code: 0, stdout: 'Actions are kept for 365d.\n' })
    expect(await cli('audit', 'keep', '5m')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("expected a duration from '1d' to '36525d'"),
    })
    const list = await cli('audit', 'list', '--action', 'audit.keep')
    expect(list.stdout).toContain('keep_ms=31536000000')
  })
})
