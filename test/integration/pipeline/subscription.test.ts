import { Subscription } from 'rxjs'
import { describe, expect } from 'vitest'
import { EventLog } from '../../support/event-log.ts'
import { payloadsOf, unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const ONE = { batchSize: 1 } as const

describe('drain', () => {
  test('lets the batch in flight end and commit, claims no more, and resolves then', async ({
    database,
    sluice,
    queue,
  }) => {
    const steps = new Steps()
    const subscription = sluice.pipeline(queue, { batchSize: 2 }).handle(steps.handle).subscribe()
    await put(sluice, queue, [1, 2, 3])
    const first = await steps.next()
    let drained = false
    const drain = subscription.drain().then((result) => {
      drained = true
      return result
    })
    first.end()
    const second = await steps.next()
    expect(drained).toBe(false)
    expect(second.context.signal.aborted).toBe(false)
    second.end()
    expect(await drain).toEqual({ completed: true })
    await subscription.ended
    expect(await unlockedPayloads(database, queue)).toEqual([3])
    expect(steps.payloads).toEqual([1, 2])
  })

  test('stops what has not ended after its timeout, and gives it back', async ({ database, sluice, queue, log }) => {
    const steps = new Steps()
    const subscription = sluice.pipeline(queue, { batchSize: 3 }).handle(steps.handle).subscribe()
    await put(sluice, queue, [1, 2, 3])
    await steps.endNext()
    const stuck = await steps.next()
    expect(await subscription.drain({ timeout: 50 })).toEqual({ completed: false })
    expect(stuck.context.signal.reason).toMatchObject({ code: 'STOPPED' })
    // The first of the batch has succeeded, and stays done.
    expect(await unlockedPayloads(database, queue)).toEqual([2, 3])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 1, retried: 0 })
    expect(await database.sql('SELECT DISTINCT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { attempt: 0 },
    ])
  })

  test('takes text for its timeout, and no other option', async ({ sluice, queue }) => {
    const subscription = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await expect(subscription.drain({ timeoutMs: 1 } as object)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    expect(await subscription.drain({ timeout: '5s' })).toEqual({ completed: true })
    expect(await subscription.drain()).toEqual({ completed: true })
  })

  test('is what the end of an await using block does', async ({ database, sluice, queue }) => {
    const steps = new Steps()
    await put(sluice, queue, [1, 2])
    {
      await using subscription = sluice.pipeline(queue, ONE).handle(steps.handle).subscribe()
      expect(subscription.queue).toBe(queue)
      const step = await steps.next()
      step.end()
      const second = await steps.next()
      setImmediate(() => second.end())
    }
    expect(await payloadsOf(database, queue)).toEqual([])
  })
})

describe('stop', () => {
  test('aborts the handlers, gives their messages back with nothing counted, and resolves when they are free', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    await database.sql('CREATE TABLE stopped (n integer)')
    const steps = new Steps()
    const subscription = sluice
      .pipeline(queue, { ...ONE, concurrency: 2 })
      .handle(steps.handle)
      .subscribe()
    await put(sluice, queue, [1, 2, 3])
    const running = [await steps.next(), await steps.next()]
    for (const { context } of running) await context.tx.query('INSERT INTO stopped VALUES (1)')
    await subscription.stop()
    for (const { context } of running) expect(context.signal.reason).toMatchObject({ code: 'STOPPED' })
    expect(await unlockedPayloads(database, queue)).toEqual([1, 2, 3])
    expect(await database.sql('SELECT n FROM stopped')).toEqual([])
    await subscription.ended
    await subscription.stop()
    expect(log.of('batch.committed')).toEqual([])
    expect(log.of('batch.released')).toEqual([
      { kind: 'batch.released', queue, messages: 1 },
      { kind: 'batch.released', queue, messages: 1 },
    ])
  })

  test('cancels the statement that a handler is running', async ({ database, sluice, queue }) => {
    let failure: unknown
    const subscription = sluice
      .pipeline(queue)
      .handle(async (_, { tx }) => {
        await tx.query('SELECT pg_sleep(60)').catch((error: unknown) => {
          failure = error
        })
      })
      .subscribe()
    await put(sluice, queue, [1])
    const sleeping = () =>
      database.sql(`SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`)
    await waitFor(async () => (await sleeping()).length === 1, { what: 'the statement to run' })
    await subscription.stop()
    expect(failure).toMatchObject({ code: '57014' })
    expect(await sleeping()).toEqual([])
    expect(await unlockedPayloads(database, queue)).toEqual([1])
  })

  test('does not take a handler that returns because of it for one that is done', async ({
    database,
    sluice,
    queue,
  }) => {
    const started = Promise.withResolvers<void>()
    const subscription = sluice
      .pipeline(queue)
      .handle(async (_, { signal }) => {
        started.resolve()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      })
      .subscribe()
    await put(sluice, queue, [1])
    await started.promise
    await subscription.stop()
    expect(await unlockedPayloads(database, queue)).toEqual([1])
  })

  test('ends a drain that takes too long for somebody', async ({ database, sluice, queue }) => {
    const steps = new Steps()
    const subscription = sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, [1])
    await steps.next()
    const drained = subscription.drain()
    await subscription.stop()
    await drained
    expect(await unlockedPayloads(database, queue)).toEqual([1])
  })

  test('is what unsubscribe() starts, even before anything has begun', async ({ sluice, queue, log }) => {
    const subscription = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    subscription.unsubscribe()
    await subscription.ended
    expect(log.of('pipeline.stopped')).toEqual([{ kind: 'pipeline.stopped', queue }])
    expect(log.of('batch.claimed')).toEqual([])
  })
})

