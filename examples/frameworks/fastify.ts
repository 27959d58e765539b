// Fastify: its hooks start and stop the worker.

import fastify from 'fastify'
import { insertOrder, inTransaction, sluice, start, stop } from './shop.ts'

const app = fastify()
app.addHook('onReady', async () => start())
app.addHook('onClose', stop)

app.post<{ Body: { item: unknown } }>('/orders', async (request, reply) => {
  const id = await inTransaction(async (tx) => {
    const order = await insertOrder(tx, request.body.item)
    await sluice.enqueue(tx, 'example.receipts', order)
    return order
  })
  return reply.code(201).send({ id })
})

const address = await app.listen({ port: Number(process.env.PORT) })
console.log(`listens on ${new URL(address).port}`)
process.once('SIGTERM', () => void app.close())
