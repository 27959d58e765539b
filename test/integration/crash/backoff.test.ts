import { expect } from 'vitest'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'

// The control connection goes too, so the loss is held against nobody, and the slot waits before it looks again.

test('a pipeline that is never idle waits after its fifth lost batch no longer than after its first', async ({
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
      if (breaking.delete(id)) await tx.query(END_ALL)
    })
    .subscribe()
  await untilEmpty(database, queue)
  const waits = log.of('batch.released').flatMap(({ retryInMs = [] }) => retryInMs)
  expect(waits.length).toBeGreaterThan(1)
  // Not reset, the fifth wait is 800 ms at least. Two losses in a row are one after the other while the connections come back.
  expect(Math.max(...waits)).toBeLessThanOrEqual(400)
})

/** The control connection first, the handler's own last. */
const END_ALL = `
SELECT pg_terminate_backend(pid) FROM (
  SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND application_name IN ('sluice', 'sluice control')
  ORDER BY application_name DESC, pid = pg_backend_pid()
) ended`
