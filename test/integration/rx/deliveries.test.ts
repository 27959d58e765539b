import { map, Subject, take, takeUntil, toArray } from 'rxjs'
import { expect } from 'vitest'
import { type Delivery, groupWithin, handleDeliveries } from '../../../src/index.ts'
import { refusalOf } from '../../support/refusal.ts'
import { payloadsOf, unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const NUMBERS = [1, 2, 3, 4, 5, 6, 7]

test('P3: never locks more rows than the demand, and one more for each that is settled', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, NUMBERS)
  const arrived: Delivery[] = []
  const subscription = sluice.deliveries(queue, { demand: 3 }).subscribe((delivery) => arrived.push(delivery))

  await waitFor(() => arrived.length === 3, { what: 'three deliveries' })
  expect(await unlockedPayloads(database, queue)).toEqual([4, 5, 6, 7])
  arrived[1]?.ack()
  await waitFor(() => arrived.length === 4, { what: 'a fourth' })
  expect(await unlockedPayloads(database, queue)).toEqual([5, 6, 7])
  for (const delivery of arrived) delivery.ack()
  await waitFor(() => arrived.length === 7, { what: 'the rest' })
  for (const delivery of arrived) delivery.ack()
  await untilEmpty(database, queue)
  subscription.unsubscribe()
})

test('P3: a batch counts with all its rows, and gives its messages out one after another', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, NUMBERS)
  const arrived: Delivery[] = []
  sluice.deliveries(queue, { demand: 4, batchSize: 4 }).subscribe((delivery) => arrived.push(delivery))

  await waitFor(() => arrived.length === 1, { what: 'the first' })
  expect(await unlockedPayloads(database, queue)).toEqual([5, 6, 7])
  for (let at = 0; at < 4; at++) {
    await waitFor(() => arrived.length === at + 1, { what: `delivery ${at + 1}` })
    arrived[at]?.ack()
  }
  await waitFor(() => arrived.length === 5, { what: 'the next batch' })
  expect(await payloadsOf(database, queue)).toEqual([5, 6, 7])
})

test('settles by every verb, once, and says whether it did', async ({ database, sluice, queue }) => {
  await put(sluice, queue, ['ack', 'retry', 'snooze', 'dead', 'fail'])
  const answers: boolean[][] = []
  sluice.deliveries(queue, { demand: 5, retry: { kind: 'fixed', delay: '1h' } }).subscribe((delivery) => {
    const verbs: Record<string, () => boolean> = {
      ack: () => delivery.ack(),
      retry: () => delivery.retry({ after: '2h', error: new Error('busy') }),
      snooze: () => delivery.snooze({ after: '3h' }),
      dead: () => delivery.deadLetter('no good'),
      fail: () => delivery.fail(new Error('broken')),
    }
    const settle = verbs[String(delivery.message.payload)]!
    answers.push([settle(), settle(), delivery.ack()])
  })

  const isDead = async () =>
    (await database.sql('SELECT FROM sluice.dead_letters WHERE queue = $1', [queue])).length === 1
  const left = async () => (await unlockedPayloads(database, queue)).toSorted().join()
  await waitFor(async () => (await isDead()) && (await left()) === 'fail,retry,snooze' && answers.length === 5, {
    what: 'all to be settled',
  })
  expect(answers).toEqual(Array.from({ length: 5 }, () => [true, false, false]))
  expect(
    await database.sql('SELECT payload, attempt, last_error FROM sluice.messages WHERE queue = $1 ORDER BY id', [
      queue,
    ]),
  ).toEqual([
    { payload: 'retry', attempt: 1, last_error: 'Error: busy' },
    { payload: 'snooze', attempt: 0, last_error: null },
    { payload: 'fail', attempt: 1, last_error: 'Error: broken' },
  ])
  expect(await database.sql('SELECT payload, reason FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual([
    { payload: 'dead', reason: 'no good' },
  ])
})

