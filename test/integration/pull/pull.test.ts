import { describe, expect } from 'vitest'
import { deadLetter, type Message, retryLater, snooze } from '../../../src/message.ts'
import type { Claim } from '../../../src/pull/claim.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { claimRows, runOut } from '../../support/rows/claims.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred } from '../../support/wait.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1)
const idsOf = (messages: readonly Message[] = []) => messages.map(({ id }) => id).toSorted(byNumber)
const payloadsOf = (claim: Claim | undefined) => claim?.messages.map(({ payload }) => payload)
const byNumber = (a: string, b: string) => Number(a) - Number(b)

describe('a claim', () => {
  test('of 15 of 20 messages leaves 5, and gives back what is not settled', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, numbers(20))
    const claim = await mustClaim(sluice, queue, { limit: 15 })
    expect(payloadsOf(claim)).toEqual(numbers(15))
    expect(claim.messages[0]).toMatchObject({
      id: ids[0],
      queue,
      attempt: 1,
      headers: {},
      priority: 5,
      maxAttempts: null,
      tenant: null,
      dedupeKey: null,
    })
    expect(await counts(sluice, queue)).toEqual({ claimed: 15, free: 5, total: 20 })

    const found = await sluice.operate.claims.get(queue, claim.id)
    expect(idsOf(found.messages)).toEqual(ids.slice(0, 15))
    const before = claim.expiresAt.getTime()
    expect((await claim.renew('10m')).getTime()).toBeGreaterThan(before + 500_000)
    expect(await claim.settle(claim.messages.slice(0, 3))).toEqual({ settled: ids.slice(0, 3), refused: [] })
    expect(await claim.settle(ids[3]!, retryLater({ after: '1h', error: 'busy' }))).toMatchObject({ settled: [ids[3]] })
    expect(await claim.settle(ids[4]!, snooze({ after: '1h' }))).toMatchObject({ settled: [ids[4]] })
    expect(await claim.settle(ids[5]!, deadLetter('bad'))).toMatchObject({ settled: [ids[5]] })
    expect(idsOf((await sluice.operate.claims.get(queue, claim.id)).messages)).toEqual(ids.slice(6, 15))
    expect(await claim.release()).toBe(9)
    expect(await counts(sluice, queue)).toEqual({ claimed: 0, free: 14, total: 16 })

    const again = await mustClaim(sluice, queue, { limit: 20 })
    expect(idsOf(again.messages)).toEqual(ids.slice(6))
    expect(again.messages.every(({ attempt }) => attempt === 1)).toBe(true)
  })

  test('is one of five, and the sixth gets the one message that they left', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, numbers(11))
    const claims = await Promise.all(numbers(5).map(() => mustClaim(sluice, queue, { limit: 2 })))
    const sixth = await mustClaim(sluice, queue, { limit: 2 })
    expect(sixth.messages).toHaveLength(1)
    expect(await sluice.claim(queue)).toBeUndefined()
    const all = [...claims, sixth].flatMap(({ messages }) => messages)
    expect(idsOf(all)).toEqual(ids)
    expect(await sluice.operate.claims.list({ queue })).toMatchObject(
      [2, 2, 2, 2, 2, 1].map((messages) => ({ queue, messages, leaseMs: 60_000 })),
    )
  })

  test('leaves no row where there is nothing to claim, and none when all is settled', async ({
    database,
    sluice,
    queue,
  }) => {
    expect(await sluice.claim(queue)).toBeUndefined()
    await put(sluice, queue, [1])
    const claim = await mustClaim(sluice, queue)
    await claim.settle(claim.messages)
    expect(await claimRows(database, queue)).toEqual([])
    await expect(claim.renew()).rejects.toMatchObject({ code: 'CLAIM_UNKNOWN' })
    expect(await claim.release()).toBe(0)
  })

  test('gives back what is left at the end of its block', async ({ sluice, queue }) => {
    const [first, second] = await put(sluice, queue, [1, 2])
    {
      await using claim = await sluice.claim(queue)
      await claim?.settle(first!)
    }
    expect(idsOf((await mustClaim(sluice, queue)).messages)).toEqual([second])
  })

  test('gives its messages back to their places', async ({ sluice, queue }) => {
    await put(sluice, queue, ['a', 'b', 'c'])
    const claim = await mustClaim(sluice, queue, { limit: 2 })
    await claim.renew()
    await claim.release()
    expect(payloadsOf(await sluice.claim(queue))).toEqual(['a', 'b', 'c'])
  })

  test('takes the lowest priority number first, and what is due first', async ({ sluice, queue }) => {
    await put(sluice, queue, ['c', 'd'])
    await put(sluice, queue, ['later'], { delay: '1h' })
    await put(sluice, queue, ['a', 'b'], { priority: 1 })
    expect(payloadsOf(await sluice.claim(queue, { limit: 3 }))).toEqual(['a', 'b', 'c'])
  })

  test('says of each message why it cannot be settled', async ({ sluice, queue }) => {
    const [mine, done, theirs, free] = await put(sluice, queue, numbers(4))
    const claim = await mustClaim(sluice, queue, { limit: 2 })
    await mustClaim(sluice, queue, { limit: 1 })
    await claim.settle(done!)
    expect(await claim.settle([done!, theirs!, free!, mine!, '99999999'])).toEqual({
      settled: [mine],
      refused: [
        { id: done, reason: 'gone' },
        { id: theirs, reason: 'claimed_by_other' },
        { id: free, reason: 'not_claimed' },
        { id: '99999999', reason: 'gone' },
      ],
    })
  })

  test('is settled, renewed and released by its number in another process', async ({ database, sluice, queue }) => {
    const ids = await put(sluice, queue, numbers(3))
    const { id } = await mustClaim(sluice, queue)
    const { claims } = startTestSluice(database).operate
    expect(await claims.settle(queue, id, ids.slice(0, 1))).toEqual({ settled: ids.slice(0, 1), refused: [] })
    expect((await claims.renew(queue, id, '1h')).getTime()).toBeGreaterThan(Date.now() + 3_000_000)
    expect(await claims.release(queue, id)).toBe(2)
    expect(await claims.release(queue, id)).toBe(0)
    await expect(claims.get(queue, id)).rejects.toMatchObject({ code: 'CLAIM_UNKNOWN' })
  })

  test('that is over is released without waiting for a batch that has its messages', async ({
    database,
    sluice,
    queue,
  }) => {
    await put(sluice, queue, [1])
    const claim = await mustClaim(sluice, queue)
    await runOut(database, queue, claim.id)
    const [begun, go] = [deferred(), deferred()]
    const handled = sluice
      .pipeline(queue)
      .handle(async () => {
        begun.resolve()
        await go.promise
      })
      .runOnce()
    await begun.promise
    expect(await claim.release()).toBe(0)
    go.resolve()
    expect((await handled).counts.acked).toBe(1)
  })

  test('is over when its time is up, for each operation', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    const claim = await mustClaim(sluice, queue)
    await runOut(database, queue, claim.id)
    const over = { code: 'CLAIM_OVER' }
    await expect(claim.renew()).rejects.toMatchObject(over)
    await expect(claim.settle(claim.messages)).rejects.toMatchObject(over)
    await expect(sluice.operate.claims.get(queue, claim.id)).rejects.toMatchObject(over)
    expect(await claim.release()).toBe(0)
    expect(await sluice.operate.claims.list({ queue })).toEqual([])
    expect(await counts(sluice, queue)).toEqual({ claimed: 0, free: 1, total: 1 })
  })

  test('that runs out is a failed attempt, and the last one buries the message', async ({
    database,
    sluice,
    queue,
  }) => {
    const [id] = await put(sluice, queue, [1])
    const first = await mustClaim(sluice, queue, { maxAttempts: 2 })
    await runOut(database, queue, first.id)
    const second = await mustClaim(sluice, queue, { maxAttempts: 2 })
    expect(second.messages).toMatchObject([{ id, attempt: 2 }])
    const error = `Claim ${first.id} ran out before the message was settled`
    expect(await sluice.operate.messages.get(queue, id!)).toMatchObject({
      attempt: 1,
      lastError: error,
      claim: second.id,
    })
    await runOut(database, queue, second.id)
    expect(await sluice.claim(queue, { maxAttempts: 2 })).toBeUndefined()
    expect(await sluice.operate.deadLetters.get(queue, id!)).toMatchObject({
      attempt: 2,
      reason: 'failed 2 of 2 attempts',
      error: `Claim ${second.id} ran out before the message was settled`,
    })
  })

  test('goes on to others when all that it finds has no attempt left', async ({ database, sluice, queue }) => {
    const ids = await put(sluice, queue, numbers(4), { maxAttempts: 1 })
    const claim = await mustClaim(sluice, queue, { limit: 3 })
    await runOut(database, queue, claim.id)
    // Those that ran out are due after the one that nobody has claimed.
    expect(idsOf((await mustClaim(sluice, queue, { limit: 1 })).messages)).toEqual([ids[3]])
    await put(sluice, queue, ['more'])
    expect(payloadsOf(await sluice.claim(queue, { limit: 2 }))).toEqual(['more'])
    expect((await sluice.operate.deadLetters.summarise({ queue })).total).toBe(3)
  })

  test('retries as a pipeline does by default, and buries at the last attempt', async ({ sluice, queue }) => {
    const [id] = await put(sluice, queue, [1], { maxAttempts: 2 })
    const claim = await mustClaim(sluice, queue)
    await claim.settle(id!, retryLater({ error: new Error('busy') }))
    const status = await sluice.operate.messages.get(queue, id!)
    expect(status).toMatchObject({ state: 'retrying', attempt: 1, lastError: 'Error: busy' })
    expect(status?.dueInMs).toBeLessThanOrEqual(1_000)
    const again = await mustClaim(sluice, queue, { wait: '1m' })
    expect(await again.settle(id!, retryLater({ error: 'busy' }))).toEqual({ settled: [id], refused: [] })
    expect(await sluice.operate.deadLetters.get(queue, id!)).toMatchObject({
      attempt: 2,
      reason: 'failed 2 of 2 attempts',
    })
  })

  test('of a message whose worker vanished from its lease leaves evidence, which counts as an attempt', async ({
    database,
    sluice,
    queue,
  }) => {
    const [id] = await put(sluice, queue, [1])
    await database.sql(`UPDATE sluice.message SET lease = 7::bigint << 32 | 9 WHERE queue = $1`, [queue])
    const claim = await mustClaim(sluice, queue)
    const crashes = () => database.sql('SELECT worker_id, batch_id, kind FROM sluice.crash WHERE queue = $1', [queue])
    expect(await crashes()).toEqual([{ worker_id: 7, batch_id: '9', kind: 'hung' }])
    expect(claim.messages).toMatchObject([{ id, attempt: 2 }])
    await claim.settle(id!)
    expect(await crashes()).toEqual([])
  })
})

