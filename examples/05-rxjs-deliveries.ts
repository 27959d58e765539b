// A queue as an Observable with backpressure: no more messages are locked than the subscriber has room for.

import { concatMap, lastValueFrom, take, toArray } from 'rxjs'
import { createSluice, groupWithin, handleDeliveries, type Message } from 'sluice'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '' })
await sluice.migrate()

// `handleDeliveries` handles deliveries, here two at a time, and settles them. A failure is data: the stream goes on.
await enqueue('example.numbers', 3)
const results = await lastValueFrom(
  sluice
    .deliveries('example.numbers', { demand: 4, retry: { kind: 'fixed', delay: '100ms' } })
    .pipe(handleDeliveries(onlySmall, { concurrency: 2 }), take(4), toArray()),
)
for (const result of results.sort((a, b) => Number(a.message.payload) - Number(b.message.payload))) {
  const { payload, attempt } = result.message
  console.log(payload, `try ${attempt}:`, 'outcome' in result ? result.outcome.kind : String(result.error))
}

// `groupWithin` groups by size and time, for whatever takes many at once. The subscriber settles each delivery itself.
await enqueue('example.rows', 10)
const sizes = await lastValueFrom(
  sluice.deliveries('example.rows', { demand: 5 }).pipe(
    groupWithin({ size: 5, maxWait: 1_000 }),
    concatMap(async (deliveries) => {
      for (const delivery of deliveries) delivery.ack()
      return deliveries.length
    }),
    take(2),
    toArray(),
  ),
)
console.log('groups of', sizes.join(' and '))

// The same source is an AsyncIterable. What is not settled when the loop is left is given back.
await enqueue('example.loop', 4)
for await (const delivery of sluice.deliveries('example.loop', { demand: 1 })) {
  if (delivery.message.payload === 4) break
  delivery.ack()
}
const [givenBack] = await sluice
  .pipeline('example.loop')
  .handle(() => {})
  .runOnce()
console.log('left the loop at', givenBack?.message.payload)
await sluice.stop()

async function onlySmall({ payload, attempt }: Message): Promise<void> {
  if (payload === 3 && attempt === 1) throw new Error('3 is too many')
}

async function enqueue(queue: string, count: number): Promise<void> {
  const messages = Array.from({ length: count }, (_, at) => ({ payload: at + 1 }))
  await sluice.enqueueMany(sluice.ownTransaction, queue, messages)
}
