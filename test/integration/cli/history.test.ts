import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { bury } from '../../support/rows/operations.ts'
import { put, test } from '../../support/sluice.ts'

describe('sluice history', () => {
  test('lists and shows messages that have succeeded', async ({ database, sluice, queue }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    await sluice.operate.queues.settings.set(queue, { history: '7d' })
    const [id = '', other = ''] = await put(sluice, queue, [{ big: 12_345 }, 2], { type: 'order.paid', tenant: 'acme' })
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages)
    const list = await cli('history', 'list', queue, '--type', 'order.paid', '--newer-than', '1h', '--tenant', 'acme')
    expect(list).toMatchObject({ code: 0, stderr: '' })
    expect(list.stdout).toMatch(/^ *ID +TYPE +COMPLETED +TOOK +ATTEMPT +BY +PAYLOAD/)
    expect(list.stdout).toMatch(new RegExp(`${id} +order.paid .* claim ${claim?.id} +{"big": 12345}`))
    const newest = await cli('history', 'list', queue, '--limit', '1', '--json')
    expect(JSON.parse(newest.stdout)).toMatchObject([{ id: other, state: 'completed', payload: 2 }])
    expect(newest.stderr).toContain('There are more')
    const show = await cli('history', 'get', queue, id)
    expect(show.stdout).toContain('order.paid')
    expect(show.stdout).toContain('"big": 12345')
    expect(await cli('history', 'get', queue, '999999')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`The history of queue "${queue}" has no message 999999.`),
    })
    expect(await cli('history', 'list', queue, '--tenant', 'other')).toMatchObject({ code: 0, stdout: '' })
  })
})

describe('sluice maintain', () => {
  test('says what it has removed, and the second time that nothing was too old', async ({
    database,
    sluice,
    queue,
  }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    await sluice.operate.queues.settings.set(queue, { deadLetterRetention: '1d' })
    await bury(database, { queue, count: 2, agoMs: 172_800_000 })
    await put(sluice, queue, [1], { ttl: 1 })
    await database.sql(`UPDATE sluice.message SET expires_at = now() WHERE queue = $1`, [queue])
    expect(await cli('maintain')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Removed 1 expired message, 2 old dead letters\n'),
    })
    expect(await cli('maintain')).toMatchObject({ code: 0, stdout: 'Nothing was too old\n', stderr: '' })
    expect(JSON.parse((await cli('maintain', '--json')).stdout)).toMatchObject({ expired: 0, finished: true })
  })
})
