import { describe, expect } from 'vitest'
import type { Destination, OutgoingMessage, Verdict } from '../../../src/relay/destination.ts'
import { type ConformanceSubject, conformance } from '../../../src/testing/conformance.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('to', () => new MemoryDestination())

const payloads = (messages: readonly OutgoingMessage[]) => messages.map(({ message }) => message.payload)
const FAILED: Verdict = { kind: 'failed', error: 'not now' }
const IN_AN_HOUR = { kind: 'fixed', delay: '1h' } as const

describe('a failed message', () => {
  test('is tried again when the destination says, or else when the policy does', async ({ sluice, queue, log, to }) => {
    const waits = [5_000, 0, undefined, -1, Number.NaN, Number.POSITIVE_INFINITY]
    await put(
      sluice,
      queue,
      waits.map((_, n) => n),
    )
    to.answer = ({ message }) => ({ ...FAILED, afterMs: waits[Number(message.payload)] })
    await sluice.relay(queue, { to, retry: IN_AN_HOUR, maxAttempts: 2 }).runOnce()
    const failures = log.of('message.failed').toSorted((a, b) => Number(a.id) - Number(b.id))
    const [hour, day] = [3_600_000, 86_400_000]
    expect(failures.map(({ retryInMs }) => retryInMs)).toEqual([5_000, 0, hour, hour, hour, day])
  })
})

test('a reason of an adapter that is no text is a dead letter all the same', async ({
  database,
  sluice,
  queue,
  to,
}) => {
  await put(sluice, queue, [1])
  const bad = {
    system: to.system,
    open: async () => {
      const connection = await to.open()
      const check = () => new Error('too large') as unknown as string
      return { check, publish: connection.publish.bind(connection), close: () => connection.close() }
    },
  }
  expect((await sluice.relay(queue, { to: bad }).runOnce()).counts).toMatchObject({ acked: 0, dead: 1, retried: 0 })
  const dead = await database.sql('SELECT reason FROM sluice.dead_letters WHERE queue = $1', [queue])
  expect(dead).toEqual([{ reason: 'Error: too large' }])
})

describe('a message without an answer, among others that have one,', () => {
  test('comes again after pauses that grow, and counts no attempt', async ({ database, sluice, queue, to }) => {
    await put(sluice, queue, ['full', ...Array.from({ length: 90 }, (_, n) => n)])
    const at: number[] = []
    to.answer = ({ message }) => {
      if (message.payload !== 'full') return { kind: 'confirmed' }
      at.push(performance.now())
      return { kind: 'unavailable', error: 'the queue is full' }
    }
    await sluice.relay(queue, { to, concurrency: 1, batchSize: 10 }).runOnce()
    expect(to.stored).toHaveLength(90)
    // Nine others go with it each time, until it is alone. Seven pauses of 10, 20, … 640 ms are at least half as long.
    expect(at).toHaveLength(11)
    expect((at[7] ?? 0) - (at[0] ?? 0)).toBeGreaterThan(600)
    const left = await database.sql('SELECT payload, attempt FROM sluice.message WHERE queue = $1', [queue])
    expect(left).toEqual([{ payload: 'full', attempt: 0 }])
  })

  test('does not keep a relay from stopping', async ({ sluice, queue, to }) => {
    await put(sluice, queue, ['full', ...Array.from({ length: 200 }, (_, n) => n)])
    to.answer = ({ message }) =>
      message.payload === 'full' ? { kind: 'unavailable', error: 'full' } : { kind: 'confirmed' }
    const running = sluice.relay(queue, { to, concurrency: 1, batchSize: 10 }).start()
    await waitFor(() => to.sent.filter(({ message }) => message.payload === 'full').length > 2, { what: 'three tries' })
    await running.stop()
    expect(to.connections).toBe(0)
  })
})

