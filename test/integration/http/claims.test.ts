import { spawn } from 'node:child_process'
import { describe, expect } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { keepingContract } from '../../support/http-contract.ts'
import { curl, post, type Received, serveHttp, WITHOUT_CURL } from '../../support/http-server.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** What the server has answered, also to those who have gone. */
const test = base
  .extend('answered', (): number[] => [])
  .extend('server', async ({ sluice, answered }) => {
    const handler = keepingContract(createHttpHandler(sluice, { authorize: () => true }))
    return serveHttp(async (request) => {
      const answer = await handler(request)
      answered.push(answer.status)
      return answer
    })
  })
  .extend('claims', ({ server, queue }) => `${server}/queues/${queue}/claims`)

interface Claimed {
  readonly id: string
  readonly queue: string
  readonly expiresAt: string
  readonly messages: readonly { readonly id: string; readonly payload: unknown; readonly attempt: number }[]
}

function claimOf({ status, body }: Received): Claimed {
  expect([status, body]).toMatchObject([201, { id: expect.any(String) }])
  return body as Claimed
}

describe.skipIf(WITHOUT_CURL)('a claim', () => {
  test('of 15 of 20 messages: get, renew, settle some, release, and the rest is claimed again', async ({
    server,
    claims,
    queue,
    sluice,
  }) => {
    const ids = await put(
      sluice,
      queue,
      Array.from({ length: 20 }, (_, at) => ({ number: at })),
    )
    const made = await post(claims, { limit: 15, lease: '5m' })
    const claim = claimOf(made)
    expect(claim.messages.map(({ id }) => id).sort()).toEqual(ids.slice(0, 15).sort())
    expect(await curl(`${server}/queues/${queue}`)).toMatchObject({ body: { claimed: 15, free: 5, total: 20 } })

    const url = new URL(made.headers.location ?? '', claims).href
    expect(url).toBe(`${claims}/${claim.id}`)
    const got = await curl(url)
    expect(got).toMatchObject({ status: 200, body: { ...claim } })

    const renewed = await curl(url, '-X', 'PATCH', '-d', '{"lease": "1h"}')
    expect(renewed).toMatchObject({ status: 200, body: { id: claim.id } })
    const longer = Date.parse((renewed.body as Claimed).expiresAt) - Date.parse(claim.expiresAt)
    expect(longer).toBeGreaterThan(50 * 60_000)

    const [first, second, third, ...others] = claim.messages
    const settled = await post(`${url}/settle`, {
      messages: [
        { id: first?.id },
        { id: second?.id, outcome: 'snooze', after: '1h' },
        { id: third?.id, outcome: 'deadLetter', reason: 'no address', error: 'no such mailbox' },
        { id: others[0]?.id, outcome: 'retryLater', after: '1h', error: 'busy' },
        { id: others[1]?.id, outcome: 'retryLater', atLeast: '1h' },
        { id: '999999999' },
      ],
    })
    expect(settled).toMatchObject({ status: 200, body: { refused: [{ id: '999999999', reason: 'gone' }] } })
    expect((settled.body as { settled: string[] }).settled).toHaveLength(5)
    const atLeast = await sluice.operate.messages.get(queue, others[1]?.id ?? '')
    expect(Number(atLeast?.dueAt) - Date.now()).toBeGreaterThan(50 * 60_000)

    expect((await curl(url, '-X', 'DELETE')).status).toBe(204)
    expect((await curl(url, '-X', 'DELETE')).status).toBe(204)
    expect(await curl(url)).toMatchObject({ status: 404, body: { code: 'CLAIM_UNKNOWN' } })
    const counts = {
      claimed: 0,
      ready: 15,
      held: 0,
      scheduled: 1,
      retrying: 2,
      expired: 0,
      dead: 1,
      free: 18,
      total: 18,
    }
    expect(await curl(`${server}/queues/${queue}`)).toMatchObject({ body: counts })
    expect(claimOf(await post(claims, { limit: 1_000 })).messages).toHaveLength(15)
  })

  test('is answered with 204 if there is nothing, and takes ten with an empty body', async ({
    claims,
    queue,
    sluice,
  }) => {
    expect(await curl(claims, '-X', 'POST')).toMatchObject({ status: 204, body: undefined })
    await put(
      sluice,
      queue,
      Array.from({ length: 11 }, (_, at) => at),
    )
    expect(claimOf(await curl(claims, '-X', 'POST')).messages).toHaveLength(10)
  })

  test('has messages with all that was enqueued', async ({ claims, queue, sluice }) => {
    const options = {
      type: 'order.paid',
      orderingKey: 'ada',
      headers: { trace: '4bf9' },
      priority: 3,
      schemaVersion: 2,
    }
    const [id] = await put(sluice, queue, [{ text: 'Ünicode' }], { ...options, maxAttempts: 7 })
    const [message] = claimOf(await post(claims, {})).messages
    expect(message).toEqual({
      ...{
        id,
        payload: { text: 'Ünicode' },
        ...options,
        attempt: 1,
        maxAttempts: 7,
        tenant: null,
        dedupeKey: null,
        expiresAt: null,
      },
      ...{ enqueuedAt: expect.stringMatching(/^\d{4}-.*Z$/), dueAt: expect.stringMatching(/^\d{4}-.*Z$/) },
    })
  })

  test('that is over is answered with 410, and its messages go to the next', async ({
    claims,
    queue,
    sluice,
    database,
  }) => {
    await put(sluice, queue, ['slow'])
    const claim = claimOf(await post(claims, { lease: '1s' }))
    const over = `SELECT 1 FROM sluice.claim WHERE queue = $1 AND expires_at <= clock_timestamp()`
    await waitFor(async () => (await database.sql(over, [queue])).length > 0, { what: 'the end of the claim' })
    const url = `${claims}/${claim.id}`
    const messages = [{ id: claim.messages[0]?.id }]
    for (const answer of [await post(`${url}/settle`, { messages }), await curl(url, '-X', 'PATCH')]) {
      const detail = expect.stringMatching(
        /received one that expired at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\. Its messages are/,
      )
      expect(answer).toMatchObject({ status: 410, body: { title: 'Gone', code: 'CLAIM_OVER', detail } })
    }
    expect((await curl(url, '-X', 'DELETE')).status).toBe(204)
    expect(claimOf(await post(claims, {})).messages).toMatchObject([{ payload: 'slow', attempt: 2 }])
  })

  test('waits for a message', async ({ claims, server, queue, answered }) => {
    const waiting = post(claims, { wait: '1m' })
    const sent = await post(`${server}/queues/${queue}/messages`, { messages: [{ payload: 'awaited' }] })
    expect(sent.status).toBe(201)
    expect(claimOf(await waiting).messages).toMatchObject([{ payload: 'awaited' }])
    expect(answered.toSorted()).toEqual([201, 201])
  })

  test('that waits is answered with 503 when the Sluice stops', async ({ claims, sluice, queue, database }) => {
    const waiting = post(claims, { wait: '5m' })
    await raisedFlag(database, queue)
    await sluice.stop()
    expect(await waiting).toMatchObject({ status: 503, headers: { 'retry-after': '1' }, body: { code: 'STOPPED' } })
  })

  test('is not made for a client that went away while it waited', async ({
    claims,
    sluice,
    queue,
    answered,
    database,
  }) => {
    const client = spawn('curl', ['-s', '-d', '{"wait": "5m"}', '-H', 'content-type: application/json', claims])
    await raisedFlag(database, queue)
    client.kill('SIGKILL')
    await waitFor(() => answered.includes(499), { what: 'the server to notice' })
    await put(sluice, queue, ['for others'])
    expect(claimOf(await post(claims, {})).messages).toMatchObject([{ payload: 'for others', attempt: 1 }])
  })

  test('that was made for a client that had gone is released', async ({ sluice, queue, database }) => {
    await put(sluice, queue, ['for others'])
    const handler = createHttpHandler(sluice, { authorize: () => true })
    const client = new AbortController()
    const blocker = await database.pool.connect()
    await blocker.query('BEGIN; LOCK TABLE sluice.claim IN EXCLUSIVE MODE')
    const headers = { 'content-type': 'application/json' }
    const url = `https://example.com/queues/${queue}/claims`
    const answer = handler(new Request(url, { method: 'POST', headers, body: '{}', signal: client.signal }))
    const blocked = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
    await waitFor(async () => (await database.sql(blocked)).length > 0, { what: 'the claim to be under way' })
    client.abort()
    await blocker.query('COMMIT')
    blocker.release()
    expect((await answer).status).toBe(499)
    expect(await database.sql('SELECT 1 FROM sluice.claims WHERE queue = $1', [queue])).toEqual([])
    const again = await handler(new Request(url, { method: 'POST', headers, body: '{}' }))
    expect(await again.json()).toMatchObject({ messages: [{ payload: 'for others', attempt: 1 }] })
  })

  test('that ends while a request with several outcomes is settled tells what is settled', async ({
    claims,
    queue,
    sluice,
  }) => {
    await put(sluice, queue, ['only one'])
    const { id, messages } = claimOf(await post(claims, {}))
    // The claim has no message left once its only one is settled.
    const ends = [{ id: messages[0]?.id }, { id: '999999999', outcome: 'snooze', after: '1m' }]
    expect(await post(`${claims}/${id}/settle`, { messages: ends })).toMatchObject({
      ...{ status: 200, body: { settled: [messages[0]?.id], refused: [{ id: '999999999', reason: 'claim_over' }] } },
    })
    const again = await post(`${claims}/${id}/settle`, { messages: ends })
    expect(again).toMatchObject({ status: 404, body: { code: 'CLAIM_UNKNOWN' } })
  })

  test('whose connection breaks while a request with several outcomes is settled tells what is settled', async ({
    claims,
    queue,
    sluice,
    database,
    log,
  }) => {
    await put(sluice, queue, ['handled', 'breaks', 'later'])
    const { id, messages } = claimOf(await post(claims, {}))
    const [handled, breaks, later] = messages.map((message) => message.id)
    await database.sql(`
      CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()); RETURN NEW; END'`)
    await database.sql(`
      CREATE TRIGGER break_off BEFORE UPDATE ON sluice.message FOR EACH ROW
      WHEN (NEW.last_error = 'breaks ${queue}') EXECUTE FUNCTION break_off()`)
    const ends = [
      { id: handled },
      { id: breaks, outcome: 'retryLater', error: `breaks ${queue}` },
      { id: later, outcome: 'snooze', after: '1h' },
    ]
    const answer = await post(`${claims}/${id}/settle`, { messages: ends })
    const refused = [breaks, later].map((one) => ({ id: one, reason: 'unknown' }))
    expect(answer).toMatchObject({ status: 200, body: { settled: [handled], refused } })
    expect(log.of('request.failed')).toMatchObject([
      { request: `POST /queues/${queue}/claims/${id}/settle`, status: 200 },
    ])
    await database.sql('DROP TRIGGER break_off ON sluice.message')
    const again = await post(`${claims}/${id}/settle`, { messages: ends })
    const gone = [{ id: handled, reason: 'gone' }]
    expect(again).toMatchObject({ status: 200, body: { settled: [breaks, later], refused: gone } })
  })
})

