// Express 5: an error of the handler goes to Express, and the transaction is rolled back.

import type { AddressInfo } from 'node:net'
import express from 'express'
import { insertOrder, inTransaction, sluice, start, stop } from './shop.ts'

const app = express()
app.use(express.json())

app.post('/orders', async (request, response) => {
  const id = await inTransaction(async (tx) => {
    const order = await insertOrder(tx, request.body.item)
    await sluice.enqueue(tx, 'example.receipts', order)
    return order
  })
  response.status(201).json({ id })
})

const server = app.listen(Number(process.env.PORT), () => {
  console.log(`listens on ${(server.address() as AddressInfo).port}`)
  start()
})
process.once('SIGTERM', () => server.close(() => void stop()))
