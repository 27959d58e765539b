// Queues over HTTP: a server with one handler, and a client that has nothing but fetch. 12-worker.py is a worker in Python.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { createSluice } from 'sluice'
import { createHttpHandler } from 'sluice/http'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '' })
await sluice.migrate()

// Who may do what: the shop adds orders, the warehouse claims them, and both may count.
const MAY: Readonly<Record<string, readonly string[]>> = {
  'Bearer shop': ['enqueue', 'count'],
  'Bearer warehouse': ['claim', 'count'],
}
const handler = createHttpHandler(sluice, {
  basePath: '/sluice',
  authorize: (request, { action, queue }) =>
    queue === 'example.http' && (MAY[request.headers.get('authorization') ?? '']?.includes(action) ?? false),
})
const server = createServer(getRequestListener(handler))
await new Promise<void>((resolve) => server.listen(0, resolve))

const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sluice/queues/example.http`

interface Answer {
  readonly title: string
  readonly code: string
  readonly ids: readonly string[]
  readonly id: string
  readonly messages: readonly { readonly id: string; readonly payload: string }[]
  readonly settled: readonly string[]
  readonly refused: readonly object[]
  readonly claimed: number
  readonly free: number
  readonly total: number
}

async function call(who: string, method: string, path: string, body?: object) {
  const headers = { authorization: `Bearer ${who}`, 'content-type': 'application/json' }
  const response = await fetch(base + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  return { status: response.status, body: (await response.json()) as Answer }
}

const orders = [{ payload: 'lamp' }, { payload: 'vase', priority: 0 }]
const enqueued = await call('shop', 'POST', '/messages', { messages: orders })
console.log(enqueued.status, 'enqueued', enqueued.body.ids.length)

const refused = await call('shop', 'POST', '/claims')
console.log(refused.status, refused.body.title)

// `wait` holds the request until there is a message, here for no time because there is one.
const { status, body: claim } = await call('warehouse', 'POST', '/claims', { limit: 10, lease: '1m', wait: '20s' })
console.log(status, 'claimed', claim.messages.map(({ payload }) => payload).join(', '))
const { claimed, free, total } = (await call('warehouse', 'GET', '')).body
console.log('claimed, free, total:', claimed, free, total)

const [vase, lamp] = claim.messages
const settled = await call('warehouse', 'POST', `/claims/${claim.id}/settle`, {
  messages: [{ id: lamp?.id }, { id: vase?.id, outcome: 'deadLetter', reason: 'broken' }],
})
console.log(settled.status, 'settled', settled.body.settled.length, 'refused', settled.body.refused.length)

const gone = await call('warehouse', 'PATCH', `/claims/${claim.id}`, { lease: '1m' })
console.log(gone.status, gone.body.code)

server.close()
server.closeAllConnections()
await sluice.operate.deadLetters.delete({ queue: 'example.http' })
await sluice.stop()