test.skipIf(WITHOUT_CURL)('pop removes what it returns', async ({ server, queue, sluice }) => {
  await put(sluice, queue, [1, 2, 3])
  const { status, body } = await post(`${server}/queues/${queue}/pop`, { limit: 2 })
  expect([status, body]).toMatchObject([200, { messages: [{ payload: 1, attempt: 1 }, { payload: 2 }] }])
  expect(await curl(`${server}/queues/${queue}`)).toMatchObject({ body: { total: 1, claimed: 0 } })
  expect(await curl(`${server}/queues/${queue}/pop`, '-X', 'POST')).toMatchObject({ status: 200 })
  expect(await curl(`${server}/queues/${queue}/pop`, '-X', 'POST')).toMatchObject({ status: 204, body: undefined })
})

describe.skipIf(WITHOUT_CURL)('a request that claims cannot serve', () => {
  const requests = [
    ['GET', 'claims/abc', '', 404, 'CLAIM_UNKNOWN'],
    ['GET', 'claims/-1', '', 404, 'CLAIM_UNKNOWN'],
    ['GET', 'claims/1.5', '', 404, 'CLAIM_UNKNOWN'],
    ['GET', 'claims/99999999999999999999', '', 404, 'CLAIM_UNKNOWN'],
    ['GET', 'claims/9223372036854775808', '', 404, 'CLAIM_UNKNOWN'],
    ['GET', 'claims/0', '', 404, 'CLAIM_UNKNOWN'],
    ['PATCH', 'claims/9223372036854775807', '{}', 404, 'CLAIM_UNKNOWN'],
    ['DELETE', 'claims/abc', '', 404, 'CLAIM_UNKNOWN'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1"}]}', 404, 'CLAIM_UNKNOWN'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":1}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","outcome":"fail"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","outcome":"snooze"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","outcome":"deadLetter"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","after":"5m"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","outcome":"retryLater","reason":"x"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","outcome":"ack","atLeast":"1h"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1"},{"id":"1"}]}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"limit":0}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"limit":1001}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"lease":"999ms"}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"lease":"15d"}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"wait":"301s"}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"wait":-1}', 422, 'OPTION_INVALID'],
    ['POST', 'claims', '{"signal":{}}', 422, 'OPTION_INVALID'],
    ['POST', 'pop', '{"limit":"1"}', 422, 'OPTION_INVALID'],
    ['POST', 'claims/1', '{}', 405, undefined],
    ['GET', 'claims', '', 405, undefined],
    ['GET', 'pop', '', 405, undefined],
    ['PUT', 'claims/1/settle', '{}', 405, undefined],
  ] as const
  test.for(requests)('%s %s %s is answered with %i', async ([method, path, body, status, code], { server, queue }) => {
    const answer = await post(`${server}/queues/${queue}/${path}`, body, '-X', method)
    expect([answer.status, answer.body]).toMatchObject([status, { status, detail: expect.stringMatching(/expected/) }])
    expect((answer.body as { code?: string }).code).toBe(code)
  })
})

