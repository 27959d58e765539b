import { describe, expect } from 'vitest'
import { TestPage } from '../support/dashboard.ts'
import { put, test } from '../support/sluice.ts'

describe('a claim', () => {
  test('is shown with its messages, renewed and released', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, [1, 2, 3, 4, 5, 6, 7])
    const claim = await sluice.claim(queue, { limit: 7, lease: '10m' })
    const page = new TestPage(sluice)
    const html = await page.get('/claims')
    for (const id of ids.slice(0, 5)) expect(html).toContain(`/queues/${queue}/messages/${id}"`)
    expect(html).toContain('and 2 more')
    const path = `/queues/${queue}/claims/${claim?.id}`
    expect(await (await page.post(`${path}/release`)).text()).toContain(`Release claim ${claim?.id} of ${queue}?`)
    const [before] = await sluice.operate.claims.list({ queue })
    expect(await page.act(`${path}/renew`)).toContain('/claims?done=renewed')
    const [after] = await sluice.operate.claims.list({ queue })
    expect(after?.expiresAt.getTime()).toBeGreaterThan(before?.expiresAt.getTime() ?? Number.POSITIVE_INFINITY)
    expect(await page.act(`${path}/release`)).toContain('done=released&n=7')
    expect(await page.get('/claims?done=released&n=7')).toContain('7 messages released.')
    expect((await sluice.operate.messages.list({ queue, state: 'ready' })).messages).toHaveLength(7)
    expect((await page.post(`${path}/renew`, { confirmed: 'yes' })).status).toBe(404)
    const { actions } = await sluice.operate.audit.list({ queue })
    expect(actions).toMatchObject([{ actor: 'ada@example.com', count: 7 }, { actor: 'ada@example.com' }])
  })

  test('cannot be released by somebody who may only look', async ({ sluice, queue }) => {
    await put(sluice, queue, [1])
    const claim = await sluice.claim(queue, { lease: '10m' })
    const page = new TestPage(sluice, { readOnly: true })
    expect(await page.get('/claims')).not.toContain('<button>Release')
    expect((await page.post(`/queues/${queue}/claims/${claim?.id}/release`, { confirmed: 'yes' })).status).toBe(403)
  })
})

describe('a group', () => {
  test('is moved after a dry run, which counts what is handled again and what is skipped', async ({
    sluice,
    queue: stream,
  }) => {
    await sluice.streams.set(stream, { partitions: 2 })
    await sluice.groups.set(stream, 'g', { from: 'start' })
    for (let at = 0; at < 5; at += 1) {
      await sluice.append(sluice.ownTransaction, stream, { at }, { orderingKey: `k${at}` })
    }
    const page = new TestPage(sluice)
    const path = `/streams/${stream}/groups/g`
    expect(await page.get(path)).toContain('<button>Move</button>')
    expect(await (await page.post(`${path}/seek`)).text()).not.toContain('confirmed')
    const skip = await (await page.post(`${path}/seek`, { to: 'end' })).text()
    expect(skip).toContain('0 events to read then, instead of 5 events: 5 events are skipped')
    expect((await sluice.operate.groups.list({ stream }))[0]?.unread).toBe(5)
    expect(await page.act(`${path}/seek`, { to: 'end' })).toContain('done=moved')
    expect((await sluice.operate.groups.list({ stream }))[0]?.unread).toBe(0)
    const again = await (await page.post(`${path}/seek`, { to: '2020-01-01T00:00Z' })).text()
    expect(again).toContain('5 events are handled again')
    for (const to of ['yesterday', '2020-13-01', '<b>', '1e3']) {
      expect([to, (await page.post(`${path}/seek`, { to })).status]).toEqual([to, 400])
    }
  })

  test('with deferred events is moved only once it is said what becomes of them', async ({ sluice, queue: stream }) => {
    await sluice.streams.set(stream, { partitions: 1 })
    await sluice.groups.set(stream, 'g', { from: 'start' })
    await sluice.append(sluice.ownTransaction, stream, 1)
    await sluice
      .pipeline(stream, { group: 'g', retry: { kind: 'fixed', delay: '1h' } })
      .handle(() => Promise.reject(new Error('no')))
      .runOnce()
    const page = new TestPage(sluice)
    const path = `/streams/${stream}/groups/g`
    expect(await page.get(path)).toContain(`href="/admin/sluice/queues/${stream}%3Ag"`)
    expect(await (await page.post(`${path}/seek`, { to: 'start' })).text()).toContain('1 deferred event in its queue')
    expect((await page.post(`${path}/seek`, { to: 'start', confirmed: 'yes' })).status).toBe(409)
    expect(await page.act(`${path}/seek`, { to: 'start', deferred: 'drop' })).toContain('done=moved-dropped&n=1')
  })
})
