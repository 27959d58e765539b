// Next.js, app/orders/route.ts: a route handler that enqueues in the transaction of its request.

import { insertOrder, inTransaction, sluice } from '../../../shop.ts'

export async function POST(request: Request): Promise<Response> {
  const { item } = (await request.json()) as { item: unknown }
  const id = await inTransaction(async (tx) => {
    const order = await insertOrder(tx, item)
    await sluice.enqueue(tx, 'example.receipts', order)
    return order
  })
  return Response.json({ id }, { status: 201 })
}