describe.skipIf(WITHOUT_CURL)('an error names what the client has sent', () => {
  const requests = [
    ['POST', 'claims', '{"lease":"999ms"}', "lease: expected a duration from '1s' to '14d', received \"999ms\""],
    ['POST', 'claims', '{"wait":"301s"}', "wait: expected a duration from '0ms' to '5m', received \"301s\""],
    ['PATCH', 'claims/1', '{"lease":0}', "lease: expected a duration from '1s' to '14d', received 0"],
    ['POST', 'pop', '{"limit":0}', 'limit: expected an integer from 1 to 1,000, received 0'],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1","outcome":"snooze"}]}', 'messages[0].after: expected '],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1"},{"id":"9999999999999999999"}]}', 'messages[1].id: expected '],
    ['POST', 'claims/1/settle', '{"messages":[{"id":"1"},{"id":"1"}]}', 'messages[1].id: expected each id once'],
    [
      'POST',
      'claims/1/settle',
      '{"messages":[{"id":"1","outcome":"retryLater","after":"900000d"}]}',
      'messages[0].after: ',
    ],
    ['POST', 'messages', '{"messages":[{"payload":1,"type":"a b"}]}', 'messages[0].type: expected '],
    ['POST', 'messages', '{"messages":[{"payload":1,"dueAt":"0000-01-01T00:00:00Z"}]}', 'messages[0].dueAt: expected '],
  ] as const
  test.for(requests)('%s %s %s', async ([method, path, body, detail], { server, queue }) => {
    const answer = await post(`${server}/queues/${queue}/${path}`, body, '-X', method)
    expect(answer).toMatchObject({ status: 422, body: { detail: expect.stringContaining(detail) } })
    expect((answer.body as { detail: string }).detail.startsWith(detail)).toBe(true)
  })
})