test('a batch whose connection is lost ends at once: its handler is told, and its message goes to the next', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await put(sluice, queue, [1])
  const lost = await steps.next()
  await database.sql('SELECT pg_terminate_backend($1)', [lost.worker])
  await steps.endNext()
  await untilEmpty(database, queue)
  expect(lost.context.signal.reason).toMatchObject({ code: 'UNREACHABLE' })
})

test('poke() looks at once', async ({ database, queue }) => {
  const sluice = startTestSluice(database, { pollInterval: 60_000 })
  const steps = new Steps()
  const subscription = sluice.pipeline(queue).handle(steps.handle).subscribe()
  await put(sluice, queue, [1])
  await steps.endNext()
  await untilEmpty(database, queue)
  // Without a notification.
  await database.sql(
    `DO $$ BEGIN
       ALTER TABLE sluice.message DISABLE TRIGGER message_wake;
       PERFORM sluice.enqueue('${queue}', '2');
       ALTER TABLE sluice.message ENABLE TRIGGER message_wake;
     END $$`,
  )
  subscription.poke()
  const step = await steps.next()
  expect(step.payload).toBe(2)
  step.end()
})

test('events of a subscription are those of its queue, those of the Sluice are all', async ({ database, queue }) => {
  const sluice = startTestSluice(database, { name: 'tester' })
  const all = new EventLog(sluice.events)
  const other = sluice
    .pipeline(`${queue}.other`)
    .handle(() => undefined)
    .subscribe()
  const subscription = sluice
    .pipeline(queue)
    .handle(() => undefined)
    .subscribe()
  const own = new EventLog(subscription.events)
  await put(sluice, queue, [1])
  await put(sluice, `${queue}.other`, [1])
  await all.first('batch.committed', (event) => event.queue === `${queue}.other`)
  await all.first('batch.committed', (event) => event.queue === queue)
  await Promise.all([subscription.drain(), other.drain()])
  expect(own.all.map(({ kind }) => kind)).toEqual([
    'pipeline.started',
    'batch.claimed',
    'batch.committed',
    'pipeline.stopped',
  ])
  expect(own.of('batch.claimed')).toEqual([
    { kind: 'batch.claimed', queue, messages: 1, oldestDueMs: expect.any(Number) },
  ])
  expect(own.of('batch.committed')[0]?.durationMs).toBeGreaterThan(0)
  expect(all.of('pipeline.started')).toHaveLength(2)
  expect(all.of('worker.started')).toMatchObject([{ name: 'tester' }])
  await sluice.stop()
  expect(all.of('worker.stopped')).toMatchObject([{ name: 'tester' }])
})

test('subscribe() starts as start() does, and an RxJS Subscription can end it', async ({ sluice, queue, log }) => {
  const pipelines = [1, 2].map(() => sluice.pipeline(queue).handle(() => undefined))
  const running = pipelines.map((pipeline, at) => (at === 0 ? pipeline.start() : pipeline.subscribe()))
  await waitFor(() => log.of('pipeline.started').length === 2, { what: 'both to start' })
  const all = new Subscription()
  for (const one of running) all.add(one)
  all.unsubscribe()
  await Promise.all(running.map(({ ended }) => ended))
  expect(log.of('pipeline.stopped')).toHaveLength(2)
})