test('refuses what is no outcome, in the name of the verb, and is not settled then', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, [1])
  const arrived = Promise.withResolvers<Delivery>()
  sluice.deliveries(queue, { demand: 1 }).subscribe(arrived.resolve)
  const delivery = await arrived.promise

  expect(refusalOf(() => delivery.settle('ack' as never))).toMatch(
    /^OPTION_INVALID: delivery\.settle: expected nothing, /,
  )
  expect(refusalOf(() => delivery.settle({ kind: 'nope' } as never))).toMatch(/^OPTION_INVALID: delivery\.settle: /)
  expect(refusalOf(() => delivery.retry('5m' as never))).toContain(
    `delivery.retry: expected an object of options, received "5m". As in delivery.retry({ after: '5m' })`,
  )
  expect(refusalOf(() => delivery.snooze({ after: 'soon' as never }))).toContain('delivery.snooze.after: expected ')
  expect(refusalOf(() => delivery.deadLetter(5 as never))).toContain('delivery.deadLetter: expected a reason')
  expect(delivery.settle({ kind: 'ack' })).toBe(true)
  await untilEmpty(database, queue)
})

test('handleDeliveries() handles and settles, and failures are data', async ({ database, sluice, queue }) => {
  await put(sluice, queue, NUMBERS)
  const stop = new Subject<void>()
  const results: [unknown, string][] = []
  const completed = new Promise<void>((resolve) => {
    sluice
      .deliveries(queue, { demand: 4, maxAttempts: 1 })
      .pipe(
        takeUntil(stop),
        handleDeliveries(
          async (message, { tx }) => {
            await tx.query('SELECT 1')
            if (message.payload === 4) throw new Error('not four')
          },
          { concurrency: 2 },
        ),
        map((result): [unknown, string] => [
          result.message.payload,
          'error' in result ? String(result.error) : result.outcome.kind,
        ]),
      )
      .subscribe({ next: (result) => results.push(result), complete: resolve })
  })

  await untilEmpty(database, queue)
  stop.next()
  await completed
  expect(results).toHaveLength(7)
  expect(results).toContainEqual([4, 'Error: not four'])
  expect(results.filter(([, kind]) => kind === 'ack')).toHaveLength(6)
})

test('groupWithin() groups what the demand lets through', async ({ database, sluice, queue }) => {
  await put(sluice, queue, NUMBERS)
  const groups = sluice.deliveries(queue, { demand: 3 }).pipe(
    groupWithin({ size: 3, maxWait: '1m' }),
    map((group) => {
      for (const delivery of group) delivery.ack()
      return group.length
    }),
    take(2),
    toArray(),
  )
  const sizes = await new Promise<readonly number[]>((resolve, reject) => {
    groups.subscribe({ next: resolve, error: reject })
  })
  expect(sizes).toEqual([3, 3])
  await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the acks to be committed' })
})

test('lets what is in hand be settled after unsubscription, and gives the rest back', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, [1, 2, 3])
  const [delivery] = await new Promise<readonly Delivery[]>((resolve) => {
    sluice.deliveries(queue, { demand: 3, batchSize: 3 }).pipe(take(1), toArray()).subscribe(resolve)
  })
  expect(await unlockedPayloads(database, queue)).toEqual([])
  expect(delivery?.ack()).toBe(true)
  await waitFor(async () => (await unlockedPayloads(database, queue)).length === 2, { what: 'the other two' })
  expect(await payloadsOf(database, queue)).toEqual([2, 3])
})

test('fails a delivery that nobody settles in time', async ({ sluice, queue, log }) => {
  await put(sluice, queue, [1])
  const arrived: Delivery[] = []
  sluice
    .deliveries(queue, { demand: 1, timeout: 50, retry: { kind: 'fixed', delay: '1h' } })
    .subscribe((delivery) => arrived.push(delivery))
  const failed = await log.first('message.failed')
  expect(failed.error).toContain('The delivery: expected to be settled within 50 ms')
  expect(failed.error).toContain('Settle it: delivery.ack()')
  expect(arrived[0]?.signal.aborted).toBe(true)
  expect(arrived[0]?.ack()).toBe(false)
})

test('reports what makes it impossible on the error channel', async ({ queue }) => {
  await using bare = await createTestDatabase({ migrated: false })
  const bareSluice = startTestSluice({ url: bare.url })
  const error = await new Promise((resolve) => {
    bareSluice.deliveries(queue, { demand: 1 }).subscribe({ error: resolve })
  })
  expect(error).toMatchObject({ code: 'SCHEMA_MISSING' })
  await expect(
    (async () => {
      for await (const _ of bareSluice.deliveries(queue, { demand: 1 }));
    })(),
  ).rejects.toMatchObject({ code: 'SCHEMA_MISSING' })
})
