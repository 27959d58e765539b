import { lastValueFrom, take, toArray } from 'rxjs'
import { expect } from 'vitest'
import { handleDeliveries } from '../../../src/rx/handle-deliveries.ts'
import { unlockedPayloads } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'

test('an Observable of deliveries completes when its Sluice stops', async ({ database, queue }) => {
  const sluice = startTestSluice(database)
  await put(sluice, queue, [1])
  const told: string[] = []
  const arrived = Promise.withResolvers<void>()
  const completed = new Promise<void>((resolve) => {
    sluice.deliveries(queue, { demand: 2 }).subscribe({
      next: (delivery) => {
        told.push(`${delivery.message.payload}`)
        arrived.resolve()
      },
      complete: () => {
        told.push('complete')
        resolve()
      },
    })
  })
  await arrived.promise
  await sluice.stop()
  await completed
  expect(told).toEqual(['1', 'complete'])
  expect(await unlockedPayloads(database, queue)).toEqual([1])
})

test('an Observable and a loop of deliveries end without an error when their Sluice stops while they start', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database)
  const observed = lastValueFrom(sluice.deliveries(queue, { demand: 1 }), { defaultValue: 'nothing' })
  const next = sluice.deliveries(queue, { demand: 1 })[Symbol.asyncIterator]().next()
  await sluice.stop()
  expect(await observed).toBe('nothing')
  expect(await next).toEqual({ done: true, value: undefined })
})

test('deliveries end at once when their Sluice stops, also while it waits for the handler of a pipeline', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database)
  await put(sluice, queue, [1])
  await put(sluice, `${queue}.slow`, [2])
  const steps = new Steps()
  sluice.pipeline(`${queue}.slow`).handle(steps.handle).start()
  const step = await steps.next()
  const deliveries = sluice.deliveries(queue, { demand: 1 })[Symbol.asyncIterator]()
  const { value: first } = await deliveries.next()
  expect(first?.message.payload).toBe(1)

  const stopped = sluice.stop()

  expect(await deliveries.next()).toEqual({ done: true, value: undefined })
  expect(await unlockedPayloads(database, queue)).toEqual([1])
  expect(step.context.signal.aborted).toBe(false)
  step.end()
  await stopped
})

test('what begins to consume after its Sluice was stopped says STOPPED', async ({ database, queue }) => {
  const sluice = startTestSluice(database)
  const made = sluice.deliveries(queue, { demand: 1 })
  await sluice.stop()
  for (const deliveries of [made, sluice.deliveries(queue, { demand: 1 })]) {
    await expect(lastValueFrom(deliveries)).rejects.toMatchObject({ code: 'STOPPED' })
    await expect(deliveries[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'STOPPED' })
  }
  const subscription = sluice
    .pipeline(queue)
    .handle(() => undefined)
    .subscribe()
  await expect(subscription.ended).rejects.toMatchObject({ code: 'STOPPED' })
})

test('a loop over deliveries ends when its Sluice stops', async ({ database, queue }) => {
  const sluice = startTestSluice(database)
  await put(sluice, queue, [1])
  const handled: unknown[] = []
  for await (const delivery of sluice.deliveries(queue, { demand: 1 })) {
    handled.push(delivery.message.payload)
    delivery.ack()
    void sluice.stop()
  }
  expect(handled).toEqual([1])
})

test('a loop over deliveries that throws gives back what it had in hand', async ({ database, sluice, queue }) => {
  await put(sluice, queue, [1, 2, 3])
  const loop = async () => {
    for await (const delivery of sluice.deliveries(queue, { demand: 2 })) {
      throw new Error(`no ${delivery.message.payload}`)
    }
  }
  await expect(loop()).rejects.toThrow('no 1')
  expect(await unlockedPayloads(database, queue)).toEqual([1, 2, 3])
})

test('a loop over deliveries leaves out those whose time was up before it came to them', async ({
  sluice,
  queue,
  log,
}) => {
  await put(sluice, queue, [1, 2])
  const seen: unknown[] = []
  for await (const delivery of sluice.deliveries(queue, {
    demand: 2,
    timeout: 1_000,
    retry: { kind: 'fixed', delay: 0 },
  })) {
    const { payload, attempt } = delivery.message
    seen.push([payload, attempt])
    if (seen.length === 1) await log.first('message.failed', ({ id }) => id !== delivery.message.id)
    if (delivery.ack() && seen.length === 3) break
  }
  expect(seen[0]).toEqual([1, 1])
  expect(seen).not.toContainEqual([2, 1])
})

test('handleDeliveries() does not begin with deliveries whose time was up before their turn', async ({
  sluice,
  queue,
  log,
}) => {
  const [, second] = await put(sluice, queue, [1, 2])
  const handled: unknown[] = []
  const results = sluice.deliveries(queue, { demand: 2, timeout: 1_000, retry: { kind: 'fixed', delay: '1h' } }).pipe(
    handleDeliveries(
      async ({ payload }) => {
        handled.push(payload)
        await log.first('message.failed', ({ id }) => id === second)
      },
      { concurrency: 1 },
    ),
    take(2),
    toArray(),
  )
  expect(await lastValueFrom(results)).toMatchObject([
    { message: { payload: 1 }, error: { code: 'HANDLER_TIMEOUT' } },
    { message: { payload: 2 }, error: { code: 'HANDLER_TIMEOUT' } },
  ])
  expect(handled).toEqual([1])
})

test('the iterator of deliveries can be left while it waits for a message', async ({ database, sluice, queue }) => {
  const iterator = sluice.deliveries(queue, { demand: 2 })[Symbol.asyncIterator]()
  await put(sluice, queue, [1])
  const first = await iterator.next()
  expect(first.value?.ack()).toBe(true)
  const waiting = [iterator.next(), iterator.next()]

  expect(await iterator.return()).toEqual({ done: true, value: undefined })

  for (const next of waiting) expect(await next).toEqual({ done: true, value: undefined })
  expect(await iterator.next()).toEqual({ done: true, value: undefined })
  expect(await unlockedPayloads(database, queue)).toEqual([])
})

test('the iterator of deliveries connects with its first next(), and not if it is left before', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database, { name: 'left before' })
  const iterator = sluice.deliveries(queue, { demand: 1 })[Symbol.asyncIterator]()
  await iterator.return()
  expect(await iterator.next()).toEqual({ done: true, value: undefined })
  await expect(iterator.throw(new Error('mine'))).rejects.toThrow('mine')
  expect(await database.sql(`SELECT FROM sluice.worker WHERE name = 'left before'`)).toEqual([])
})
