import { expect } from 'vitest'
import { createNumberedEffects, INSERT_NUMBERED } from '../../support/effects.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { test as base, put } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'

const test = base.extend('effects', { scope: 'file' }, ({ database }) => createNumberedEffects(database))
const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

test('a batch whose first message fails at once, third late, and last with its connection, loses none', async ({
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

test('a handler that rolls back, or swallows a failed statement, and returns has failed', async ({
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

test('the effects of a handler whose connection is lost before its message is removed happen once', async ({
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

test('what a handler enqueues is seen if its message commits, and never if it fails', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { retry: { kind: 'fixed', delay: 0 } })
    .handle(steps.handle)
    .subscribe()
  await put(sluice, queue, ['first'])

  const failing = await steps.next()
  await failing.context.enqueue(queue, 'never seen')
  expect(await payloadsOf(database, queue)).toEqual(['first'])
  failing.endBy(raise)

  const succeeding = await steps.next()
  expect(succeeding.payload).toBe('first')
  expect(succeeding.worker).toBe(failing.worker)
  expect(await payloadsOf(database, queue)).toEqual(['first'])
  await succeeding.context.enqueue(queue, 'second')
  expect(await payloadsOf(database, queue)).toEqual(['first'])
  succeeding.end()

  const second = await steps.next()
  expect(second.payload).toBe('second')
  second.end()
  await untilEmpty(database, queue)
  expect(steps.payloads).toEqual(['first', 'first', 'second'])
})
