import { expect } from 'vitest'
import { untilEmpty } from '../support/rows.ts'
import { put, test } from '../support/sluice.ts'

test('a pipeline that is never idle waits after its fifth lost connection no longer than after its first', async ({
  database,
  queue,
  sluice,
  log,
}) => {
  const ids = await put(
    sluice,
    queue,
    Array.from({ length: 50 }, (_, n) => n),
  )
  const breaking = new Set(ids.filter((_, at) => at % 10 === 5))
  sluice
    .pipeline(queue, { batchSize: 1 })
    .handle(async ({ id }, { tx }) => {
      if (breaking.delete(id)) await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
    })
    .subscribe()
  await untilEmpty(database, queue)
  const waits = log.of('claim.failed').map(({ retryInMs }) => retryInMs)
  expect(waits).toHaveLength(5)
  expect(Math.max(...waits)).toBeLessThanOrEqual(100)
})
