import { describe, expect } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import { findingsOf } from '../../support/rows/findings.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'
import { test as base } from '../../support/webhooks.ts'

const URL_ = 'https://hooks.example/a'
const EACH = 12

/** Counts the requests that are open, by their paths, and the most there were; they are answered when `go` resolves. */
const test = base.extend('open', ({ receiver }) => {
  const now = new Map<string, number>()
  const most = new Map<string, number>()
  const go = deferred()
  let answered = 0
  receiver.answer = async ({ path }, response) => {
    now.set(path, (now.get(path) ?? 0) + 1)
    most.set(path, Math.max(most.get(path) ?? 0, now.get(path) ?? 0))
    await go.promise
    now.set(path, (now.get(path) ?? 0) - 1)
    answered += 1
    response.writeHead(204).end()
  }
  return { now, most, go, answered: () => answered }
})

async function send(sluice: Sluice, queue: string, endpoint: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1)
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: n, endpoint })
}

describe('the concurrency of an endpoint', () => {
  test('an endpoint has its own limit in flight, over all processes', async ({ database, queue, receiver, open }) => {
    const sluices = [startTestSluice(database), startTestSluice(database)]
    const [sluice = startTestSluice(database)] = sluices
    const limits = { narrow: 1, wide: 8, plain: undefined }
    for (const [name, concurrency] of Object.entries(limits)) {
      await sluice.endpoints.set(queue, name, { url: `${receiver.url}/${name}`, concurrency })
      await send(sluice, queue, name, EACH)
    }
    for (const one of sluices) one.webhooks(queue, { ...receiver.reach, timeout: '1m' }).start()
    const all = { '/narrow': 1, '/wide': 8, '/plain': 5 }
    await waitFor(() => [...open.now.values()].reduce((sum, count) => sum + count, 0) >= 14, {
      what: 'as many requests as the limits allow',
    })
    expect(Object.fromEntries(open.now)).toEqual(all)
    open.go.resolve()
    await waitFor(() => open.answered() === 3 * EACH, { what: 'all requests' })
    expect(Object.fromEntries(open.most)).toEqual(all)
  })

  test('applies to the next claim when it is changed, and wakes the workers when there is room', async ({
    sluice,
    queue,
    receiver,
    open,
  }) => {
    const set = (concurrency?: number) => sluice.endpoints.set(queue, 'e', { url: `${receiver.url}/e`, concurrency })
    await set(1)
    await send(sluice, queue, 'e', EACH)
    sluice.webhooks(queue, { ...receiver.reach, timeout: '1m' }).start()
    await waitFor(() => open.now.get('/e') === 1, { what: 'one request' })
    expect(await set(3)).toEqual({ outcome: 'changed' })
    await waitFor(() => open.now.get('/e') === 3, { what: 'three requests' })
    expect(await set(3)).toEqual({ outcome: 'unchanged' })
    expect(await set()).toEqual({ outcome: 'changed' })
    await waitFor(() => open.now.get('/e') === 5, { what: 'as many as the queue allows a tenant' })
    expect(open.most.get('/e')).toBe(5)
    open.go.resolve()
    await waitFor(() => open.answered() === EACH, { what: 'all requests' })
  })

  test('bounds claims and pops as well, and is shown with what waits for it', async ({ database, sluice, queue }) => {
    await sluice.endpoints.set(queue, 'e', { url: URL_, concurrency: 2 })
    await sluice.endpoints.set(queue, 'f', { url: URL_ })
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ concurrency: 2 })
    expect(await sluice.endpoints.get(queue, 'f')).toMatchObject({ concurrency: null })
    await put(sluice, queue, [1, 2, 3], { tenant: 'e' })
    await put(sluice, queue, [1, 2, 3], { tenant: 'f' })
    const claim = await sluice.claim(queue, { limit: 10 })
    expect(claim?.messages.map(({ tenant }) => tenant).toSorted()).toEqual(['e', 'e', 'f', 'f', 'f'])
    expect(await sluice.pop(queue, { limit: 10 })).toEqual([])
    const limits =
      'SELECT tenant, concurrency, in_flight, ready FROM sluice.limits WHERE queue = $1 AND tenant IS NOT NULL ORDER BY tenant'
    expect(await database.sql(limits, [queue])).toMatchObject([
      { tenant: 'e', concurrency: 2, in_flight: '2', ready: '1' },
      { tenant: 'f', concurrency: 5, in_flight: '3', ready: '0' },
    ])
    const { headline, others } = await sluice.operate.queues.explain(queue)
    expect([headline, ...others]).toContainEqual(
      expect.objectContaining({
        reason: 'tenant_limit',
        explanation: expect.stringContaining('its limit of 2 messages in flight'),
        remedy: `npx sluice endpoint get ${queue} e # and set it with --concurrency 4`,
      }),
    )
    const found = (await findingsOf(database, '0')).filter(({ subject }) => subject === `queue ${queue}, tenant e`)
    expect(found.map(({ remedy }) => remedy)).toEqual([
      expect.stringContaining(`npx sluice endpoint get ${queue} e # and set it with --concurrency 4`),
    ])
    await claim?.release()
  })

  test('needs a queue that limits its tenants, as long as it is there', async ({ database, sluice, queue }) => {
    const { endpoints } = sluice
    const { settings } = sluice.operate.queues
    const refused = { code: 'OPTION_INVALID' }
    await endpoints.set(queue, 'e', { url: URL_, concurrency: 2 })
    expect((await settings.get(queue))?.tenantConcurrency).toBe(5)
    await expect(settings.set(queue, { tenantConcurrency: null })).rejects.toMatchObject(refused)
    await expect(settings.unset(queue)).rejects.toThrow('endpoint "e" has a concurrency')
    await settings.set(queue, { tenantConcurrency: 7 })
    await endpoints.set(queue, 'e', { url: URL_ })
    await settings.set(queue, { tenantConcurrency: null })
    await expect(endpoints.set(queue, 'e', { url: URL_, concurrency: 2 })).rejects.toMatchObject(refused)
    await expect(endpoints.set(queue, 'f', { url: URL_, concurrency: 2 })).rejects.toThrow(
      'concurrency: expected a queue with tenant_concurrency',
    )
    expect(await endpoints.list(queue)).toMatchObject([{ name: 'e', concurrency: null }])
    await expect(
      database.sql(`SELECT sluice.endpoint_set($1, 'e', $2, concurrency => 2)`, [queue, URL_]),
    ).rejects.toMatchObject({ code: 'SL081' })
  })
})
