import { expect, inject } from 'vitest'
import { claimsOf, recordStatements } from '../../support/plans/statements.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'

test('a batch in flight takes one connection, its handler none, and the server bounds its transaction', async ({
  database,
  queue,
}) => {
  const url = new URL(database.url)
  url.searchParams.set('application_name', queue)
  const sluice = startTestSluice(database, { connection: url.href })
  const steps = new Steps()
  sluice.pipeline(queue, { concurrency: 3, batchSize: 1, timeout: 20_000 }).handle(steps.handle).subscribe()
  await put(sluice, queue, [1, 2, 3])
  const inFlight = [await steps.next(), await steps.next(), await steps.next()]
  for (const { context } of inFlight) await context.tx.query('SELECT')
  expect(
    await database.sql(
      `SELECT count(*)::integer AS open FROM pg_stat_activity WHERE application_name = $1 AND xact_start IS NOT NULL`,
      [queue],
    ),
  ).toEqual([{ open: 3 }])
  // Before version 17 it is bounded only while no statement runs. Both are set even where the session has neither: a new
  // configuration may bring one that is shorter.
  const { rows } = await inFlight[0]!.context.tx.query(
    `SELECT name, setting || unit AS bound FROM pg_settings
     WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout') ORDER BY name`,
  )
  const idle = { name: 'idle_in_transaction_session_timeout', bound: '41000ms' }
  const whole = { name: 'transaction_timeout', bound: '41000ms' }
  expect(rows).toEqual(inject('serverVersion') < 170_000 ? [idle] : [idle, whole])
  for (const step of inFlight) step.end()
  await untilEmpty(database, queue)
})

test('a pipeline that has been drained claims no more', async ({ database, sluice, queue }) => {
  const statements = recordStatements()
  const steps = new Steps()
  const others = new Steps()
  const subscription = sluice.pipeline(queue, { concurrency: 2, batchSize: 1 }).handle(steps.handle).subscribe()
  sluice.pipeline(`${queue}.other`).handle(others.handle).subscribe()
  await put(sluice, queue, [1, 2, 3])
  const [first, second] = [await steps.next(), await steps.next()]
  const claims = claimsOf(statements, queue).length
  expect(claims).toBeGreaterThan(0)
  const drained = subscription.drain()
  first.end()
  second.end()
  expect(await drained).toEqual({ completed: true })
  await put(sluice, queue, [4])
  await put(sluice, `${queue}.other`, [5])
  await others.endNext()
  expect(claimsOf(statements, queue)).toHaveLength(claims)
  expect(await payloadsOf(database, queue)).toEqual([3, 4])
  expect(steps.taken).toHaveLength(2)
})
