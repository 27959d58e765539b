import { describe, expect } from 'vitest'
import { retryLater } from '../../../src/message.ts'
import type { Claim } from '../../../src/pull/claim.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { recordStatements } from '../../support/plans/statements.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Only a wake-up can be in time: the poll is a minute away. */
const test = base.extend('sluice', ({ database }) => startTestSluice(database, { pollInterval: '1m' }))

describe('a claim that waits', () => {
  test('ends with a message that is enqueued, and needs no worker', async ({ database, sluice, queue }) => {
    const claimed = await waiting(database, sluice, queue)
    expect(await database.sql('SELECT FROM sluice.worker w WHERE $1 = ANY (w.queues)', [queue])).toEqual([])
    await put(startTestSluice(database), queue, ['hello'])
    expect((await claimed())?.messages).toMatchObject([{ payload: 'hello' }])
  })

  test('ends when somebody releases a message, retries it at once, or settles the one before it', async ({
    database,
    sluice,
    queue,
  }) => {
    const other = startTestSluice(database)
    const ids = await put(other, queue, [1, 2], { orderingKey: 'a' })
    const first = await other.claim(queue)
    const released = await waiting(database, sluice, queue)
    await first?.release()
    const second = await released()
    expect(second?.messages).toMatchObject([{ id: ids[0] }])

    const retried = await waiting(database, sluice, queue)
    await other.operate.claims.settle(queue, second?.id ?? '', ids, retryLater({ after: 0 }))
    const third = await retried()
    expect(third?.messages).toMatchObject([{ id: ids[0], attempt: 2 }])

    const next = await waiting(database, sluice, queue)
    await other.operate.claims.settle(queue, third?.id ?? '', ids)
    expect((await next())?.messages).toMatchObject([{ id: ids[1] }])
  })

  test.for<[string, string | null]>([
    ['its delay', '0'],
    ['the policy of its queue', null],
  ])('ends when a message is tried again at once, by %s', async ([, delay], { database, sluice, queue }) => {
    const other = startTestSluice(database)
    await other.operate.queues.settings.set(queue, { retry: { kind: 'fixed', delay: 0 } })
    await put(other, queue, [1])
    const first = await other.claim(queue)
    const second = await waiting(database, sluice, queue)
    const settle = `SELECT FROM sluice.claim_settle($1, $2, outcome => 'retry', delay => $3)`
    await database.sql(settle, [queue, first?.id, delay])
    expect((await second())?.messages).toMatchObject([{ payload: 1, attempt: 2 }])
  })

  test('ends by the poll when a message falls due', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: '100ms' })
    await put(sluice, queue, ['later'], { delay: '300ms' })
    expect((await sluice.claim(queue, { wait: '1m' }))?.messages).toMatchObject([{ payload: 'later' }])
  })

  test('ends without one when its time is up', async ({ sluice, queue }) => {
    expect(await sluice.claim(queue, { wait: '50ms' })).toBeUndefined()
  })

  test('rejects with the reason of its signal, and with STOPPED when the Sluice stops', async ({
    database,
    sluice,
    queue,
  }) => {
    const controller = new AbortController()
    const aborted = sluice.claim(queue, { wait: '1m', signal: controller.signal })
    const stopped = await waiting(database, sluice, queue)
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(aborted).rejects.toBe(reason)
    await sluice.stop()
    await expect(stopped()).rejects.toMatchObject({ code: 'STOPPED' })
    await expect(sluice.claim(queue)).rejects.toMatchObject({ code: 'STOPPED' })
  })

  test('is one of many, who make one more claim than there are messages', async ({ database, sluice, queue }) => {
    const sent = recordStatements()
    const takes = () => sent.filter(({ text }) => text.includes('sluice.claim(')).length
    const claims = Array.from({ length: 20 }, () => sluice.claim(queue, { limit: 1, wait: '1m' }))
    await raisedFlag(database, queue)
    // Each looks once by itself, the line once, and once more with the flag raised.
    await waitFor(() => takes() >= 22, { what: 'all of them to have looked' })
    const before = takes()
    await put(startTestSluice(database), queue, [1, 2])
    const found: Claim[] = []
    for (const claim of claims) void claim.then((one) => void (one && found.push(one))).catch(() => undefined)
    await waitFor(() => found.length === 2 && takes() >= before + 3, { what: 'the next in line to find nothing' })
    await sluice.stop()
    await Promise.allSettled(claims)
    expect(found.flatMap(({ messages }) => messages.map(({ payload }) => payload))).toEqual([1, 2])
    // The flag that is raised again asks for one more.
    expect(takes() - before).toBeLessThanOrEqual(5)
  })
})

/** A claim that waits, once the flag of its queue is raised. It is given as a function, so that nobody awaits it here. */
async function waiting(database: TestDatabase, sluice: Sluice, queue: string) {
  const claim = sluice.claim(queue, { wait: '1m' })
  claim.catch(() => undefined)
  await raisedFlag(database, queue)
  return () => claim
}
