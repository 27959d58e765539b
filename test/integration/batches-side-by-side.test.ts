import { expect } from 'vitest'
import { untilEmpty } from '../support/rows/rows.ts'
import { put, test } from '../support/sluice.ts'
import { raise, type Step, Steps } from '../support/steps.ts'
import { waitFor } from '../support/wait.ts'

const TWO_WORKERS = { concurrency: 2, batchSize: 1 } as const

/** Both workers have a message; the third message waits. */
async function startTwo(steps: Steps): Promise<{ first: Step<unknown>; second: Step<unknown> }> {
  const [one, other] = [await steps.next(), await steps.next()]
  const [first, second] = one.payload === 'first' ? [one, other] : [other, one]
  expect([first.payload, second.payload]).toEqual(['first', 'second'])
  expect(first.worker).not.toBe(second.worker)
  return { first, second }
}

test('two messages go to two workers, and the third to the one that is free first', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue, TWO_WORKERS).handle(steps.handle).subscribe()
  await put(sluice, queue, ['first', 'second', 'third'])
  const { first, second } = await startTwo(steps)
  second.end()
  const third = await steps.next()
  expect(third.payload).toBe('third')
  expect(third.worker).toBe(second.worker)
  third.end()
  first.end()
  await untilEmpty(database, queue)
  expect(steps.taken).toHaveLength(3)
})

test('when the first of two running messages fails, it comes again, and the second is not disturbed', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { ...TWO_WORKERS, retry: { kind: 'fixed', delay: 0 } })
    .handle(steps.handle)
    .subscribe()
  await put(sluice, queue, ['first', 'second'])
  const { first, second } = await startTwo(steps)
  first.endBy(raise)
  const again = await steps.next()
  expect(again.payload).toBe('first')
  expect(again.worker).toBe(first.worker)
  again.end()
  await waitFor(async () => (await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).length === 1, {
    what: 'the first message to be removed',
  })
  expect(second.context.signal.aborted).toBe(false)
  second.end()
  await untilEmpty(database, queue)
  expect(steps.taken).toHaveLength(3)
})

test('a hundred messages in batches of five on five workers come once each, and all five work', async ({
  database,
  sluice,
  queue,
}) => {
  const handled: unknown[] = []
  const workers = new Set<unknown>()
  const all = Promise.withResolvers<void>()
  sluice
    .pipeline(queue, { concurrency: 5, batchSize: 5 })
    .handle(async ({ payload }, { tx }) => {
      const { rows } = await tx.query('SELECT pg_backend_pid() AS worker')
      workers.add(rows[0]?.worker)
      if (workers.size === 5) all.resolve()
      // Nobody goes on before the fifth worker has begun, so none can do another's share.
      await all.promise
      handled.push(payload)
    })
    .subscribe()
  const numbers = Array.from({ length: 100 }, (_, at) => at)
  await put(sluice, queue, numbers)
  await untilEmpty(database, queue)
  expect(handled.toSorted((a, b) => Number(a) - Number(b))).toEqual(numbers)
  expect(workers.size).toBe(5)
})

for (const [how, fail] of [
  ['throws', (step: Step<unknown>) => step.endBy(raise)],
  [
    'throws in a savepoint of its own',
    (step: Step<unknown>) => step.endBy(() => step.context.tx.query('SAVEPOINT nested').then(raise)),
  ],
  [
    'ignores a failed statement',
    (step: Step<unknown>) => step.endBy(() => step.context.tx.query('SELECT 1 / 0').catch(() => undefined)),
  ],
] as const) {
  test(`when the first of two messages ${how}, the third comes at once, and the first after its backoff on the free worker`, async ({
    sluice,
    queue,
  }) => {
    const steps = new Steps()
    sluice
      .pipeline(queue, { ...TWO_WORKERS, retry: { kind: 'fixed', delay: 200 } })
      .handle(steps.handle)
      .subscribe()
    await put(sluice, queue, ['first', 'second', 'third'])
    const { first } = await startTwo(steps)
    fail(first)
    const third = await steps.next()
    expect(third.payload).toBe('third')
    expect(third.worker).toBe(first.worker)
    third.end()
    const again = await steps.next()
    expect(again.payload).toBe('first')
    expect(again.worker).toBe(first.worker)
    expect(again.at.getTime() - first.at.getTime()).toBeGreaterThanOrEqual(200)
    again.end()
  })
}

test('a message that arrives while a failed one waits is delivered at once, and the failed one when it is due', async ({
  sluice,
  queue,
  log,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { ...TWO_WORKERS, retry: { kind: 'fixed', delay: '1h' } })
    .handle(steps.handle)
    .subscribe()
  const [failed] = await put(sluice, queue, ['first'])
  const first = await steps.next()
  first.endBy(raise)
  await log.first('message.failed')
  await put(sluice, queue, ['second'])
  const second = await steps.next()
  expect(second.payload).toBe('second')
  await sluice.operate.messages.runNow(queue, failed!)
  const again = await steps.next()
  expect(again.payload).toBe('first')
  again.end()
  second.end()
})
