import { expect } from 'vitest'
import { retryLater } from '../../src/message.ts'
import { payloadsOf, untilEmpty } from '../support/rows/rows.ts'
import { put, test } from '../support/sluice.ts'
import { raise, type Step, Steps } from '../support/steps.ts'

const ONE_BY_ONE = { ordered: true, batchSize: 1 } as const

/** The ways in which a handler fails. */
const failures: readonly ((step: Step<unknown>) => void)[] = [
  (step) => step.end(retryLater({ error: 'not today' })),
  (step) => step.endBy(raise),
  (step) => step.end('garbage'),
  (step) => step.endBy(() => step.context.tx.query('SAVEPOINT nested').then(raise)),
  // A savepoint of one's own may be rolled back. What fails the message is an error that it ignores.
  (step) => step.endBy(() => step.context.tx.query('SELECT 1 / 0').catch(() => undefined)),
]

test('the second message is never delivered before the first has succeeded, not even by a forced look', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  const pipeline = sluice.pipeline(queue, { ...ONE_BY_ONE, retry: { kind: 'fixed', delay: 0 } }).handle(steps.handle)
  const subscription = pipeline.subscribe()
  await put(sluice, queue, ['first', 'second'])
  for (const fail of failures) {
    const step = await steps.next()
    subscription.poke()
    fail(step)
  }
  await steps.endNext()
  await steps.endNext()
  await untilEmpty(database, queue)
  expect(steps.payloads).toEqual([...failures.map(() => 'first'), 'first', 'second'])
})

test('with a fixed backoff the first message comes again after it, every time, and the second at once after that', async ({
  database,
  sluice,
  queue,
  log,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { ...ONE_BY_ONE, retry: { kind: 'fixed', delay: 150 } })
    .handle(steps.handle)
    .subscribe()
  await put(sluice, queue, ['first', 'second'])
  for (const fail of failures) fail(await steps.next())
  await steps.endNext()
  await steps.endNext()
  await untilEmpty(database, queue)
  expect(steps.payloads).toEqual([...failures.map(() => 'first'), 'first', 'second'])
  expectWaits(
    steps.taken.slice(0, -1),
    failures.map(() => 150),
  )
  expect(log.of('message.failed').map(({ attempt, retryInMs }) => [attempt, retryInMs])).toEqual(
    failures.map((_, at) => [at + 1, 150]),
  )
})

test('with a function of the attempt the waits grow, and the next message starts again with the first', async ({
  sluice,
  queue,
}) => {
  const steps = new Steps()
  const policy = (attempt: number) => (attempt === 1 ? 100 : 200)
  sluice
    .pipeline(queue, { ...ONE_BY_ONE, retry: policy })
    .handle(steps.handle)
    .subscribe()
  for (const name of ['first', 'second']) {
    const from = steps.taken.length
    await put(sluice, queue, [name])
    for (const fail of failures.slice(0, 3)) fail(await steps.next())
    await steps.endNext()
    expect(steps.payloads.slice(from)).toEqual([name, name, name, name])
    expectWaits(steps.taken.slice(from), [100, 200, 200])
  }
})

test('with a backoff function that throws it is one second, which a forced look does not shorten', async ({
  sluice,
  queue,
  log,
}) => {
  const steps = new Steps()
  const pipeline = sluice.pipeline(queue, { ...ONE_BY_ONE, retry: () => raise() }).handle(steps.handle)
  const subscription = pipeline.subscribe()
  await put(sluice, queue, ['first', 'second'])
  for (const [at, fail] of failures.slice(0, 2).entries()) {
    fail(await steps.next())
    await log.first('message.failed', ({ attempt }) => attempt === at + 1)
    subscription.poke()
  }
  await steps.endNext()
  await steps.endNext()
  expect(steps.payloads).toEqual(['first', 'first', 'first', 'second'])
  expectWaits(steps.taken.slice(0, -1), [1_000, 1_000])
  expect(log.of('retryPolicy.failed')).toMatchObject([{ error: { message: 'failed on purpose' } }, {}])
})

test('a message that arrives during the backoff waits for the first one: order over latency', async ({
  database,
  sluice,
  queue,
  log,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { ...ONE_BY_ONE, retry: { kind: 'fixed', delay: '1h' } })
    .handle(steps.handle)
    .subscribe()
  const [id] = await put(sluice, queue, ['first'])
  const failing = await steps.next()
  failing.endBy(raise)
  await log.first('message.failed')
  await put(sluice, queue, ['second'])
  expect(await database.sql('SELECT held_by FROM sluice.messages WHERE queue = $1 ORDER BY id', [queue])).toEqual([
    { held_by: null },
    { held_by: id },
  ])
  await sluice.operate.messages.runNow(queue, id!)
  await steps.endNext()
  await steps.endNext()
  await untilEmpty(database, queue)
  expect(steps.payloads).toEqual(['first', 'first', 'second'])
})

test('when the second message of a batch fails, it comes again, and the first does not, and the third only then', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  const options = { ordered: true, batchSize: 2, retry: { kind: 'fixed', delay: 0 } } as const
  sluice.pipeline(queue, options).handle(steps.handle).subscribe()
  await put(sluice, queue, ['first', 'second', 'third'])
  await steps.endNext()
  const failing = await steps.next()
  expect(failing.payload).toBe('second')
  failing.endBy(raise)
  const second = await steps.next()
  expect(await payloadsOf(database, queue)).toEqual(['second', 'third'])
  second.end()
  await steps.endNext()
  await untilEmpty(database, queue)
  expect(steps.payloads).toEqual(['first', 'second', 'second', 'third'])
})

/** That each call came at least so many milliseconds after the one before it. */
function expectWaits(calls: readonly Step<unknown>[], waits: readonly number[]): void {
  expect(calls).toHaveLength(waits.length + 1)
  for (const [at, wait] of waits.entries()) {
    const between = calls[at + 1]!.at.getTime() - calls[at]!.at.getTime()
    expect(between, `before call ${at + 2}`).toBeGreaterThanOrEqual(wait)
  }
}
