import { expect } from 'vitest'
import { test } from '../../support/sluice.ts'

// A function that the planner puts into the statement costs what its text costs. One that it calls for each row would cost
// more than all else in a settlement.

test.for([
  ['is_unlocked', `SELECT m.id FROM sluice.message m WHERE sluice_private.is_unlocked(m.xmax, '{"1": 2}')`],
  [
    'idle_lease',
    `UPDATE sluice.message m SET lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at)`,
  ],
  ['rows_of', `SELECT m.id FROM sluice_private.rows_of('q', '{1,2}') m`],
])('%s becomes part of the statement that calls it', async ([name = '', statement = ''], { database }) => {
  const plan = await database.sql<{ 'QUERY PLAN': string }>(`EXPLAIN (VERBOSE, COSTS OFF) ${statement}`)
  const text = plan.map((line) => line['QUERY PLAN']).join('\n')
  expect(text).toContain('sluice.message')
  expect(text).not.toContain(name)
})
