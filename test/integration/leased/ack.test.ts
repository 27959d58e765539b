import { expect } from 'vitest'
import { test } from '../../support/rows/claim-session.ts'
import { ackLeased } from '../../support/rows/write-settled.ts'

test('an ack removes the messages that still have their leases, in whatever order it names them', async ({
  database,
  queue,
  begin,
}) => {
  const leases = { 9: '101', '-5': '102', 1000: '103', '-40': '104', 10: '105', '9007199254740993': '106' }
  const messages = Object.entries(leases).map(([id, lease]) => ({ id, lease }))
  await database.sql(
    `INSERT INTO sluice.message (queue, id, payload, lease, due_at)
     SELECT $1, m.id, '1', m.lease, clock_timestamp() + interval '1 hour' FROM unnest($2::bigint[], $3::bigint[]) AS m (id, lease)`,
    [queue, messages.map(({ id }) => id), messages.map(({ lease }) => lease)],
  )
  const { execute } = await begin()
  const lost = { id: '10', lease: '103' }
  const removed = await ackLeased(execute, queue, [...messages.filter(({ id }) => id !== lost.id), lost])
  expect(removed.toSorted()).toEqual(['-40', '-5', '1000', '9', '9007199254740993'])
})
