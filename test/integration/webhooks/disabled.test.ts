import { describe, expect } from 'vitest'
import type { TestDatabase } from '../../support/servers/database.ts'
import { answering } from '../../support/servers/receiver.ts'
import { makeDue, messagesOf, sendDue, test } from '../../support/webhooks.ts'

/** As if the endpoint had failed for so long, the last time a moment ago. */
function failFor(database: TestDatabase, queue: string, ago: string, last = '1 minute'): Promise<unknown> {
  return database.sql(
    `UPDATE sluice.endpoint SET failing_since = clock_timestamp() - $2::interval, last_failure_at = clock_timestamp() - $3::interval
     WHERE queue = $1`,
    [queue, ago, last],
  )
}

const EVENT = { type: 'a', payload: 1 }
/** What has failed is not tried again in a test. */
const RETRY = { kind: 'fixed', delay: '1h' } as const

describe('a disabled endpoint', () => {
  test('the messages of a disabled endpoint wait, and go on when it is enabled', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'off', { url: `${receiver.url}/off` })
    await sluice.endpoints.set(queue, 'on', { url: `${receiver.url}/on` })
    await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
    expect(await sluice.endpoints.disable(queue, 'off', { reason: 'moved' })).toBe(true)
    expect(await sluice.endpoints.disable(queue, 'off')).toBe(false)
    await sendDue(sluice, queue, receiver)
    expect(receiver.received.map(({ path }) => path)).toEqual(['/on'])
    const [waiting] = await messagesOf(database, queue)
    expect(waiting).toMatchObject({ attempt: 0, tenant: 'off' })
    expect(waiting?.due_in).toBeLessThan(0)
    expect(await sluice.endpoints.list(queue, { state: 'disabled' })).toMatchObject([
      { name: 'off', disabledReason: 'moved', disabledAt: expect.any(Date), disabledBy: expect.any(String) },
    ])
    const { headline, others } = await sluice.operate.queues.explain(queue)
    expect([headline, ...others]).toContainEqual(
      expect.objectContaining({
        reason: 'endpoint_disabled',
        explanation: expect.stringContaining('"moved"'),
        remedy: `SELECT sluice.endpoint_enable('${queue}', 'off');`,
      }),
    )
    expect(await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)).toMatchObject([{ endpoint: 'on' }])
    expect(await sluice.endpoints.enable(queue, 'off')).toBe(true)
    expect(await sluice.endpoints.enable(queue, 'off')).toBe(false)
    await sendDue(sluice, queue, receiver)
    expect(receiver.received.map(({ path }) => path).toSorted()).toEqual(['/off', '/on', '/on'])
  })

  test('that is ordered keeps its messages, which are looked at every five minutes', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url, ordered: true })
    await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
    await sluice.endpoints.disable(queue, 'e')
    expect((await sendDue(sluice, queue, receiver)).counts).toMatchObject({ snoozed: 1 })
    const [waiting] = await messagesOf(database, queue)
    expect(waiting?.attempt).toBe(0)
    expect(waiting?.due_in).toBeLessThanOrEqual(300)
    expect(receiver.received).toEqual([])
  })

  test('is enabled like one that waits by Retry-After, which is looked at every five minutes if it is ordered', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url, ordered: true })
    await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
    receiver.answer = answering(503, { 'retry-after': '86400' })
    const failed = async () => (await messagesOf(database, queue))[0]
    await sendDue(sluice, queue, receiver)
    expect(await failed()).toMatchObject({ attempt: 1, due_in: expect.toSatisfy((seconds: number) => seconds < 301) })
    await makeDue(database, queue)
    expect((await sendDue(sluice, queue, receiver)).counts).toMatchObject({ snoozed: 1 })
    expect(await failed()).toMatchObject({ attempt: 1, due_in: expect.toSatisfy((seconds: number) => seconds < 301) })
    expect(await sluice.endpoints.enable(queue, 'e')).toBe(true)
    expect(await sluice.endpoints.enable(queue, 'e')).toBe(false)
    receiver.answer = answering(204)
    await makeDue(database, queue)
    await sendDue(sluice, queue, receiver)
    expect(await messagesOf(database, queue)).toEqual([])
  })

  test('has answered to nothing but failures for five days, after a warning', async ({
    database,
    sluice,
    queue,
    receiver,
    log,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    receiver.answer = answering(500)
    const fail = async () => {
      await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
      await sendDue(sluice, queue, receiver, { retry: RETRY })
    }
    await fail()
    await failFor(database, queue, '25 hours')
    await fail()
    await fail()
    expect(log.of('endpoint.failing')).toMatchObject([
      { queue, endpoint: 'e', error: 'status 500', since: expect.any(Date) },
    ])
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ state: 'enabled', attempts: 3, successes: 0 })
    await failFor(database, queue, '121 hours')
    await fail()
    expect(log.of('endpoint.disabled')).toMatchObject([{ endpoint: 'e', reason: 'Nothing but failures for 5d 1h' }])
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ state: 'disabled' })
    // The first minute of another five days.
    await sluice.endpoints.enable(queue, 'e')
    await fail()
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ state: 'enabled' })
    expect(log.of('endpoint.disabled')).toHaveLength(1)
  })

  test('is not one that had a success, or whose failures are far apart', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    const send = async (status: number) => {
      receiver.answer = answering(status)
      await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
      await sendDue(sluice, queue, receiver, { retry: RETRY })
      return sluice.endpoints.get(queue, 'e')
    }
    await send(500)
    await failFor(database, queue, '10 days', '37 hours')
    expect(await send(500)).toMatchObject({ state: 'enabled' })
    await failFor(database, queue, '10 days')
    expect(await send(200)).toMatchObject({ state: 'enabled', failingSince: null })
    expect(await send(500)).toMatchObject({ state: 'enabled' })
  })

  test('is never one where disableAfter is false', async ({ database, sluice, queue, receiver }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    receiver.answer = answering(500)
    await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
    await sendDue(sluice, queue, receiver)
    await failFor(database, queue, '100 days')
    await makeDue(database, queue)
    await sendDue(sluice, queue, receiver, { disableAfter: false })
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ state: 'enabled', attempts: 2 })
  })

  test('that answers 410 is gone, and its messages become dead letters', async ({ sluice, queue, receiver, log }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    for (let n = 0; n < 3; n++) await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
    receiver.answer = answering(410)
    await sendDue(sluice, queue, receiver, { concurrency: 1 })
    expect(receiver.received).toHaveLength(1)
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ state: 'gone', lastStatus: 410 })
    expect(log.of('endpoint.disabled')).toMatchObject([{ endpoint: 'e', reason: 'It has answered 410' }])
    const { deadLetters } = await sluice.operate.deadLetters.list({ queue })
    expect(deadLetters.map(({ reason }) => reason)).toEqual(Array(3).fill('endpoint "e" is gone: it has answered 410'))
    expect(await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)).toEqual([])
  })

  test('is not one whose old URL has answered 410 or Retry-After', async ({ sluice, queue, receiver }) => {
    const moves = { '/a': '/b', '/b': '/c' } as const
    await sluice.endpoints.set(queue, 'e', { url: `${receiver.url}/a` })
    for (let n = 0; n < 2; n++) await sluice.sendWebhook(sluice.ownTransaction, queue, EVENT)
    receiver.answer = async ({ path }, response) => {
      if (path === '/c') return void response.writeHead(204).end()
      const url = `${receiver.url}${moves[path as '/a' | '/b']}`
      await sluice.endpoints.set(queue, 'e', { url })
      response.writeHead(path === '/a' ? 410 : 503, { 'retry-after': '86400' }).end()
    }
    for (let n = 0; n < 2; n++) {
      await sendDue(sluice, queue, receiver, { concurrency: 1, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } })
    }
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ state: 'enabled', closedUntil: null })
    expect((await sluice.operate.deadLetters.list({ queue })).deadLetters).toEqual([])
  })

  test('that was gone is enabled by a new URL, and one that was disabled is not', async ({
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'gone', { url: `${receiver.url}/old` })
    await sluice.endpoints.set(queue, 'off', { url: `${receiver.url}/old` })
    receiver.answer = answering(410)
    await sluice.sendWebhook(sluice.ownTransaction, queue, { ...EVENT, endpoint: 'gone' })
    await sendDue(sluice, queue, receiver)
    await sluice.endpoints.disable(queue, 'off')
    for (const name of ['gone', 'off']) {
      await sluice.endpoints.set(queue, name, { url: `${receiver.url}/old`, owner: 'acme' })
      expect(await sluice.endpoints.get(queue, name)).toMatchObject({ state: name === 'gone' ? 'gone' : 'disabled' })
      await sluice.endpoints.set(queue, name, { url: `${receiver.url}/new` })
    }
    expect(await sluice.endpoints.list(queue)).toMatchObject([
      { name: 'gone', state: 'enabled', failingSince: null, disabledAt: null, disabledReason: null },
      { name: 'off', state: 'disabled' },
    ])
  })
})
