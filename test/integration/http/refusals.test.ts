import { describe, expect, onTestFinished } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { createSluice } from '../../../src/sluice.ts'
import { EventLog } from '../../support/event-log.ts'
import { keepingContract } from '../../support/http-contract.ts'
import { curl, post, serveHttp, WITHOUT_CURL } from '../../support/http-server.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'

const test = base.extend('server', async ({ sluice }) =>
  serveHttp(keepingContract(createHttpHandler(sluice, { authorize: () => true }))),
)

describe.skipIf(WITHOUT_CURL)('a request that cannot be served', () => {
  const routes = [
    ['GET', '/', 404],
    ['GET', '/queues', 404],
    ['GET', '/queues/', 404],
    ['GET', '/queues/q/', 404],
    ['GET', '//queues/q', 404],
    ['GET', '/queues/q/nothing', 404],
    ['GET', '/openapi.json/', 404],
    ['GET', '/queues/%', 404],
    ['GET', '/queues/a%2Fb', 404],
    ['GET', '/queues/.hidden', 404],
    ['GET', '/queues/%00', 404],
    ['GET', `/queues/${'q'.repeat(101)}`, 404],
    ['DELETE', '/queues/q', 405],
    ['OPTIONS', '/queues/q/messages', 405],
  ] as const
  test.for(routes)('%s %s is answered with %i', async ([method, path, status], { server }) => {
    const answer = await curl(server + path, '--request', method)
    expect([answer.status, answer.headers['content-type']]).toEqual([status, 'application/problem+json'])
    expect(answer.body).toMatchObject({ status, title: expect.any(String), detail: expect.any(String) })
  })

  test('says which methods there are', async ({ server }) => {
    const { headers } = await curl(`${server}/queues/q`, '--request', 'DELETE')
    expect(headers.allow).toBe('GET, HEAD')
  })

  const types = [
    ['no type', 'content-type:', 415],
    ['a form', 'content-type: application/x-www-form-urlencoded', 415],
    ['text', 'content-type: text/plain', 415],
    ['JSON in Latin-1', 'content-type: application/json; charset=iso-8859-1', 415],
    ['JSON in UTF-8', 'content-type: application/json; charset=utf-8', 201],
    ['JSON in quoted capitals', 'Content-Type: APPLICATION/JSON;charset="UTF-8"', 201],
  ] as const
  test.for(types)('a body declared as %s', async ([, type, status], { server, queue }) => {
    const answer = await post(`${server}/queues/${queue}/messages`, { messages: [{ payload: 1 }] }, '-H', type)
    expect(answer.status).toBe(status)
  })

  test.for([
    ['no type', 'content-type:'],
    ['a form', 'content-type: application/x-www-form-urlencoded'],
    ['text', 'content-type: text/plain'],
  ])('a POST without a body, declared as %s, removes nothing', async ([, type = ''], { server, sluice, queue }) => {
    await put(sluice, queue, ['kept'])
    for (const path of ['pop', 'claims']) {
      const answer = await curl(`${server}/queues/${queue}/${path}`, '-X', 'POST', '-H', type)
      expect(answer).toMatchObject({ status: 415, body: { detail: expect.stringContaining('application/json') } })
    }
    expect(await curl(`${server}/queues/${queue}`)).toMatchObject({ body: { ready: 1, claimed: 0 } })
  })

  test('a compressed body', async ({ server, queue }) => {
    const answer = await post(`${server}/queues/${queue}/messages`, '{}', '-H', 'content-encoding: gzip')
    expect([answer.status, answer.body]).toMatchObject([415, { detail: expect.stringContaining('received "gzip"') }])
  })

  test.for([
    ['declared', 'content-length'],
    ['sent in chunks', 'transfer-encoding: chunked'],
  ])('a body that is too large, %s', async ([, header = ''], { sluice, queue, database }) => {
    const server = await serveHttp(createHttpHandler(sluice, { authorize: () => true, maxBodyBytes: 100 }))
    const chunked = header === 'content-length' ? [] : ['-H', header]
    const messages = [{ payload: 'x'.repeat(1_000_000) }]
    const answer = await post(`${server}/queues/${queue}/messages`, { messages }, '-H', 'expect:', ...chunked)
    expect([answer.status, answer.body]).toMatchObject([413, { detail: expect.stringContaining('at most 100 bytes') }])
    expect((await post(`${server}/queues/${queue}/messages`, { messages: [{ payload: 1 }] })).status).toBe(201)
    expect(await database.sql('SELECT payload FROM sluice.messages WHERE queue = $1', [queue])).toEqual([
      { payload: 1 },
    ])
  })

  test('a payload that is larger than the queue takes', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { payloadLimitBytes: 10 })
    const server = await serveHttp(createHttpHandler(sluice, { authorize: () => true }))
    const answer = await post(`${server}/queues/${queue}/messages`, { messages: [{ payload: 'x'.repeat(11) }] })
    expect([answer.status, answer.body]).toMatchObject([413, { code: 'PAYLOAD_TOO_LARGE' }])
  })

  test.for([
    ['that cannot be reached', 'UNREACHABLE'],
    ['that has been stopped', 'STOPPED'],
  ])('by a Sluice %s is answered with 503, without its words', async ([, code], { database, queue }) => {
    const nowhere = 'postgres://somebody:secret@127.0.0.1:1/nowhere'
    const sluice = createSluice({ connection: code === 'STOPPED' ? database.url : nowhere, log: false })
    const log = new EventLog(sluice.events)
    if (code === 'STOPPED') await sluice.stop()
    onTestFinished(() => sluice.stop())
    const server = await serveHttp(createHttpHandler(sluice, { authorize: () => true }))
    const answer = await post(`${server}/queues/${queue}/messages`, { messages: [{ payload: 1 }] })
    const detail = 'The queue cannot be reached. Try again'
    expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(answer.body).toEqual({ title: 'Service Unavailable', status: 503, code, detail })
    if (code === 'UNREACHABLE') expect(log.of('request.failed')).toMatchObject([{ status: 503, error: { code } }])
  })

  test('about the queue of a group is answered with 404 and the remedy', async ({ server, sluice }) => {
    await sluice.streams.set('orders', { partitions: 1 })
    await sluice.groups.set('orders', 'billing')
    const detail =
      'queue: expected one that is not of a group, received "orders:billing". Append to the stream with append(), and ' +
      'consume it with its group: pipeline(stream, { group })'
    const requests = [
      ['claims', {}],
      ['pop', {}],
      ['messages', { messages: [{ payload: 1 }] }],
    ] as const
    for (const [path, body] of requests) {
      const answer = await post(`${server}/queues/orders:billing/${path}`, body)
      expect(answer, path).toMatchObject({ status: 404, body: { title: 'Not Found', code: 'QUEUE_UNKNOWN', detail } })
    }
  })

  test('an error of the server is answered with 500, without its words', async ({ queue }) => {
    await using broken = await createTestDatabase({ migrated: false })
    const server = await serveHttp(createHttpHandler(startTestSluice(broken), { authorize: () => true }))
    const answer = await post(`${server}/queues/${queue}/messages`, { messages: [{ payload: 1 }] })
    const detail = 'The request failed. The log of the server has the reason'
    expect(answer.body).toEqual({ title: 'Internal Server Error', status: 500, code: 'SCHEMA_MISSING', detail })
  })

  const bodies = [
    ['no JSON', 'Hello', 400, 'body: expected JSON in UTF-8'],
    ['half of it', '{"messages":[', 400, 'body: expected JSON in UTF-8'],
    ['an empty body', '', 422, 'body: expected messages, an array of 1 to 1,000 messages, received none'],
    ['an array', '[]', 422, 'body: expected an object with messages, received an array of 0'],
    ['null', 'null', 422, 'body: expected an object with messages, received null'],
    [
      'no messages',
      '{"messages":[]}',
      422,
      'messages: expected an array of 1 to 1,000 messages, received an array of 0',
    ],
    ['a message without payload', '{"messages":[{}]}', 422, 'messages[0]: expected payload, any JSON, received none'],
    [
      'a text for a number',
      '{"messages":[{"payload":1,"priority":"5"}]}',
      422,
      'messages[0].priority: expected an integer from 0 to 9, received "5"',
    ],
    ['a fraction', '{"messages":[{"payload":1,"priority":1.5}]}', 422, 'messages[0].priority: expected an integer'],
    [
      'a duration without unit',
      '{"messages":[{"payload":1,"delay":"5"}]}',
      422,
      'messages[0].delay: expected milliseconds from 0',
    ],
    [
      'a date that is none',
      '{"messages":[{"payload":1,"dueAt":"tomorrow"}]}',
      422,
      'messages[0].dueAt: expected an instant in ISO 8601, received "tomorrow"',
    ],
    [
      'headers that are no object',
      '{"messages":[{"payload":1,"headers":[]}]}',
      422,
      'messages[0].headers: expected an object',
    ],
    ['a misspelt option', '{"messages":[{"payload":1,"orderingkey":"a"}]}', 422, 'Did you mean orderingKey?'],
    ['__proto__', '{"messages":[{"payload":1,"__proto__":{"priority":0}}]}', 422, 'received "__proto__"'],
    ['toString', '{"messages":[{"payload":1,"toString":1}]}', 422, 'received "toString"'],
    [
      'another property',
      '{"messages":[{"payload":1}],"queue":"other"}',
      422,
      'body: expected only the options messages',
    ],
    [
      'too many messages',
      JSON.stringify({ messages: Array.from({ length: 1_001 }, () => ({ payload: 1 })) }),
      422,
      'received an array of 1001',
    ],
    [
      'text with NUL',
      '{"messages":[{"payload":"\\u0000"}]}',
      422,
      'messages[0].payload: expected text that jsonb can hold',
    ],
    [
      'nesting without end',
      `{"messages":[{"payload":${'['.repeat(100_000)}${']'.repeat(100_000)}}]}`,
      422,
      'expected at most 500 levels of nesting, received more',
    ],
    [
      'the same, with a long number',
      `{"messages":[{"payload":${'['.repeat(100_000)}1234567890123456${']'.repeat(100_000)}}]}`,
      400,
      'body: expected JSON',
    ],
  ] as const
  test.for(bodies)('%s', async ([, body, status, detail], { server, queue, database }) => {
    const answer = await post(`${server}/queues/${queue}/messages`, body)
    expect([answer.status, answer.body]).toMatchObject([status, { status, detail: expect.stringContaining(detail) }])
    expect(await database.sql('SELECT 1 FROM sluice.messages WHERE queue = $1', [queue])).toEqual([])
  })
})
