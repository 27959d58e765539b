import { expect } from 'vitest'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

test('keeps what was settled right before a for await loop is left, and gives the rest back', async ({
  database,
  sluice,
  queue,
}) => {
  for (let round = 0; round < 10; round++) {
    const [first, second] = await put(sluice, queue, [{}, {}])
    for await (const delivery of sluice.deliveries(queue, { demand: 2 })) {
      if (delivery.message.id !== first) continue
      expect(delivery.ack()).toBe(true)
      break
    }
    const left = await database.sql('SELECT id::text FROM sluice.message WHERE queue = $1', [queue])
    expect(left).toEqual([{ id: second }])
    await sluice
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
  }
})

test('keeps what was settled right before the sluice stops', async ({ database, sluice, queue }) => {
  await put(sluice, queue, [{}])
  const settled = Promise.withResolvers<void>()
  sluice.deliveries(queue, { demand: 1 }).subscribe((delivery) => {
    delivery.ack()
    settled.resolve(sluice.stop())
  })
  await settled.promise
  await waitFor(async () => (await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).length === 0, {
    what: 'the ack',
  })
})