describe('claims of messages with ordering keys', () => {
  test('take one of each key in order, and the next when it is settled', async ({ sluice, queue }) => {
    const a = await put(sluice, queue, ['a1', 'a2', 'a3'], { orderingKey: 'a' })
    await put(sluice, queue, ['b1', 'b2'], { orderingKey: 'b' })
    const first = await mustClaim(sluice, queue)
    expect(payloadsOf(first)?.toSorted()).toEqual(['a1', 'b1'])
    expect(await sluice.claim(queue)).toBeUndefined()
    await first.settle(a[0]!)
    expect(payloadsOf(await sluice.claim(queue))).toEqual(['a2'])
    await first.release()
    expect(payloadsOf(await sluice.claim(queue))).toEqual(['b1'])
  })

  test('keep them from pipelines of both modes until they are settled, and a retry too', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, [1, 2], { orderingKey: 'a' })
    const claim = await mustClaim(sluice, queue)
    const seen: unknown[] = []
    const handle = ({ payload }: Message) => void seen.push(payload)
    const runs = async () => {
      await sluice.pipeline(queue).handle(handle).runOnce()
      await sluice.pipeline(queue, { mode: 'leased' }).handle(handle).runOnce()
    }
    await runs()
    await claim.settle(ids[0]!, retryLater({ after: '1h' }))
    await runs()
    expect(seen).toEqual([])
    expect(await sluice.claim(queue)).toBeUndefined()
  })

  test('give way to a key that a failed message of a pipeline holds', async ({ sluice, queue }) => {
    await put(sluice, queue, ['fails', 'waits'], { orderingKey: 'a' })
    const retry = { kind: 'fixed', delay: '1h' } as const
    await sluice
      .pipeline(queue, { retry })
      .handle(() => retryLater())
      .runOnce()
    expect(await sluice.claim(queue)).toBeUndefined()
  })

  test('are not all behind a key with a backlog', async ({ sluice, queue }) => {
    await put(sluice, queue, numbers(2_500), { orderingKey: 'hot' })
    await mustClaim(sluice, queue)
    const messages = numbers(300).map((n) => ({ payload: n, orderingKey: `key ${n}` }))
    const others = await sluice.enqueueMany(sluice.ownTransaction, queue, messages)
    const seen: string[] = []
    for (
      let claim = await sluice.claim(queue, { limit: 100 });
      claim;
      claim = await sluice.claim(queue, { limit: 100 })
    ) {
      seen.push(...idsOf(claim.messages))
      await claim.settle(claim.messages)
    }
    expect(seen.toSorted(byNumber)).toEqual(others)
  })
})

