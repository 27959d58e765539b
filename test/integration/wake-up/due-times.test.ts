import { expect } from 'vitest'
import { claimsOf, recordStatements } from '../../support/plans/statements.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'

test('delayed messages come in the order in which they fall due, none early, and none at the poll only', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database, { pollInterval: 60_000 })
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await sluice.enqueueMany(sluice.ownTransaction, queue, [
    { payload: 1, delay: 200 },
    { payload: 2, delay: 400 },
    { payload: 3 },
  ])
  for (const payload of [3, 1, 2]) {
    const step = await steps.next()
    expect(step.payload).toBe(payload)
    expect(step.at.getTime()).toBeGreaterThanOrEqual(step.message.dueAt.getTime())
    step.end()
  }
})

test('a message that is due is found without a notification, although another is due later', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database, { pollInterval: 100 })
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await put(sluice, queue, ['first'])
  await steps.endNext()
  await untilEmpty(database, queue)
  const client = await database.pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('ALTER TABLE sluice.message DISABLE TRIGGER message_wake')
    await sluice.enqueue(client, queue, 'later', { delay: '1h' })
    await sluice.enqueue(client, queue, 'now')
    await client.query('ALTER TABLE sluice.message ENABLE TRIGGER message_wake')
    await client.query('COMMIT')
  } finally {
    client.release()
  }
  const now = await steps.next()
  expect(now.payload).toBe('now')
  now.end()
})

test('a message due between two milliseconds is not early, and nobody asks for it all the time', async ({
  database,
  queue,
}) => {
  const statements = recordStatements()
  const sluice = startTestSluice(database, { pollInterval: 60_000 })
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await database.sql(
    `SELECT sluice.enqueue($1, '1'::jsonb, due_at => date_trunc('milliseconds', clock_timestamp()) + interval '400.999 milliseconds')`,
    [queue],
  )
  sluice.pipeline(queue).handle(steps.handle)
  const step = await steps.next()
  const { rows } = await step.context.tx.query(
    `SELECT due_at <= $2::timestamptz + interval '1 millisecond' AS in_time FROM sluice.message WHERE queue = $1`,
    [queue, step.at],
  )
  expect(rows).toEqual([{ in_time: true }])
  step.end()
  expect(claimsOf(statements, queue).length).toBeLessThan(20)
})
