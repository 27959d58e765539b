import { describe, expect } from 'vitest'
import { z } from 'zod'
import { createHttpHandler } from '../../../src/http.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { keepingContract } from '../../support/http-contract.ts'
import { curl, post, serveHttp, WITHOUT_CURL } from '../../support/http-server.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'

/** A server that lets everybody in. */
const test = base.extend('server', async ({ sluice }) =>
  serveHttp(keepingContract(createHttpHandler(sluice, { authorize: () => true }))),
)

describe.skipIf(WITHOUT_CURL)('POST /queues/{queue}/messages', () => {
  test('enqueues messages in their order, with their options', async ({ database, server, queue }) => {
    const messages = [
      { payload: { to: 'ada@example.com' } },
      { payload: null, priority: 0, type: 'order.paid', headers: { trace: '4bf9' }, maxAttempts: 3, schemaVersion: 2 },
      { payload: 'later', delay: '1h', orderingKey: 'ada' },
      { payload: 'then', dueAt: '2999-01-01T00:00:00Z' },
    ]
    const { status, body } = await post(`${server}/queues/${queue}/messages`, { messages })
    expect(status).toBe(201)
    const rows = await database.sql(
      `SELECT id, payload, priority, type, headers, ordering_key AS key, max_attempts, schema_version, state
       FROM sluice.messages WHERE queue = $1 ORDER BY id`,
      [queue],
    )
    expect(rows.map(({ id }) => id)).toEqual((body as { ids: string[] }).ids)
    expect(rows).toMatchObject([
      { payload: { to: 'ada@example.com' }, priority: 5, state: 'ready' },
      {
        payload: null,
        priority: 0,
        type: 'order.paid',
        headers: { trace: '4bf9' },
        max_attempts: 3,
        schema_version: 2,
      },
      { payload: 'later', key: 'ada', state: 'scheduled' },
      { payload: 'then', state: 'scheduled' },
    ])
  })

  test('enqueues all messages or none', async ({ database, server, queue }) => {
    const messages = [{ payload: 1 }, { payload: 2, type: 'with space' }]
    const { status, body } = await post(`${server}/queues/${queue}/messages`, { messages })
    expect([status, body]).toMatchObject([
      422,
      { code: 'OPTION_INVALID', detail: expect.stringMatching(/^messages\[1\]\.type: /) },
    ])
    expect(await database.sql('SELECT 1 FROM sluice.messages WHERE queue = $1', [queue])).toEqual([])
  })

  test('refuses what the schema of the queue does not accept, and queues that are not defined', async ({
    database,
  }) => {
    const sluice = startTestSluice(database, { queues: { mail: { schema: z.object({ to: z.email() }) } } })
    const server = await serveHttp(createHttpHandler(sluice, { authorize: () => true }))
    const wrong = await post(`${server}/queues/mail/messages`, { messages: [{ payload: { to: 'ada' } }] })
    expect([wrong.status, wrong.body]).toMatchObject([422, { code: 'PAYLOAD_SCHEMA' }])
    const other = await post(`${server}/queues/post/messages`, { messages: [{ payload: 1 }] })
    expect([other.status, other.body]).toMatchObject([
      404,
      { code: 'QUEUE_UNKNOWN', detail: 'The queue does not exist' },
    ])
  })

  test('keeps integers or refuses them, and never rounds them', async ({ database, server, queue }) => {
    const send = (json: string) => post(`${server}/queues/${queue}/messages`, `{"messages":[{"payload":${json}}]}`)
    expect((await send('[9007199254740991, 0.30000000000000004, "9007199254740993"]')).status).toBe(201)
    expect((await send('[-0, "long enough: 1234567890123456"]')).status).toBe(201)
    expect((await send('[10000000000000000000000, -9007199254740994]')).status).toBe(201)
    expect((await send(`-1${'0'.repeat(400)}`)).status).toBe(422)
    const { status, body } = await send('9007199254740993')
    const detail =
      'body: expected integers that JavaScript holds exactly, up to 2^53, received 9007199254740993. Send it as a string'
    expect([status, body]).toMatchObject([422, { code: 'OPTION_INVALID', detail }])
    const stored = await database.sql('SELECT payload::text FROM sluice.messages WHERE queue = $1 ORDER BY id', [queue])
    expect(stored.map(({ payload }) => payload)).toEqual([
      '[9007199254740991, 0.30000000000000004, "9007199254740993"]',
      '[0, "long enough: 1234567890123456"]',
      '[10000000000000000000000, -9007199254740994]',
    ])
  })
})

