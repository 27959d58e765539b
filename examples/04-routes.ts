// One queue, many types of messages, one handler for each pattern.

import { createSluice, type Message, routes } from 'sluice'
import { runDue } from 'sluice/testing'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '' })
await sluice.migrate()

const orders = sluice.pipeline('example.orders').handle(
  routes(
    [
      { match: 'order.paid', handle: (message) => print('ship', message) },
      // `*` stands for one segment, `**` at the end for all that remain.
      { match: 'order.*.refunded', handle: (message) => print('refund', message) },
      // All routes that match are called, in this order, in the same transaction.
      { match: 'order.**', handle: (message) => print('record', message) },
    ],
    { unmatched: 'deadLetter' },
  ),
)

await sluice.enqueueMany(sluice.ownTransaction, 'example.orders', [
  { type: 'order.paid', payload: 1 },
  { type: 'order.eu.refunded', payload: 2 },
  { type: 'invoice.sent', payload: 3 },
])

for (const { message, outcome } of await runDue(orders)) {
  console.log(message.payload, outcome.kind, outcome.kind === 'deadLetter' ? outcome.reason : '')
}
await sluice.stop()

function print(what: string, message: Message): void {
  console.log(`${what} order ${message.payload} (${message.type})`)
}
