import { Webhook } from 'standardwebhooks'
import { describe, expect, onTestFinished, vi } from 'vitest'
import { createTestDatabase } from '../../support/servers/database.ts'
import { answering } from '../../support/servers/receiver.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'
import { makeDue, messagesOf, sendDue, test } from '../../support/webhooks.ts'

describe('webhooks', () => {
  test('sends an event to the endpoints that want it, in the transaction of the sender', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    const url = receiver.url
    await sluice.endpoints.set(queue, 'all', { url: `${url}/all`, owner: 'acme' })
    await sluice.endpoints.set(queue, 'paid', { url: `${url}/paid`, owner: 'acme', types: ['order.paid', 'x'] })
    await sluice.endpoints.set(queue, 'placed', { url: `${url}/placed`, owner: 'acme', types: ['order.placed'] })
    await sluice.endpoints.set(queue, 'other', { url: `${url}/other`, owner: 'other' })
    await sluice.endpoints.set(queue, 'public', { url: `${url}/public` })
    const client = await database.pool.connect()
    const event = { type: 'order.paid', payload: { id: 1, total: 12.5 }, owner: 'acme' }
    try {
      await client.query('BEGIN')
      await sluice.sendWebhook(client, queue, event)
      await client.query('ROLLBACK')
      await client.query('BEGIN')
      const sent = await sluice.sendWebhook(client, queue, event)
      expect(sent.map(({ endpoint }) => endpoint)).toEqual(['all', 'paid'])
      await client.query('COMMIT')
    } finally {
      client.release()
    }
    expect((await sendDue(sluice, queue, receiver)).counts).toMatchObject({ acked: 2 })
    expect(receiver.received.map(({ path }) => path).toSorted()).toEqual(['/all', '/paid'])
    expect(JSON.parse(receiver.received[0]?.body ?? '')).toEqual({
      type: 'order.paid',
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
      data: { id: 1, total: 12.5 },
    })
    expect(await messagesOf(database, queue)).toEqual([])
  })

  test('goes to the endpoints without an owner, or to one that is named', async ({ sluice, queue, receiver }) => {
    await sluice.endpoints.set(queue, 'owned', { url: receiver.url, owner: 'acme', types: ['never'] })
    await sluice.endpoints.set(queue, 'public', { url: receiver.url })
    const send = (event: object) =>
      sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1, ...event })
    expect(await send({})).toMatchObject([{ endpoint: 'public' }])
    expect(await send({ endpoint: 'owned' })).toMatchObject([{ endpoint: 'owned' }])
    expect(await send({ owner: 'nobody else' })).toEqual([])
    await expect(send({ endpoint: 'none' })).rejects.toMatchObject({ code: 'ENDPOINT_UNKNOWN' })
    await expect(send({ endpoint: 'owned', owner: 'acme' })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(send({ type: undefined })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })

  test('signs what it sends, with both secrets while one is rotated', async ({ database, sluice, queue, receiver }) => {
    const { secret = '' } = await sluice.endpoints.set(queue, 'e', { url: receiver.url, headers: { 'X-Own': 'yes' } })
    const [first] = await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: { text: 'é' } })
    receiver.answer = answering(500)
    await sendDue(sluice, queue, receiver)
    const rotated = await sluice.endpoints.rotate(queue, 'e')
    receiver.answer = answering(200)
    await makeDue(database, queue)
    await sendDue(sluice, queue, receiver)
    const [source] = await database.sql<{ id: string }>('SELECT id FROM sluice.source')
    const [before, after] = receiver.received
    for (const one of [before, after])
      expect(one?.headers).toMatchObject({ 'webhook-id': `${source?.id}_${first?.id}`, 'x-own': 'yes' })
    const verify = (by: string, one = after) =>
      new Webhook(by).verify(one?.body ?? '', one?.headers as Record<string, string>)
    verify(secret, before)
    verify(secret)
    expect(verify(rotated)).toMatchObject({ data: { text: 'é' } })
    expect(() => verify(rotated, before)).toThrow()
    expect((await sluice.endpoints.get(queue, 'e'))?.oldSecretUntil).toBeInstanceOf(Date)
  })

  test('have the time of the database, whatever the clock of the worker says', async ({ sluice, queue, receiver }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    const nowMs = Date.now()
    const clock = vi.spyOn(Date, 'now').mockReturnValue(nowMs - 86_400_000)
    onTestFinished(() => clock.mockRestore())
    await sendDue(sluice, queue, receiver)
    await sluice.endpoints.test(queue, 'e', receiver.reach)
    const times = receiver.received.map(({ headers }) => Number(headers['webhook-timestamp']))
    expect(times).toHaveLength(2)
    for (const time of times) expect(Math.abs(time - nowMs / 1_000)).toBeLessThan(3_600)
  })

  test('tries a failed message again by its schedule, and keeps what was answered', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    receiver.answer = answering(500, {}, `no\0 ${'x'.repeat(5_000)}`)
    await sendDue(sluice, queue, receiver)
    const [message] = await messagesOf(database, queue)
    expect(message).toMatchObject({
      attempt: 1,
      tenant: 'e',
      last_error: expect.stringMatching(/^status 500: no\uFFFD x+$/),
    })
    expect(message?.last_error?.length).toBeLessThan(1_100)
    expect(message?.due_in).toBeLessThan(5.1)
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({
      attempts: 1,
      successes: 0,
      lastStatus: 500,
      lastError: expect.stringMatching(/^status 500: no/),
      failingSince: expect.any(Date),
    })
  })

  test('becomes a dead letter after the last attempt, and has the same id after a redrive', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    receiver.answer = answering(500)
    const settled = await sendDue(sluice, queue, receiver, { maxAttempts: 1 })
    expect(settled.counts).toMatchObject({ dead: 1 })
    await sluice.operate.deadLetters.redrive({ queue })
    receiver.answer = answering(204)
    await sendDue(sluice, queue, receiver)
    const [one, two] = receiver.received.map(({ headers }) => headers['webhook-id'])
    expect(two).toBe(one)
    expect(await messagesOf(database, queue)).toEqual([])
  })

  test('waits as long as an endpoint asks for by Retry-After, with all of its messages', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'busy', { url: `${receiver.url}/busy` })
    await sluice.endpoints.set(queue, 'free', { url: `${receiver.url}/free` })
    receiver.answer = ({ path }, response) =>
      response.writeHead(path === '/busy' ? 429 : 204, { 'retry-after': '3600' }).end()
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    await sendDue(sluice, queue, receiver)
    const [failed] = await messagesOf(database, queue)
    expect(failed).toMatchObject({ attempt: 1, tenant: 'busy' })
    expect(failed?.due_in).toBeGreaterThan(3_000)
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 2 })
    await sendDue(sluice, queue, receiver)
    expect(receiver.received.map(({ path }) => path).toSorted()).toEqual(['/busy', '/free', '/free'])
    const waiting = (await messagesOf(database, queue)).find(({ payload }) => payload === 2)
    expect(waiting).toMatchObject({ attempt: 0, tenant: 'busy' })
    expect(waiting?.due_in).toBeLessThan(0)
  })

  test('one endpoint that does not answer holds no other up', async ({ sluice, queue, receiver }) => {
    await sluice.endpoints.set(queue, 'slow', { url: `${receiver.url}/slow` })
    await sluice.endpoints.set(queue, 'quick', { url: `${receiver.url}/quick` })
    receiver.answer = (request, response) => {
      if (request.path === '/quick') answering(204)(request, response)
    }
    for (let n = 0; n < 20; n++)
      await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: n, endpoint: 'slow' })
    const running = sluice.webhooks(queue, { ...receiver.reach, concurrency: 8, timeout: '1m' }).start()
    const of = (path: string) => receiver.received.filter((one) => one.path === path)
    await waitFor(() => of('/slow').length === 5, { what: 'as many requests as one endpoint may have' })
    for (let n = 0; n < 20; n++)
      await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: n, endpoint: 'quick' })
    await waitFor(() => of('/quick').length === 20, { what: 'the requests of the other endpoint' })
    expect(of('/slow')).toHaveLength(5)
    await running.stop()
  })

  test('one endpoint that a transaction has locked holds no other up', async ({
    database,
    sluice,
    queue,
    receiver,
    log,
  }) => {
    for (const name of ['a', 'b']) await sluice.endpoints.set(queue, name, { url: `${receiver.url}/${name}` })
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN')
      await sluice.endpoints.set(queue, 'a', { url: `${receiver.url}/a`, types: ['a'] }, { tx: client })
      for (const endpoint of ['a', 'b'])
        await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1, endpoint })
      const sent = sendDue(sluice, queue, receiver)
      await waitFor(async () => (await sluice.endpoints.get(queue, 'b'))?.successes === 1, { what: 'the note of b' })
      // It waits for nothing of the worker.
      await sluice.endpoints.set(queue, 'b', { url: `${receiver.url}/b`, types: ['a'] }, { tx: client })
      await sent
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
    expect(log.of('endpoint.unnoted')).toMatchObject([{ endpoint: 'a' }])
    expect(await messagesOf(database, queue)).toEqual([])
  })

  test('of an ordered endpoint go one after another, and a failed one keeps the next back', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url, ordered: true })
    for (const n of [1, 2, 3]) await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: n })
    const sent = () => receiver.received.map(({ body }) => (JSON.parse(body) as { data: number }).data)
    receiver.answer = (request, response) => answering(sent().length === 2 ? 500 : 204)(request, response)
    const retry = { kind: 'fixed', delay: '10ms' } as const
    const running = sluice.webhooks(queue, { ...receiver.reach, retry }).start()
    await waitFor(() => sent().length === 4, { what: 'all messages' })
    await running.drain()
    expect(sent()).toEqual([1, 2, 2, 3])
    expect(await messagesOf(database, queue)).toEqual([])
  })

  test('a stop gives back what has no answer, and counts no attempt', async ({ database, sluice, queue, receiver }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    receiver.answer = () => undefined
    const running = sluice.webhooks(queue, receiver.reach).start()
    await waitFor(() => receiver.received.length === 1, { what: 'a request' })
    await running.stop()
    expect(await messagesOf(database, queue)).toMatchObject([{ attempt: 0, last_error: null }])
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ attempts: 0, failingSince: null })
  })

  test('a message that no endpoint is named in, or one that is gone, becomes a dead letter', async ({
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    await sluice.endpoints.delete(queue, 'e')
    await sluice.enqueue(sluice.ownTransaction, queue, 2)
    expect((await sendDue(sluice, queue, receiver)).counts).toMatchObject({ dead: 2 })
    const { deadLetters } = await sluice.operate.deadLetters.list({ queue })
    expect(deadLetters.map(({ reason }) => reason).toSorted()).toEqual([
      'endpoint "e" does not exist',
      'expected a message of an endpoint, with a type: send it by sendWebhook',
    ])
    expect(receiver.received).toEqual([])
  })

  test('notes attempts by at most one update for each, which stay in their page', async ({ queue, receiver }) => {
    // The server's counts are of the whole table.
    await using database = await createTestDatabase()
    await using sluice = startTestSluice(database)
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    for (let n = 0; n < 40; n++) await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: n })
    await sendDue(sluice, queue, receiver)
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ attempts: 40, successes: 40, lastStatus: 204 })
    // The server counts them a moment later.
    const { upd, hot } = await waitFor(
      async () => {
        const [counts] = await database.sql<{ upd: number; hot: number }>(
          `SELECT n_tup_upd::integer AS upd, n_tup_hot_upd::integer AS hot FROM pg_stat_user_tables WHERE relname = 'endpoint'`,
        )
        return counts !== undefined && counts.upd > 0 && counts
      },
      { what: 'the counts of updates' },
    )
    expect(upd).toBeLessThanOrEqual(40)
    expect(hot).toBe(upd)
  })
})
