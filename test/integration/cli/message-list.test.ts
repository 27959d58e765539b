import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { put, test } from '../../support/sluice.ts'

describe('sluice message list', () => {
  test('lists what waits and what is in flight, by pages', async ({ database, sluice, queue }) => {
    const cli = (...args: string[]) => runCli(['message', 'list', ...args], { DATABASE_URL: database.url })
    const ids = await put(sluice, queue, [1, 2, 3], { type: 'a.b' })
    const claim = await sluice.claim(queue, { limit: 1 })
    const idsOf = async (...args: string[]) => {
      const { stdout } = await cli(queue, '--json', ...args)
      return (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id)
    }
    expect(await idsOf()).toEqual(ids.toReversed())
    expect(await idsOf('--oldest')).toEqual(ids)
    expect(await idsOf('--state', 'in_flight')).toEqual([claim!.messages[0]!.id])
    expect(await idsOf('--held')).toEqual([])
    const { stdout, stderr } = await cli(queue, '--limit', '1', '--oldest')
    expect(stdout).toMatch(new RegExp(`^ *${ids[0]} +in_flight .* a\\.b +- +claim ${claim!.id} +1$`, 'm'))
    expect(stderr).toBe(`There are more: --after ${ids[0]}\n`)
    expect(await idsOf('--oldest', '--after', ids[0]!)).toEqual(ids.slice(1))
  })

  test('says so if nothing matches, if no queue has the name, and where dead letters are', async ({
    database,
    sluice,
    queue,
  }) => {
    const cli = (...args: string[]) => runCli(['message', 'list', ...args], { DATABASE_URL: database.url })
    await put(sluice, queue, [1])
    expect((await cli(queue, '--type', 'x')).stderr).toBe('No messages match.\n')
    expect((await cli(`${queue}x`)).stderr).toBe(
      `No messages match. No queue has this name. Did you mean "${queue}"?\n`,
    )
    expect(await cli(queue, '--state', 'dead')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('sluice dead list'),
    })
  })
})
