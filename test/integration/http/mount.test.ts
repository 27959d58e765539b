import { Hono } from 'hono'
import { describe, expect } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { test } from '../../support/sluice.ts'

const everybody = { authorize: () => true }

describe('a handler', () => {
  test('is mounted in a Hono application, which takes the prefix away', async ({ sluice, queue }) => {
    const app = new Hono().mount('/sluice', createHttpHandler(sluice, everybody))
    const answer = await app.request(`/sluice/queues/${queue}`)
    expect([answer.status, await answer.json()]).toMatchObject([200, { queue, total: 0 }])
    expect((await app.request(`/queues/${queue}`)).status).toBe(404)
  })

  test('answers below its basePath, and nowhere else', async ({ sluice, queue }) => {
    const handler = createHttpHandler(sluice, { ...everybody, basePath: '/api/sluice' })
    const statusOf = async (path: string) => (await handler(new Request(`https://example.com${path}`))).status
    expect(await statusOf(`/api/sluice/queues/${queue}?verbose=1`)).toBe(200)
    expect(await statusOf(`/queues/${queue}`)).toBe(404)
    expect(await statusOf(`/api/sluicequeues/${queue}`)).toBe(404)
    expect(await statusOf('/api/sluice')).toBe(404)
  })

  test('answers HEAD as GET, without the body', async ({ sluice, queue }) => {
    const handler = createHttpHandler(sluice, everybody)
    const answer = await handler(new Request(`https://example.com/queues/${queue}`, { method: 'HEAD' }))
    expect([answer.status, answer.headers.get('content-type'), answer.body]).toEqual([200, 'application/json', null])
  })

  test('takes bodies from streams of strings, and any spelling of a coding', async ({ sluice, queue }) => {
    const handler = createHttpHandler(sluice, everybody)
    const body = new ReadableStream({
      start(stream) {
        for (const part of ['{"messages":[', '{"payload":"ü"}', ']}']) stream.enqueue(part)
        stream.close()
      },
    })
    const headers = { 'content-type': 'application/json', 'content-encoding': 'Identity' }
    const request = new Request(`https://example.com/queues/${queue}/messages`, {
      ...{ method: 'POST', headers, duplex: 'half' },
      body,
    })
    // A Request made of such a stream refuses strings when it is read, so its body is the stream itself.
    Object.defineProperty(request, 'body', { value: body })
    expect((await handler(request)).status).toBe(201)
    expect(await sluice.pop(queue)).toMatchObject([{ payload: 'ü' }])
  })

  test('takes only a Response of any framework for one', async ({ sluice, queue }) => {
    const decisions = [new Response('teapot', { status: 418 }), { status: 200, headers: {}, body: 'let me in' }]
    const statuses = decisions.map(async (decision) => {
      const handler = createHttpHandler(sluice, { authorize: () => decision as Response })
      return (await handler(new Request(`https://example.com/queues/${queue}`))).status
    })
    expect(await Promise.all(statuses)).toEqual([418, 401])
  })

  test('refuses an integer that JavaScript would round, also with a zero behind its point', async ({
    sluice,
    queue,
  }) => {
    const handler = createHttpHandler(sluice, everybody)
    const statusOf = async (payload: string) => {
      const options = { method: 'POST', headers: { 'content-type': 'application/json' } }
      const body = `{"messages":[{"payload":${payload}}]}`
      return (await handler(new Request(`https://example.com/queues/${queue}/messages`, { ...options, body }))).status
    }
    expect(await statusOf('9007199254740993.0')).toBe(422)
    expect(await statusOf('9007199254740992.0')).toBe(201)
    expect(await statusOf('1234567890.1234567')).toBe(201)
  })

  test('enqueues with dedupe keys, and says what became of each', async ({ sluice, queue }) => {
    const handler = createHttpHandler(sluice, everybody)
    const enqueue = async (...messages: readonly object[]) => {
      const options = { method: 'POST', headers: { 'content-type': 'application/json' } }
      const body = JSON.stringify({ messages })
      const answer = await handler(new Request(`https://example.com/queues/${queue}/messages`, { ...options, body }))
      return { status: answer.status, body: await answer.json() }
    }
    const invoice = { payload: 17, ttl: '1h', dedupe: { key: 'invoice 17', for: '1d' } }
    const first = await enqueue(invoice, { ...invoice, payload: 18 })
    const { ids } = first.body as { ids: readonly string[] }
    expect(first).toEqual({
      status: 201,
      body: {
        ids: [ids[0], ids[0]],
        outcomes: [
          { id: ids[0], outcome: 'added', state: 'ready' },
          { id: ids[0], outcome: 'duplicate', state: 'ready' },
        ],
      },
    })
    expect(await sluice.pop(queue, { limit: 10 })).toMatchObject([{ payload: 17 }])
    expect(await enqueue(invoice)).toMatchObject({ status: 201, body: { outcomes: [{ state: 'completed' }] } })
    expect((await enqueue(invoice, { payload: 'without' })).status).toBe(422)
    expect((await enqueue({ payload: 1, dedupe: { key: 'k', onDuplicate: 'never' } })).status).toBe(422)
  })

  test('serves its OpenAPI document, whose server is where the document is', async ({ sluice }) => {
    const url = 'https://example.com/sluice/openapi.json'
    const answer = await createHttpHandler(sluice, { ...everybody, basePath: '/sluice' })(new Request(url))
    const { openapi, servers } = (await answer.json()) as { openapi: string; servers: readonly { url: string }[] }
    expect(openapi).toBe('3.1.0')
    expect(new URL(servers[0]?.url ?? '', url).href).toBe('https://example.com/sluice/')
  })
})
