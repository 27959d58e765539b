import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, onTestFinished } from 'vitest'
import { type DashboardHandler, type DashboardOptions, dashboard } from '../../packages/dashboard/src/index.ts'
import { test } from '../support/sluice.ts'

const BASE = '/admin/sluice'

/** Ways to mount the page, each with the address of its server. */
const MOUNTS: Readonly<Record<string, (handler: DashboardHandler) => Promise<string>>> = {
  'node:http': (handler) => listen(listenerOf(handler)),
  Hono: (handler) => {
    const app = new Hono()
    app.all(BASE, ({ req }) => handler(req.raw))
    app.all(`${BASE}/*`, ({ req }) => handler(req.raw))
    return listen(listenerOf((request) => Promise.resolve(app.fetch(request))))
  },
  Express: (handler) => {
    const listener = listenerOf(handler)
    const app = express()
    app.use((request, response, next) => (request.path.startsWith(BASE) ? listener(request, response) : next()))
    app.use(express.urlencoded())
    return listen(app)
  },
  Fastify: async (handler) => {
    const app = fastify()
    const listener = listenerOf(handler)
    app.register((scope, _options, ready) => {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
      scope.all(`${BASE}/*`, (request, reply) => {
        reply.hijack()
        listener(request.raw, reply.raw)
      })
      ready()
    })
    onTestFinished(() => app.close())
    return app.listen({ port: 0, host: '127.0.0.1' })
  },
  'a Next.js route handler': (handler) => {
    // Next calls the exports of a route by the method.
    const route: Readonly<Record<string, DashboardHandler>> = { GET: handler, POST: handler }
    return listen(
      listenerOf((request) => route[request.method]?.(request) ?? Promise.reject(new Error('no such method'))),
    )
  },
}

describe.each(Object.entries(MOUNTS))('the page in %s', (_, mount) => {
  test('shows itself and its files, and acts, under the path where it is mounted', async ({ sluice, queue }) => {
    const handler = dashboard(sluice, options())
    const origin = await mount(handler)
    const page = await fetch(`${origin}${BASE}/`)
    const html = await page.text()
    expect([page.status, html]).toEqual([200, expect.stringContaining(`href="${BASE}/dead"`)])
    for (const [, path = ''] of html.matchAll(/(?:src|href)="([^"#]+)"/g)) {
      expect([path, (await fetch(`${origin}${path}`)).status]).toEqual([path, 200])
    }
    const acted = await post(`${origin}${BASE}/queues/${queue}/pause`, { 'sec-fetch-site': 'same-origin' })
    expect([acted.status, acted.headers.get('location')]).toEqual([303, `${BASE}/queues/${queue}?done=paused`])
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({ pausedBy: 'ada', pauseReason: 'a & b' })
  })

  test('refuses what another site sends', async ({ sluice, queue }) => {
    const origin = await mount(dashboard(sluice, options()))
    const forged = [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }, {}]
    for (const headers of forged)
      expect((await post(`${origin}${BASE}/queues/${queue}/pause`, headers)).status).toBe(403)
    const own = await post(`${origin}${BASE}/queues/${queue}/pause`, { origin })
    expect(own.status).toBe(303)
  })
})

test('a body that a parser has read before is not taken for an empty one', async ({ sluice, queue }) => {
  const errors: unknown[] = []
  const listener = listenerOf(dashboard(sluice, { ...options(), onError: (error) => errors.push(error) }))
  const app = express()
  app.use(express.urlencoded({ extended: false }))
  app.use((request, response) => listener(request, response))
  const origin = await listen(app)
  const answer = await post(`${origin}${BASE}/queues/${queue}/pause`, { 'sec-fetch-site': 'same-origin' })
  expect(answer.status).toBe(500)
  expect(String(errors)).toContain('before parsers of bodies')
  expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
})

function options(): DashboardOptions {
  return { basePath: BASE, authorize: () => ({ user: 'ada', may: 'act' }) }
}

/** As curl would: `fetch` of Node adds a `Sec-Fetch-Mode`, and no `Sec-Fetch-Site`. */
function post(url: string, headers: Record<string, string>): Promise<Response> {
  const body = new URLSearchParams({ confirmed: 'yes', reason: 'a & b' })
  return fetch(url, { method: 'POST', redirect: 'manual', headers, body })
}

function listenerOf(handler: DashboardHandler): RequestListener {
  const listener = getRequestListener(handler, { overrideGlobalObjects: false })
  return (request, response) => void listener(request, response)
}

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
