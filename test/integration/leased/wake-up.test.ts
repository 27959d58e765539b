import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/index.ts'
import { NO_POLL } from '../../support/rows/flag.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('P5: with a message of its key waiting behind it, and no poll,', () => {
  for (const [what, outcome] of [
    ['is to be tried again', () => retryLater({ after: '100ms' })],
    ['was put off', () => snooze({ after: '100ms' })],
  ] as const) {
    test(`a leased message that ${what} is handled when it falls due`, async ({ queue, database }) => {
      const sluice = startTestSluice(database, { pollInterval: NO_POLL })
      await put(sluice, queue, [1, 2], { orderingKey: 'key' })
      const handled: unknown[] = []
      const pipeline = sluice
        .pipeline(queue, { mode: 'leased' })
        .handle(({ payload }) => {
          handled.push(payload)
          return handled.length === 1 ? outcome() : undefined
        })
        .start()
      await waitFor(() => handled.length === 3, { what: 'both messages' })
      expect(handled).toEqual([1, 1, 2])
      await pipeline.drain()
    })
  }

  test('a message is handled when the lease of a worker ends that nobody has seen die', async ({ queue, database }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    await put(sluice, queue, [1, 2], { orderingKey: 'key' })
    await database.sql(
      `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() + interval '500 ms'
       WHERE queue = $1 AND payload = '1'`,
      [queue],
    )
    const handled: unknown[] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await waitFor(() => handled.length === 2, { what: 'both messages' })
    expect(handled).toEqual([1, 2])
    await pipeline.drain()
  })
})
