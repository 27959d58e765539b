import { describe, expect } from 'vitest'
import type { OutgoingMessage, Verdict } from '../../../src/relay/destination.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const test = base.extend('to', () => new MemoryDestination())

const KEYS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

/** As many messages of each key, one key after another: a backlog in which a batch comes upon one key. */
async function putKeys(sluice: Sluice, queue: string, count: number, keys = KEYS): Promise<void> {
  for (const key of keys) {
    const payloads = Array.from({ length: count }, (_, n) => `${key} ${n}`)
    await put(sluice, queue, payloads, { orderingKey: key })
  }
}

const keysIn = (messages: readonly OutgoingMessage[]) =>
  messages.map(({ message }) => message.orderingKey ?? '').toSorted()

describe('a relay', () => {
  test('publishes a few messages of each key of a backlog in one batch', async ({ sluice, queue, to }) => {
    await putKeys(sluice, queue, 10)
    const confirm = deferred<Verdict>()
    to.answer = () => confirm.promise
    const running = sluice.relay(queue, { to, batchSize: 16, concurrency: 1 }).start()
    await waitFor(() => to.sent.length >= KEYS.length, { what: 'the first wave' })
    expect(keysIn(to.sent)).toEqual(KEYS)
    confirm.resolve({ kind: 'confirmed' })
    await waitFor(() => to.stored.length === 10 * KEYS.length, { what: 'all messages' })
    await running.drain()
  })

  test('leaves as many keys to each other batch in flight', async ({ sluice, queue, to, log }) => {
    await putKeys(sluice, queue, 10)
    const confirm = deferred<Verdict>()
    to.answer = () => confirm.promise
    const running = sluice.relay(queue, { to, batchSize: 16, concurrency: 2 }).start()
    await waitFor(() => to.sent.length >= KEYS.length, { what: 'the first waves of two batches' })
    expect(keysIn(to.sent)).toEqual(KEYS)
    expect(log.of('batch.claimed').map(({ messages }) => messages)).toEqual([16, 16])
    confirm.resolve({ kind: 'confirmed' })
    await waitFor(() => to.stored.length === 10 * KEYS.length, { what: 'all messages' })
    await running.drain()
  })

  test('fills its batches with one key if there are no others', async ({ sluice, queue, to, log }) => {
    await putKeys(sluice, queue, 40, ['a'])
    await sluice.relay(queue, { to, batchSize: 20 }).runOnce()
    expect(to.stored.map(({ message }) => message.payload)).toEqual(Array.from({ length: 40 }, (_, n) => `a ${n}`))
    expect(log.of('batch.claimed').map(({ messages }) => messages)).toEqual([20, 20])
  })

  test('fills its batches with one key once the others are done', async ({ sluice, queue, to, log }) => {
    await putKeys(sluice, queue, 1)
    await putKeys(sluice, queue, 120, ['a'])
    await sluice.relay(queue, { to, batchSize: 20, concurrency: 1 }).runOnce()
    expect(to.stored).toHaveLength(120 + KEYS.length)
    // It takes some claims to notice that eight keys have become one.
    expect(log.of('batch.claimed').map(({ messages }) => messages)).toContain(20)
    expect(log.of('batch.claimed').length).toBeLessThan(20)
  })

  test('takes what it may under a limit of messages in flight', async ({ database, sluice, queue, to }) => {
    await setQueueColumns(database, queue, { concurrency: 8 })
    await putKeys(sluice, queue, 1)
    await putKeys(sluice, queue, 40, ['a'])
    const running = sluice.relay(queue, { to, batchSize: 20 }).start()
    await waitFor(() => to.stored.length === 40 + KEYS.length, { what: 'all messages' })
    await running.drain()
  })
})

test('two keys of one slot go side by side, and each in its order', async ({ database, sluice, queue, to }) => {
  const { same } = await keysOf(database)
  await putKeys(sluice, queue, 6, [...same])
  await sluice.relay(queue, { to, batchSize: 4 }).runOnce()
  expect(to.stored).toHaveLength(6 * same.length)
  for (const key of same) expect(numbersOf(to.stored, key)).toEqual([0, 1, 2, 3, 4, 5])
})

test('two relays of a queue publish each key in its order while messages fail, are refused or have no answer', async ({
  database,
  queue,
  to,
}) => {
  const sluices = [startTestSluice(database), startTestSluice(database)]
  const keys = Array.from({ length: 40 }, (_, n) => `key ${n}`)
  await putKeys(sluices[0]!, queue, 15, keys)
  const tries = new Map<string, number>()
  to.answer = ({ id }) => {
    const tried = (tries.get(id) ?? 0) + 1
    tries.set(id, tried)
    return verdictOf(Number(id.split('/')[1]), tried)
  }
  const quick = { delay: '10ms', maxDelay: '20ms' } as const
  const options = { to, batchSize: 16, retry: { kind: 'fixed', delay: 10 }, breaker: quick } as const
  const running = sluices.map((sluice) => sluice.relay(queue, options).start())
  await untilEmpty(database, queue, 90_000)
  await Promise.all(running.map((one) => one.drain()))
  const dead = 'SELECT payload FROM sluice.dead_letters WHERE queue = $1'
  const refused = (await database.sql<{ payload: string }>(dead, [queue])).map(({ payload }) => payload)
  expect(refused.length).toBeGreaterThan(5)
  // A connection that is closed may have stored what it does not confirm any more: then it is stored again.
  const first = to.stored.filter((one, at) => to.stored.findIndex(({ id }) => id === one.id) === at)
  for (const key of keys) {
    const expected = Array.from({ length: 15 }, (_, n) => n).filter((n) => !refused.includes(`${key} ${n}`))
    expect(numbersOf(first, key)).toEqual(expected)
  }
  expect([...tries.values()].filter((count) => count > 1).length).toBeGreaterThan(50)
})

/** By the number of the message, so that each run has the same. */
function verdictOf(id: number, tried: number): Verdict {
  if (id % 31 === 0) return { kind: 'refused', error: 'too large' }
  if (id % 7 === 0 && tried < 3) return { kind: 'failed', error: 'not now' }
  if (id % 13 === 0 && tried < 2) return { kind: 'unavailable', error: 'no leader' }
  return { kind: 'confirmed' }
}

function numbersOf(messages: readonly OutgoingMessage[], key: string): readonly number[] {
  return messages
    .filter(({ message }) => message.orderingKey === key)
    .map(({ message }) => Number(String(message.payload).slice(key.length + 1)))
}