describe('a destination that keeps the order of a key by itself', () => {
  test('has the messages of a batch in one call', async ({ sluice, queue, to }) => {
    await put(sluice, queue, ['a1', 'a2', 'a3', 'a4', 'a5'], { orderingKey: 'a' })
    const calls: number[] = []
    const keepsOrder = {
      system: to.system,
      keepsOrder: true,
      open: async () => {
        const connection = await to.open()
        const publish: typeof connection.publish = (messages, signal) => {
          calls.push(messages.length)
          return connection.publish(messages, signal)
        }
        return { check: () => undefined, publish, close: () => connection.close() }
      },
    }
    expect((await sluice.relay(queue, { to: keepsOrder }).runOnce()).counts.acked).toBe(5)
    expect(calls).toEqual([5])
  })

  test('counts an attempt of the message that failed, and none of those behind it', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    to.keepsOrder = true
    await put(sluice, queue, ['a1', 'a2', 'a3'], { orderingKey: 'a' })
    await put(sluice, queue, ['b1', 'b2'], { orderingKey: 'b' })
    to.answer = ({ message }) => (message.payload === 'a2' ? FAILED : { kind: 'confirmed' })
    expect((await sluice.relay(queue, { to, retry: IN_AN_HOUR }).runOnce()).counts).toMatchObject({
      acked: 3,
      retried: 1,
      dead: 0,
    })
    expect(payloads(to.stored).toSorted()).toEqual(['a1', 'b1', 'b2'])
    const left = 'SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY id'
    expect(await database.sql(left, [queue])).toEqual([
      { payload: 'a2', attempt: 1 },
      { payload: 'a3', attempt: 0 },
    ])
  })

  test('gets a message that failed again before those behind it', async ({ database, sluice, queue, to }) => {
    to.keepsOrder = true
    await put(sluice, queue, ['a1', 'a2', 'a3'], { orderingKey: 'a' })
    to.answer = ({ message }) => (message.payload === 'a2' && message.attempt < 3 ? FAILED : { kind: 'confirmed' })
    const running = sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '10ms' } }).start()
    await untilEmpty(database, queue)
    await running.drain()
    expect(payloads(to.sent)).toEqual(['a1', 'a2', 'a2', 'a2', 'a3'])
    expect(payloads(to.stored)).toEqual(['a1', 'a2', 'a3'])
  })

  test('gets what is behind a refused message with the next claim', async ({ database, sluice, queue, to }) => {
    to.keepsOrder = true
    await put(sluice, queue, ['a1', 'a2', 'a3'], { orderingKey: 'a' })
    to.answer = ({ message }) =>
      message.payload === 'a1' ? { kind: 'refused', error: 'too large' } : { kind: 'confirmed' }
    expect((await sluice.relay(queue, { to }).runOnce()).counts).toMatchObject({ acked: 2, dead: 1 })
    expect(payloads(to.sent)).toEqual(['a1', 'a2', 'a3'])
    expect(await payloadsOf(database, queue)).toEqual([])
  })
})

describe('the destination in memory, if it keeps the order of a key', () => {
  for (const { name, run } of conformance) test(name, () => run(inMemory(true)))
})

test('a destination that only says that it keeps the order of a key does not pass', async () => {
  const caught: string[] = []
  for (const { name, run } of conformance) {
    const { to, ...others } = inMemory(false)
    const liar: Destination = { system: to.system, keepsOrder: true, open: (signal) => to.open(signal) }
    await run({ ...others, to: liar }).catch(() => caught.push(name))
  }
  expect(caught).toEqual(['if it keeps the order of a key, nothing is stored behind a message of the key that was not'])
})

function inMemory(keepsOrder: boolean): ConformanceSubject {
  const to = new MemoryDestination()
  to.keepsOrder = keepsOrder
  // Failed, and not refused: behind a refused message the next one may be stored.
  to.answer = ({ body }) => (body.byteLength > 10_000 ? FAILED : { kind: 'confirmed' })
  return {
    to,
    stored: async () =>
      to.stored.map(({ id, body, headers }) => ({ id, body: new TextDecoder().decode(body), headers })),
    cutOff: async () => {
      to.reachable = false
      return async () => {
        to.reachable = true
      }
    },
    spoil: (message) => ({ ...message, body: new Uint8Array(10_001) }),
  }
}
