import { describe, expect } from 'vitest'
import { retryLater } from '../../../src/message.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'

const called: unknown[][] = []
const test = base.extend('sluice', ({ database }) =>
  startTestSluice(database, {
    retryPolicies: {
      nightly: (attempt, error) => {
        called.push([attempt, error])
        return `${attempt * 10}h`
      },
      gentle: { kind: 'fixed', delay: '3h' },
      broken: () => {
        throw new Error('no such table')
      },
    },
  }),
)

/** In how many hours, and with which number of failed attempts, messages are tried again. */
async function waits(database: TestDatabase, queue: string): Promise<number[]> {
  const rows = await database.sql<{ hours: number }>(
    `SELECT round(extract(epoch FROM due_at - failed_at) / 3600)::integer AS hours FROM sluice.message WHERE queue = $1 ORDER BY id`,
    [queue],
  )
  return rows.map(({ hours }) => hours)
}

describe('a retry of a claimed message goes by a policy that is a function', () => {
  test('of its own, with the attempt and the error, while others go by theirs', async ({ database, sluice, queue }) => {
    called.length = 0
    const ids = [
      ...(await put(sluice, queue, [1], { retryPolicy: 'nightly' })),
      ...(await put(sluice, queue, [2], { retryPolicy: 'gentle' })),
      ...(await put(sluice, queue, [3])),
    ]
    await database.sql('UPDATE sluice.message SET attempt = 1 WHERE queue = $1 AND id = $2', [queue, ids[0]])
    const claim = await sluice.claim(queue)
    const given = [...ids, '999'].reverse()
    const settlement = await claim?.settle(given, retryLater({ error: 'closed' }))
    expect(settlement).toEqual({ settled: given.slice(1), refused: [{ id: '999', reason: 'gone' }] })
    expect(called).toEqual([[2, 'closed']])
    expect(await waits(database, queue)).toEqual([20, 3, 0])
  })

  test('of its queue, also where the claim is settled by its number', async ({ database, sluice, queue }) => {
    await sluice.operate.queues.settings.set(queue, { retry: 'nightly' })
    await put(sluice, queue, [1])
    await put(startTestSluice(database), queue, [2], { retryPolicy: 'known to others' })
    const claim = await sluice.claim(queue)
    await sluice.operate.claims.settle(
      queue,
      claim!.id,
      claim!.messages.map(({ id }) => id),
      retryLater(),
    )
    expect(await waits(database, queue)).toEqual([10, 10])
  })

  test('but not sooner than it is told, as those by other policies', async ({ database, sluice, queue }) => {
    const ids = [
      ...(await put(sluice, queue, [1], { retryPolicy: 'nightly' })),
      ...(await put(sluice, queue, [2], { retryPolicy: 'gentle' })),
      ...(await put(sluice, queue, [3])),
    ]
    const settle = async (atLeast: string) => {
      await database.sql('UPDATE sluice.message SET due_at = clock_timestamp(), attempt = 0 WHERE queue = $1', [queue])
      const claim = await sluice.claim(queue)
      expect(await claim?.settle(ids, retryLater({ atLeast: atLeast as '5h' }))).toMatchObject({ settled: ids })
      return waits(database, queue)
    }
    expect(await settle('5h')).toEqual([10, 5, 5])
    expect(await settle('12h')).toEqual([12, 12, 12])
  })

  test('unless the time is given, or the function fails', async ({ database, sluice, queue, log }) => {
    called.length = 0
    await put(sluice, queue, [1], { retryPolicy: 'nightly' })
    const [broken] = await put(sluice, queue, [2], { retryPolicy: 'broken' })
    const claim = await sluice.claim(queue)
    const [first, second] = claim!.messages
    await claim?.settle(first!, retryLater({ after: '5h' }))
    await claim?.settle(second!, retryLater())
    expect(called).toEqual([])
    expect(await waits(database, queue)).toEqual([5, 0])
    expect(log.of('retryPolicy.failed')).toMatchObject([{ queue, id: broken, error: { message: 'no such table' } }])
  })
})
