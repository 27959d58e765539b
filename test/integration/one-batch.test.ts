import { expect } from 'vitest'
import { payloadsOf, unlockedPayloads, untilEmpty } from '../support/rows/rows.ts'
import { put, test } from '../support/sluice.ts'
import { raise, Steps } from '../support/steps.ts'

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

test('a message behind a blocked one is neither delivered nor locked, and goes to the same worker', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 1 }).handle(steps.handle).subscribe()
  await put(sluice, queue, ['first', 'second'])
  const first = await steps.next()
  expect(await payloadsOf(database, queue)).toEqual(['first', 'second'])
  expect(await unlockedPayloads(database, queue)).toEqual(['second'])
  expect(steps.payloads).toEqual(['first'])
  first.end()
  const second = await steps.next()
  expect(second.payload).toBe('second')
  expect(second.worker).toBe(first.worker)
  second.end()
})

test('a hundred messages come in order, once each, to one worker', async ({ database, sluice, queue }) => {
  const handled: { readonly n: unknown; readonly worker: unknown }[] = []
  sluice
    .pipeline(queue)
    .handle(async ({ payload }, { tx }) => {
      const { rows } = await tx.query('SELECT pg_backend_pid() AS worker')
      handled.push({ n: payload, worker: rows[0]?.worker })
    })
    .subscribe()
  const client = await database.pool.connect()
  await client.query('BEGIN')
  for (let from = 1; from <= 100; from += 20) {
    await sluice.enqueueMany(
      client,
      queue,
      Array.from({ length: 20 }, (_, at) => ({ payload: from + at })),
    )
  }
  await client.query('COMMIT')
  client.release()
  await untilEmpty(database, queue)
  expect(handled.map(({ n }) => n)).toEqual(Array.from({ length: 100 }, (_, at) => at + 1))
  expect(new Set(handled.map(({ worker }) => worker)).size).toBe(1)
})

test('a batch of two locks two messages, and they and the third come one after another to one worker', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 2 }).handle(steps.handle).subscribe()
  await put(sluice, queue, ['first', 'second', 'third'])
  const first = await steps.next()
  expect(await unlockedPayloads(database, queue)).toEqual(['third'])
  expect(steps.payloads).toEqual(['first'])
  first.end()
  const second = await steps.next()
  expect(await unlockedPayloads(database, queue)).toEqual(['third'])
  second.end()
  await steps.endNext()
  expect(steps.payloads).toEqual(['first', 'second', 'third'])
  expect(new Set(steps.taken.map(({ worker }) => worker)).size).toBe(1)
})
