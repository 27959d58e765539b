// The weak spots of the implementation that Sluice's pipelines descend from. W2 is in idle.test.ts, W5 in order.test.ts,
// W13 and W15 in enqueue.test.ts, W16 in waiting-flag.test.ts, W23 in control.test.ts and watcher.test.ts.

import { expect, inject } from 'vitest'
import { createNumberedEffects, INSERT_NUMBERED } from '../support/effects.ts'
import { payloadsOf, untilEmpty } from '../support/rows.ts'
import { test as base, put, startTestSluice } from '../support/sluice.ts'
import { claimsOf, recordStatements } from '../support/statements.ts'
import { raise, Steps } from '../support/steps.ts'

const test = base.extend('effects', { scope: 'file' }, ({ database }) => createNumberedEffects(database))
const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

test('W1: a message that is due is found without a notification, although another is due later', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database, { pollIntervalMs: 100 })
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

test('W3: a batch whose first message fails at once, third late, and last with its connection, loses none', async ({
  database,
  sluice,
  queue,
  effects,
  log,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { retry: { kind: 'fixed', delay: 0 } })
    .handle(steps.handle)
    .subscribe()
  await put(sluice, queue, [1, 2, 3, 4, 5])
  for (let n = 1; n <= 5; n++) {
    const step = await steps.next()
    await step.context.tx.query(INSERT_NUMBERED, [queue, step.payload])
    if (n === 5) await database.sql('SELECT pg_terminate_backend($1)', [step.worker])
    else if (n % 2 === 1) step.endBy(raise)
    else step.end()
  }
  expect(await log.first('batch.released')).toMatchObject({ messages: 5 })
  expect(await effects(queue)).toEqual([])
  for (let n = 1; n <= 5; n++) {
    const step = await steps.next()
    await step.context.tx.query(INSERT_NUMBERED, [queue, step.payload])
    step.end()
  }
  await untilEmpty(database, queue)
  expect(await effects(queue)).toEqual([1, 2, 3, 4, 5])
})

test('W4: a handler that rolls back, or swallows a failed statement, and returns has failed', async ({
  database,
  sluice,
  queue,
  effects,
  log,
}) => {
  sluice
    .pipeline(queue, LATER)
    .handle(async ({ payload }, { tx }) => {
      await tx.query(INSERT_NUMBERED, [queue, payload])
      if (payload === 1) await tx.query('ROLLBACK').catch(() => undefined)
      if (payload === 2) await tx.query('SELECT 1 / 0').catch(() => undefined)
    })
    .subscribe()
  await put(sluice, queue, [1, 2, 3])
  expect(await log.first('batch.committed')).toMatchObject({ acked: 1, retried: 2 })
  expect(await payloadsOf(database, queue)).toEqual([1, 2])
  expect(await effects(queue)).toEqual([3])
})

test('W6: the effects of a handler whose connection is lost before its message is removed happen once', async ({
  database,
  sluice,
  queue,
  effects,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await put(sluice, queue, [1])
  const lost = await steps.next()
  await lost.context.tx.query(INSERT_NUMBERED, [queue, 1])
  await database.sql('SELECT pg_terminate_backend($1)', [lost.worker])
  lost.end()
  const again = await steps.next()
  expect(again.worker).not.toBe(lost.worker)
  await again.context.tx.query(INSERT_NUMBERED, [queue, 1])
  again.end()
  await untilEmpty(database, queue)
  expect(await effects(queue)).toEqual([1])
})

// The original takes a connection for the lock and one for the handler. A transaction is open while a handler runs, but
// not for ever: the server ends it.
test('W7: a batch in flight takes one connection, its handler none, and the server bounds its transaction', async ({
  database,
  queue,
}) => {
  const url = new URL(database.url)
  url.searchParams.set('application_name', queue)
  const sluice = startTestSluice(database, { connection: url.href })
  const steps = new Steps()
  sluice.pipeline(queue, { concurrency: 3, batchSize: 1, timeoutMs: 20_000 }).handle(steps.handle).subscribe()
  await put(sluice, queue, [1, 2, 3])
  const inFlight = [await steps.next(), await steps.next(), await steps.next()]
  for (const { context, payload } of inFlight) await context.tx.query(INSERT_NUMBERED, [queue, payload])
  expect(
    await database.sql(
      `SELECT count(*)::integer AS open FROM pg_stat_activity WHERE application_name = $1 AND xact_start IS NOT NULL`,
      [queue],
    ),
  ).toEqual([{ open: 3 }])
  // Before version 17 it is bounded only while no statement runs.
  const limits = ['idle_in_transaction_session_timeout', 'transaction_timeout']
  const { rows } = await inFlight[0]!.context.tx.query(
    `SELECT name, setting || unit AS bound FROM pg_settings WHERE name = ANY ($1) ORDER BY name`,
    [limits],
  )
  const known = inject('serverVersion') < 170_000 ? limits.slice(0, 1) : limits
  expect(rows).toEqual(known.map((name) => ({ name, bound: '41000ms' })))
  for (const step of inFlight) step.end()
  await untilEmpty(database, queue)
})

test('W8: the success of others does not shorten the backoff of a message that keeps failing', async ({
  database,
  sluice,
  queue,
  log,
}) => {
  const waits = [10, 20, 40, 80, 160]
  sluice
    .pipeline(queue, { concurrency: 2, batchSize: 2, maxAttempts: 6, retry: (attempt) => waits[attempt - 1] ?? 0 })
    .handle(async ({ payload }, { enqueue }) => {
      if (payload === 'bad') raise()
      // Keeps the other slot, and the batch of the bad one, busy until that is dead.
      if (log.of('message.dead').length === 0) await enqueue(queue, 'good')
    })
    .subscribe()
  await put(sluice, queue, ['good', 'bad'])
  await untilEmpty(database, queue)
  expect(log.of('message.failed').map(({ attempt, retryInMs }) => [attempt, retryInMs])).toEqual(
    waits.map((wait, at) => [at + 1, wait]),
  )
  expect(log.of('batch.committed').filter(({ acked }) => acked > 0).length).toBeGreaterThan(5)
})

test('W9: a pipeline that has been drained claims no more', async ({ database, sluice, queue }) => {
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
