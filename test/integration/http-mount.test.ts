import { Hono } from 'hono'
import { describe, expect } from 'vitest'
import { createHttpHandler } from '../../src/http.ts'
import { test } from '../support/sluice.ts'

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

  test('serves its OpenAPI document, whose server is where the document is', async ({ sluice }) => {
    const url = 'https://example.com/sluice/openapi.json'
    const answer = await createHttpHandler(sluice, { ...everybody, basePath: '/sluice' })(new Request(url))
    const { openapi, servers } = (await answer.json()) as { openapi: string; servers: readonly { url: string }[] }
    expect(openapi).toBe('3.1.0')
    expect(new URL(servers[0]?.url ?? '', url).href).toBe('https://example.com/sluice/')
  })
})
