// Hono on Node: an order and its message in one transaction, and a worker that starts and stops with the server.

import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { insertOrder, inTransaction, sluice, start, stop } from './shop.ts'

const app = new Hono()

app.post('/orders', async (context) => {
  const { item } = await context.req.json<{ item: unknown }>()
  const id = await inTransaction(async (tx) => {
    const order = await insertOrder(tx, item)
    await sluice.enqueue(tx, 'example.receipts', order)
    return order
  })
  return context.json({ id }, 201)
})

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT) }, ({ port }) => {
  console.log(`listens on ${port}`)
  start()
})
process.once('SIGTERM', () => server.close(() => void stop()))
