import { expect } from 'vitest'
import { WireLog } from '../../support/plans/wire-log.ts'
import { startTestSluice, test } from '../../support/sluice.ts'

/** Flush by flush, each of which costs one round trip. */
const START = [
  ['session'],
  ['control_configure', 'planner_configure'],
  ['read_server'],
  ['read_version'],
  ['encoding', 'settings'],
  ['worker_id'],
  ['worker_end_ghost', 'worker_lock'],
  ['worker_register', 'worker_reset'],
]

test('a worker is registered after eight round trips', async ({ database }) => {
  const wire = new WireLog()
  const sluice = startTestSluice(database, { connection: wire.connection(database.url) })
  await sluice.start()
  expect(wire.flushes('sluice control')).toEqual(START)
})
