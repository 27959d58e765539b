import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/index.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { sleepOn } from '../../support/rows/sleeper.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const AT_ONCE = [
  [
    'has failed under a policy of no delay',
    () => {
      throw new Error('on purpose')
    },
  ],
  ['is to be retried without a delay', () => retryLater({ after: 0 })],
  ['is snoozed without a delay', () => snooze({ after: 0 })],
] as const

describe.each(['transactional', 'leased'] as const)('P5: in %s mode', (mode) => {
  // With room for more it would hold the flag itself.
  const options = { mode, concurrency: 1, retry: { kind: 'fixed', delay: 0 } } as never

  test.for(AT_ONCE)('a message that %s wakes those who sleep', async ([, outcome], { queue, database }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const begun = Promise.withResolvers<void>()
    const slept = Promise.withResolvers<void>()
    await put(sluice, queue, [1])
    const running = sluice
      .pipeline(queue, options)
      .handle(async () => {
        begun.resolve()
        await slept.promise
        return outcome()
      })
      .start()
    await begun.promise
    const sleeper = await sleepOn(database, queue)
    const drained = running.drain()
    slept.resolve()
    await drained
    expect(await sleeper.wakeUps()).toBe(1)
  })

  test('one that is to be retried later, or that succeeds, wakes nobody', async ({ queue, database }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    await put(sluice, queue, [1, 2])
    const sleeper = await sleepOn(database, queue)
    const settled = await sluice
      .pipeline(queue, options)
      .handle(({ payload }) => (payload === 1 ? retryLater({ after: '1m' }) : undefined))
      .runOnce()
    expect(settled).toHaveLength(2)
    expect(await sleeper.wakeUps()).toBe(0)
  })
})

test('P5: what a leased worker gives back wakes those who sleep', async ({ queue, database }) => {
  const sluice = startTestSluice(database, { pollInterval: NO_POLL })
  const begun = Promise.withResolvers<void>()
  await put(sluice, queue, [1])
  const running = sluice
    .pipeline(queue, { mode: 'leased', concurrency: 1 })
    .handle(async (_, { signal }) => {
      begun.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      signal.throwIfAborted()
    })
    .start()
  await begun.promise
  const sleeper = await sleepOn(database, queue)
  await running.stop()
  expect(await sleeper.wakeUps()).toBe(1)
})

describe('P5: an enqueue of a message that is due', () => {
  test.for([
    ['before the next poll', '900ms', 1],
    ['after it', '2s', 0],
  ] as const)('%s wakes those who sleep %s later: %s times', async ([, delay, times], { queue, database }) => {
    const sluice = startTestSluice(database)
    const sleeper = await sleepOn(database, queue)
    await put(sluice, queue, [1, 2], { delay })
    expect(await sleeper.wakeUps()).toBe(times)
  })

  test('soon is begun by a worker that sleeps', async ({ queue, database }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const handled = Promise.withResolvers<void>()
    sluice
      .pipeline(queue)
      .handle(() => handled.resolve())
      .start()
    await raisedFlag(database, queue)
    await put(sluice, queue, [1], { delay: '200ms' })
    await handled.promise
  })

  test('an update of such a message wakes those who sleep, one that puts it off wakes nobody', async ({
    queue,
    database,
  }) => {
    const sluice = startTestSluice(database)
    const enqueue = (onDuplicate: 'update' | 'debounce', delay: string) =>
      sluice.enqueue(sluice.ownTransaction, queue, 1, { delay: delay as '1m', dedupe: { key: 'key', onDuplicate } })
    await enqueue('update', '1m')
    const sleeper = await sleepOn(database, queue)
    await enqueue('debounce', '2m')
    expect(await sleeper.wakeUps()).toBe(0)
    await enqueue('update', '1m')
    expect(await sleeper.wakeUps()).toBe(1)
  })
})
