import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/message.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const RETRY = { kind: 'fixed', delay: '1h' } as const

describe.for(['transactional', 'leased'] as const)('the statistics of a pipeline in %s mode', (mode) => {
  const options = { mode: mode as 'transactional', retry: RETRY }

  test('count what became of messages, how long they waited, and how long their handlers took', async ({
    sluice,
    queue,
  }) => {
    await put(sluice, queue, ['ack', 'ack', 'fail', 'later', 'snooze'])
    await put(sluice, queue, ['die'], { maxAttempts: 1 })
    const running = sluice
      .pipeline(queue, options)
      .handle(async ({ payload }) => {
        await new Promise((resolve) => setTimeout(resolve, 10))
        if (payload === 'fail' || payload === 'die') raise()
        if (payload === 'later') return retryLater({ after: '1h' })
        if (payload === 'snooze') return snooze({ after: '1h' })
        return undefined
      })
      .start()
    await waitFor(() => Object.values(countsOf(running.statistics())).reduce((sum, count) => sum + count) === 6, {
      what: 'six settled messages',
    })
    const statistics = running.statistics()
    expect(countsOf(statistics)).toEqual({ acked: 2, retried: 2, snoozed: 1, dead: 1 })
    expect(statistics.waiting?.count).toBe(6)
    expect(statistics.handling?.count).toBe(6)
    expect(statistics.handling?.p50Ms).toBeGreaterThan(8)
    expect(sluice.statistics()[queue]).toEqual(statistics)
  })

  test('wait from when a message falls due, not from its enqueue', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1])
    await database.sql(
      `UPDATE sluice.message SET enqueued_at = now() - interval '2 hours', due_at = now() - interval '1 hour' WHERE queue = '${queue}'`,
    )
    await sluice
      .pipeline(queue, options)
      .handle(() => undefined)
      .runOnce()
    const { waiting } = sluice.statistics()[queue]!
    expect(waiting!.maxMs).toBeGreaterThanOrEqual(3_600_000)
    expect(waiting!.maxMs).toBeLessThan(3_660_000)
  })
})

test('the view has what each worker has done, as of its heartbeat', async ({ database, queue }) => {
  const sluice = startTestSluice(database, { name: 'metered', pollInterval: '100ms' })
  await put(sluice, queue, [1, 2, 3])
  sluice
    .pipeline(queue)
    .handle(() => undefined)
    .start()
  const [row] = await waitFor(
    async () => {
      const rows = await database.sql<Record<string, unknown>>(
        `SELECT worker, acked::integer, retried::integer, dead::integer, waiting_p99 > interval '0' AS waited,
                handling_max >= handling_p50 AS ordered
         FROM sluice.worker_statistics WHERE queue = '${queue}' AND acked = 3`,
      )
      return rows.length > 0 && rows
    },
    { what: 'the heartbeat' },
  )
  expect(row).toEqual({ worker: 'metered', acked: 3, retried: 0, dead: 0, waited: true, ordered: true })
  const [other] = await database.sql(
    `SELECT count(*)::integer AS count FROM sluice.worker_statistics WHERE queue = 'other'`,
  )
  expect(other).toEqual({ count: 0 })
})

test('nothing is known before a process consumes', ({ sluice }) => {
  expect(sluice.statistics()).toEqual({})
})

function countsOf({ acked, retried, snoozed, dead }: Record<'acked' | 'retried' | 'snoozed' | 'dead', number>) {
  return { acked, retried, snoozed, dead }
}
