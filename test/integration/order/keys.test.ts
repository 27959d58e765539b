import { describe, expect } from 'vitest'
import { deadLetter, retryLater, snooze } from '../../../src/message.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const A = { orderingKey: 'a' } as const
const B = { orderingKey: 'b' } as const
const SOON = { retry: { kind: 'fixed', delay: 50 } } as const

describe('messages with an ordering key', () => {
  test('when the first of a batch fails, the others of its key are not run before it has succeeded', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const steps = new Steps()
    await put(sluice, queue, [1, 2, 3], A)
    sluice.pipeline(queue, SOON).handle(steps.handle).subscribe()
    const failing = await steps.next()
    failing.endBy(raise)
    await steps.endNext()
    await steps.endNext()
    await steps.endNext()
    await untilEmpty(database, queue)
    expect(steps.payloads).toEqual([1, 1, 2, 3])
    expect(steps.taken.map(({ context }) => context.attempt)).toEqual([1, 2, 1, 1])
    expect(log.of('batch.claimed')[0]).toMatchObject({ messages: 3 })
  })

  test('do not stop for ever when the row of their slot is lost', async ({ database, sluice, queue, log }) => {
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await put(sluice, queue, [1], A)
    await log.first('batch.committed')
    await database.sql('DELETE FROM sluice.slot WHERE queue = $1', [queue])
    await put(sluice, queue, [2], A)
    await untilEmpty(database, queue)
  })

  test('hold back only their own key when one fails', async ({ database, sluice, queue }) => {
    const handled: unknown[] = []
    const [failed] = await put(sluice, queue, ['a1'], A)
    await put(sluice, queue, ['b1'], B)
    await put(sluice, queue, ['a2'], A)
    await put(sluice, queue, ['b2'], B)
    await put(sluice, queue, ['free'])
    sluice
      .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
      .handle(({ payload, attempt }) => {
        if (payload === 'a1' && attempt === 1) raise()
        handled.push(payload)
      })
      .subscribe()
    await waitFor(async () => (await payloadsOf(database, queue)).length === 2, { what: 'the others to be removed' })
    await sluice.operate.messages.runNow(queue, failed!)
    await untilEmpty(database, queue)
    expect(new Set(handled.slice(0, 3))).toEqual(new Set(['b1', 'b2', 'free']))
    expect(handled.filter((payload) => String(payload).startsWith('b'))).toEqual(['b1', 'b2'])
    expect(handled.slice(3)).toEqual(['a1', 'a2'])
  })

  test('wait for one that is snoozed, in whichever batch they come', async ({ database, sluice, queue, log }) => {
    const steps = new Steps()
    sluice.pipeline(queue, { concurrency: 2 }).handle(steps.handle).subscribe()
    await put(sluice, queue, ['b'], B)
    await steps.endNext()
    const [snoozed] = await put(sluice, queue, [1, 2], A)
    await steps.endNext(snooze({ after: '1h' }))
    await log.first('batch.committed', (batch) => batch.snoozed === 1)
    await put(sluice, queue, [3], A)
    await put(sluice, queue, ['b'], B)
    await steps.endNext()
    await sluice.operate.messages.runNow(queue, snoozed!)
    for (let n = 1; n <= 3; n++) await steps.endNext()
    await untilEmpty(database, queue)
    expect(steps.payloads).toEqual(['b', 1, 'b', 1, 2, 3])
    expect(new Set(steps.taken.map(({ context }) => context.attempt))).toEqual(new Set([1]))
  })

  test('wait for a failed one even if a batch with another key of their slot is slow to be claimed', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    // Whatever is reckoned from the time of a claim: this one is sent half a second before the server gets to it.
    await database.sql(`
      CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.5); RETURN OLD; END$$;
      CREATE TRIGGER dawdle BEFORE DELETE ON sluice.message FOR EACH ROW WHEN (OLD.type = 'slow') EXECUTE FUNCTION dawdle()`)
    const [other] = await database.sql<{ key: string }>(
      `SELECT key FROM (SELECT 'k' || n AS key FROM generate_series(1, 10000) n) k
       WHERE hashtextextended(key COLLATE "C", 0) & 255 = hashtextextended('a' COLLATE "C", 0) & 255 LIMIT 1`,
    )
    const handled: unknown[] = []
    sluice
      .pipeline(queue, { batchSize: 1, retry: { kind: 'fixed', delay: 800 } })
      .handle(({ payload, attempt }) => {
        handled.push(payload)
        if (attempt === 1 && (payload === 1 || payload === 'other')) raise()
      })
      .subscribe()
    await put(sluice, queue, [1, 2], A)
    await log.first('message.failed')
    await sluice.enqueue(sluice.ownTransaction, queue, 'slow', { type: 'slow' })
    await put(sluice, queue, ['other'], { orderingKey: other!.key })
    await untilEmpty(database, queue)
    expect(handled.filter((payload) => typeof payload === 'number')).toEqual([1, 1, 2])
  })

  test('go on after one that is dead, at once', async ({ database, sluice, queue }) => {
    const handled: unknown[] = []
    await put(sluice, queue, [1, 2, 3], A)
    sluice
      .pipeline(queue, { retry: { kind: 'fixed', delay: 20 }, maxAttempts: 2 })
      .handle(({ payload, attempt }) => {
        handled.push([payload, attempt])
        if (payload === 1) return retryLater()
        return payload === 2 ? deadLetter('no') : undefined
      })
      .subscribe()
    await untilEmpty(database, queue)
    expect(handled).toEqual([
      [1, 1],
      [1, 2],
      [2, 1],
      [3, 1],
    ])
    expect(await database.sql('SELECT reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id', [queue])).toEqual([
      { reason: 'failed 2 of 2 attempts' },
      { reason: 'no' },
    ])
  })

  test('do not wait for one that is scheduled, until it is due', async ({ database, sluice, queue }) => {
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    const [scheduled] = await sluice.enqueueMany(sluice.ownTransaction, queue, [
      { payload: 'scheduled first', ...A, delay: '1h' },
      { payload: 1, ...A },
    ])
    await steps.endNext()
    await sluice.operate.messages.runNow(queue, scheduled!)
    const due = await steps.next()
    expect(due.payload).toBe('scheduled first')
    expect(due.at.getTime()).toBeGreaterThanOrEqual(due.message.dueAt.getTime())
    due.end()
    await untilEmpty(database, queue)
    expect(steps.payloads).toEqual([1, 'scheduled first'])
  })

  test('come again by redrive under the same id, from the first attempt', async ({ database, sluice, queue }) => {
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    const [id] = await put(sluice, queue, [1, 2], A)
    await steps.endNext(deadLetter('not yet'))
    await steps.endNext()
    await untilEmpty(database, queue)
    expect(await database.sql('SELECT sluice.redrive($1) AS n', [queue])).toEqual([{ n: '1' }])
    const again = await steps.next()
    expect(again.message).toMatchObject({ id, payload: 1, attempt: 1, orderingKey: 'a' })
    again.end()
    await untilEmpty(database, queue)
  })

  test('take turns with those that have none', async ({ database, sluice, queue }) => {
    const handled: unknown[] = []
    await put(sluice, queue, Array(40).fill('keyed'), A)
    await put(sluice, queue, Array(40).fill('free'))
    sluice
      .pipeline(queue, { batchSize: 4 })
      .handle(({ payload }) => void handled.push(payload))
      .subscribe()
    await untilEmpty(database, queue)
    for (const half of [handled.slice(0, 40), handled.slice(40)]) {
      expect(half.filter((payload) => payload === 'keyed').length).toBeGreaterThanOrEqual(12)
    }
    expect(handled).toHaveLength(80)
  })
})
