import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/message.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { raise, type Step, Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const A = { orderingKey: 'a' } as const

/** The ways in which a handler fails. */
const failures: readonly ((step: Step<unknown>) => void)[] = [
  (step) => step.end(retryLater({ error: 'not today' })),
  (step) => step.endBy(raise),
  (step) => step.end('garbage'),
  (step) => step.endBy(() => step.context.tx.query('SAVEPOINT nested').then(raise)),
  // A savepoint of one's own may be rolled back. What fails the message is an error that it ignores.
  (step) => step.endBy(() => step.context.tx.query('SELECT 1 / 0').catch(() => undefined)),
]

describe('a pipeline with ordered: true', () => {
  test('keeps the order of the whole queue through failures and snoozes, whatever its concurrency', async ({
    database,
    sluice,
    queue,
  }) => {
    const handled: unknown[] = []
    await put(sluice, queue, [1, 2, 3, 4, 5, 6, 7, 8])
    sluice
      .pipeline(queue, { ordered: true, concurrency: 4, batchSize: 3, retry: { kind: 'fixed', delay: 20 } })
      .handle(({ payload, attempt }) => {
        if ((payload === 2 || payload === 6) && attempt < 3) raise()
        if (payload === 4 && !handled.includes('snoozed')) {
          handled.push('snoozed')
          return snooze({ after: 20 })
        }
        handled.push(payload)
        return undefined
      })
      .subscribe()
    await untilEmpty(database, queue)
    expect(handled).toEqual([1, 2, 3, 'snoozed', 4, 5, 6, 7, 8])
  })

  test('still keeps keys apart from those that have none', async ({ database, sluice, queue }) => {
    const handled: unknown[] = []
    const [failed] = await put(sluice, queue, [1, 2])
    await put(sluice, queue, ['a1', 'a2'], A)
    sluice
      .pipeline(queue, { ordered: true, retry: { kind: 'fixed', delay: '1h' } })
      .handle(({ payload, attempt }) => {
        if (payload === 1 && attempt === 1) raise()
        handled.push(payload)
      })
      .subscribe()
    await waitFor(async () => (await payloadsOf(database, queue)).length === 2, {
      what: 'those of the key to be removed',
    })
    await sluice.operate.messages.runNow(queue, failed!)
    await untilEmpty(database, queue)
    expect(handled).toEqual(['a1', 'a2', 1, 2])
  })

  test('delivers nothing before a failed message has succeeded, whose backoff a forced look does not shorten', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const steps = new Steps()
    const options = { ordered: true, batchSize: 1, retry: { kind: 'fixed', delay: 150 } } as const
    const subscription = sluice.pipeline(queue, options).handle(steps.handle).subscribe()
    await put(sluice, queue, ['first', 'second'])
    for (const [at, fail] of failures.entries()) {
      fail(await steps.next())
      await log.first('message.failed', ({ attempt }) => attempt === at + 1)
      subscription.poke()
    }
    await steps.endNext()
    await steps.endNext()
    await untilEmpty(database, queue)
    expect(steps.payloads).toEqual([...failures.map(() => 'first'), 'first', 'second'])
    expectWaits(
      steps.taken.slice(0, -1),
      failures.map(() => 150),
    )
    expect(log.of('message.failed').map(({ attempt, retryInMs }) => [attempt, retryInMs])).toEqual(
      failures.map((_, at) => [at + 1, 150]),
    )
  })

  test('a message that arrives during the backoff waits for the first one: order over latency', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const steps = new Steps()
    sluice
      .pipeline(queue, { ordered: true, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } })
      .handle(steps.handle)
      .subscribe()
    const [id] = await put(sluice, queue, ['first'])
    const failing = await steps.next()
    failing.endBy(raise)
    await log.first('message.failed')
    await put(sluice, queue, ['second'])
    expect(await database.sql('SELECT held_by FROM sluice.messages WHERE queue = $1 ORDER BY id', [queue])).toEqual([
      { held_by: null },
      { held_by: id },
    ])
    await sluice.operate.messages.runNow(queue, id!)
    await steps.endNext()
    await steps.endNext()
    await untilEmpty(database, queue)
    expect(steps.payloads).toEqual(['first', 'first', 'second'])
  })
})

/** That each call came at least so many milliseconds after the one before it. */
function expectWaits(calls: readonly Step<unknown>[], waits: readonly number[]): void {
  expect(calls).toHaveLength(waits.length + 1)
  for (const [at, wait] of waits.entries()) {
    const between = calls[at + 1]!.at.getTime() - calls[at]!.at.getTime()
    expect(between, `before call ${at + 2}`).toBeGreaterThanOrEqual(wait)
  }
}