describe('pop', () => {
  test('removes messages and returns them', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, numbers(5))
    expect(await sluice.pop(queue)).toMatchObject([{ id: ids[0], payload: 1, queue, attempt: 1 }])
    expect(idsOf(await sluice.pop(queue, { limit: 3 }))).toEqual(ids.slice(1, 4))
    expect(idsOf(await sluice.pop(queue, { limit: 3 }))).toEqual(ids.slice(4))
    expect(await sluice.pop(queue)).toEqual([])
  })

  test('leaves alone what is claimed, and keeps the order of keys', async ({ sluice, queue }) => {
    await put(sluice, queue, [1, 2, 3], { orderingKey: 'a' })
    expect((await sluice.pop(queue, { limit: 5 })).map(({ payload }) => payload)).toEqual([1])
    await mustClaim(sluice, queue)
    expect(await sluice.pop(queue, { limit: 5 })).toEqual([])
  })
})

async function mustClaim(sluice: Sluice, queue: string, options?: Parameters<Sluice['claim']>[1]): Promise<Claim> {
  const claim = await sluice.claim(queue, options)
  if (claim === undefined) throw new Error(`expected something to claim in ${queue}`)
  return claim
}

async function counts(sluice: Sluice, queue: string) {
  const [status] = await sluice.operate.queues.list({ queue })
  const { inFlight = 0, ready = 0, scheduled = 0, retrying = 0 } = status ?? {}
  return { claimed: inFlight, free: ready, total: inFlight + ready + scheduled + retrying }
}
