import { expect } from 'vitest'
import { type MemoryMessage, MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { test } from '../../support/plans/counted.ts'
import { deferred } from '../../support/wait.ts'

const FIRST = [{ id: 'first', payload: 0 }]
const TEN = Array.from({ length: 10 }, (_, n) => ({ id: `m-${n}`, payload: n }))

test('an inbox asks the server once for a batch, with copies too', async ({ counted, queue }) => {
  const from = new MemoryReceiver()
  const running = counted.sluice.inbox(queue, { from }).start()
  await acked(from, FIRST)
  for (const messages of [TEN, TEN]) {
    await counted.clear()
    await acked(from, messages)
    expect(await counted.flushes('sluice')).toEqual([
      [expect.stringMatching(/^BEGIN; SET/), 'enqueue_received', 'COMMIT'],
    ])
  }
  expect(running.statistics()).toEqual({ enqueued: 11, duplicates: 10, dead: 0 })
  await running.drain()
})

test('a batch with a dead letter takes a statement for each step', async ({ counted, queue }) => {
  const from = new MemoryReceiver()
  const running = counted.sluice.inbox(queue, { from }).start()
  await acked(from, FIRST)
  await counted.clear()
  await acked(from, [...TEN, { payload: 'without an id' }])
  expect(await counted.flushes('sluice')).toEqual([
    [expect.stringMatching(/^BEGIN; SET/), 'receive'],
    ['bury_received'],
    ['insert'],
    ['COMMIT'],
  ])
  await running.drain()
})

/** Delivers messages, and waits until all of them have been acked. */
async function acked(from: MemoryReceiver, messages: readonly MemoryMessage[]): Promise<void> {
  const done = deferred()
  from.onAck = () => done.resolve()
  from.deliver(...messages)
  await done.promise
}
