import { describe, expect } from 'vitest'
import { deadLetter, retryLater, snooze } from '../../src/message.ts'
import type { Sluice } from '../../src/sluice.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1)

describe('a claim', () => {
  test('of 15 of 20 messages leaves 5, and gives back what is not settled', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, numbers(20))
    const claim = await sluice.claim(queue, { limit: 15 })
    expect(claim?.messages.map(({ payload }) => payload)).toEqual(numbers(15))
    expect(claim?.messages[0]).toMatchObject({
      id: ids[0],
      queue,
      attempt: 1,
      headers: {},
      priority: 5,
      maxAttempts: null,
    })
    expect(await counts(sluice, queue)).toEqual({ claimed: 15, free: 5, total: 20 })

    const found = await sluice.operate.claims.get(queue, claim!.id)
    expect(found.messages.map(({ id }) => id)).toEqual(ids.slice(0, 15))
    const before = claim!.expiresAt
    expect((await claim!.renew('10m')).getTime()).toBeGreaterThan(before.getTime() + 500_000)
    expect(await claim!.settle(claim!.messages.slice(0, 3))).toEqual({ settled: ids.slice(0, 3), refused: [] })
    expect(await claim!.settle(ids[3]!, retryLater({ after: '1h', error: 'busy' }))).toMatchObject({
      settled: [ids[3]],
    })
    expect(await claim!.settle(ids[4]!, snooze({ after: '1h' }))).toMatchObject({ settled: [ids[4]] })
    expect(await claim!.settle(ids[5]!, deadLetter('bad'))).toMatchObject({ settled: [ids[5]] })
    expect(await claim!.settle([ids[0]!, ids[3]!, ids[19]!])).toEqual({
      settled: [],
      refused: [
        { id: ids[0], reason: 'gone' },
        { id: ids[3], reason: 'not_claimed' },
        { id: ids[19], reason: 'not_claimed' },
      ],
    })
    expect(await claim!.release()).toBe(9)
    expect(await counts(sluice, queue)).toEqual({ claimed: 0, free: 14, total: 16 })
    const again = await sluice.claim(queue, { limit: 20 })
    expect(again?.messages.map(({ id }) => id).toSorted(byNumber)).toEqual(ids.slice(6))
    expect(again?.messages.every(({ attempt }) => attempt === 1)).toBe(true)
  })

  test('waits for a message', async ({ sluice, queue, database }) => {
    const waits = sluice.claim(queue, { wait: '1m' })
    const producer = startTestSluice(database)
    await producer.enqueue(producer.ownTransaction, queue, 'hello')
    expect((await waits)?.messages[0]?.payload).toBe('hello')
  })
})

const byNumber = (a: string, b: string) => Number(a) - Number(b)

async function counts(sluice: Sluice, queue: string) {
  const [status] = await sluice.operate.queues({ queue })
  const { inFlight = 0, ready = 0, scheduled = 0, retrying = 0 } = status ?? {}
  return { claimed: inFlight, free: ready, total: inFlight + ready + scheduled + retrying }
}