describe.skipIf(WITHOUT_CURL)('GET /queues/{queue}', () => {
  test('counts the messages, and has zeros for a queue that has none', async ({ server, sluice, queue }) => {
    await put(sluice, queue, [1, 2, 3])
    await put(sluice, queue, [4], { delay: '1h' })
    const counts = { claimed: 0, free: 4, total: 4, ready: 3, held: 0, scheduled: 1, retrying: 0, expired: 0, dead: 0 }
    expect(await curl(`${server}/queues/${queue}`)).toMatchObject({ status: 200, body: { queue, ...counts } })
    const { body } = await curl(`${server}/queues/nobody-knows-it`)
    expect(body).toMatchObject({ queue: 'nobody-knows-it', total: 0, free: 0 })
  })
})

describe.skipIf(WITHOUT_CURL)('authorize', () => {
  const cases = [
    ['false without credentials is 401', false, [], 401],
    ['false with credentials is 403', false, ['-H', 'authorization: Bearer x'], 403],
    ['a value that is not true lets nobody in', 'yes' as unknown as boolean, [], 401],
    ['undefined lets nobody in', undefined as unknown as boolean, [], 401],
    ['true lets everybody in', true, [], 200],
    ['a promise of true lets everybody in', Promise.resolve(true), [], 200],
    ['a response is sent as it is', new Response(null, { status: 307, headers: { location: '/login' } }), [], 307],
  ] as const
  test.for(cases)('%s', async ([, decision, options, status], { sluice, queue }) => {
    const server = await serveHttp(createHttpHandler(sluice, { authorize: () => decision }))
    expect((await curl(`${server}/queues/${queue}`, ...options)).status).toBe(status)
  })

  test('is told the action and the decoded queue, before the body is read', async ({ sluice }) => {
    const asked: unknown[] = []
    const authorize = (request: Request, access: object) => {
      asked.push({ ...access, unread: !request.bodyUsed })
      return false
    }
    const server = await serveHttp(createHttpHandler(sluice, { authorize }))
    await post(`${server}/queues/a%3Ab/messages`, 'no JSON')
    await curl(`${server}/queues/a:b`)
    await curl(`${server}/openapi.json`)
    expect(asked).toEqual([
      { action: 'enqueue', queue: 'a:b', unread: true },
      { action: 'count', queue: 'a:b', unread: true },
      { action: 'describe', queue: null, unread: true },
    ])
  })

  test('that throws is answered with 500 and without its words, which are in the event', async ({
    sluice,
    log,
    queue,
  }) => {
    const authorize = () => {
      throw new Error('the secret of the directory')
    }
    const server = await serveHttp(createHttpHandler(sluice, { authorize }))
    const { status, body } = await curl(`${server}/queues/${queue}`)
    expect(status).toBe(500)
    expect(JSON.stringify(body)).not.toContain('secret')
    expect(log.of('request.failed')).toMatchObject([
      { request: `GET /queues/${queue}`, status: 500, error: { message: 'the secret of the directory' } },
    ])
  })

  test('that throws what cannot be read is answered with 500 too, and a log says so', async ({ database, queue }) => {
    const lines: string[] = []
    const write = (line: string) => void lines.push(line)
    const sluice = startTestSluice(database, { log: { info: write, warn: write, error: write } })
    const authorize = () => {
      throw revoked()
    }
    const { status } = await createHttpHandler(sluice, { authorize })(
      new Request(`https://example.com/queues/${queue}`),
    )
    expect(status).toBe(500)
    expect(lines).toEqual([expect.stringContaining(`GET /queues/${queue} was answered with 500`)])
  })

  test('that throws an error of Sluice is answered with 500 too', async ({ sluice, queue }) => {
    const authorize = async () => {
      await sluice.operate.queues.list({ queue: 'no name' })
      return true
    }
    const { status } = await createHttpHandler(sluice, { authorize })(
      new Request(`https://example.com/queues/${queue}`),
    )
    expect(status).toBe(500)
  })

  test('must be given', ({ sluice }) => {
    expect(() => createHttpHandler(sluice, {} as never)).toThrow('createHttpHandler.authorize: expected a function')
    const wrong = { authorize: () => true, basePath: 'sluice/' }
    expect(() => createHttpHandler(sluice, wrong)).toThrow(
      'expected a path that begins with / and does not end with it',
    )
    expect(() => createHttpHandler({} as Sluice, { authorize: () => true })).toThrow(
      'expected what createSluice returned',
    )
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
