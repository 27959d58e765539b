import { expect } from 'vitest'
import { retryLater } from '../../../src/message.ts'
import { spentReason } from '../../../src/settle/decide.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'

const SOON = { retry: { kind: 'fixed', delay: 10 } } as const

test('the success of others does not shorten the backoff of a message that keeps failing', async ({
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
      // Keeps the other runner, and the batch of the bad one, busy until that is dead.
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

test.for([{ ordered: false }, { ordered: true }])(
  'attempts are counted by the queue, apart from what the user writes into headers (%o)',
  async (options, { sluice, queue }) => {
    const steps = new Steps()
    sluice
      .pipeline(queue, { ...SOON, ...options })
      .handle(steps.handle)
      .subscribe()
    await put(sluice, queue, [1], { headers: { attempt: 'mine' } })
    for (let attempt = 1; attempt <= 3; attempt++) {
      const { message, context, endBy, end } = await steps.next()
      expect([message.attempt, context.attempt, message.headers]).toEqual([attempt, attempt, { attempt: 'mine' }])
      if (attempt < 3) endBy(raise)
      else end()
    }
  },
)

test('a message that always fails dies after its attempts, and an ordered queue goes on', async ({
  database,
  sluice,
  queue,
}) => {
  const handled: unknown[] = []
  sluice
    .pipeline(queue, { ...SOON, ordered: true, maxAttempts: 3 })
    .handle(({ payload }) => {
      if (payload === 'poison') raise()
      handled.push(payload)
    })
    .subscribe()
  await put(sluice, queue, ['poison', 'next'])
  await untilEmpty(database, queue)
  expect(handled).toEqual(['next'])
  expect(
    await database.sql('SELECT payload, reason, attempt FROM sluice.dead_letters WHERE queue = $1', [queue]),
  ).toEqual([{ payload: 'poison', reason: 'failed 3 of 3 attempts', attempt: 3 }])
})

test('a message keeps its id, and its place in its order, through retries, death and redrive', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice
    .pipeline(queue, { ...SOON, maxAttempts: 2 })
    .handle(steps.handle)
    .subscribe()
  const [id] = await put(sluice, queue, [1], { orderingKey: 'a' })
  await steps.endNext(retryLater())
  await steps.endNext(retryLater())
  await untilEmpty(database, queue)
  expect(await database.sql('SELECT id FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual([{ id }])
  await database.sql('SELECT sluice.redrive($1)', [queue])
  await steps.endNext()
  await untilEmpty(database, queue)
  expect(steps.taken.map(({ message }) => [message.id, message.attempt])).toEqual([
    [id, 1],
    [id, 2],
    [id, 1],
  ])
})

// One row per subscriber: what is enqueued for two consumers goes into two queues, in one transaction.
test('a consumer that fails does not make another repeat', async ({ database, sluice, queue }) => {
  const [mail, audit] = [`${queue}.mail`, `${queue}.audit`]
  const handled: string[] = []
  sluice
    .pipeline(mail, SOON)
    .handle(({ attempt }) => {
      handled.push(`mail ${attempt}`)
      if (attempt < 3) raise()
    })
    .subscribe()
  sluice
    .pipeline(audit, SOON)
    .handle(({ attempt }) => void handled.push(`audit ${attempt}`))
    .subscribe()
  const client = await database.pool.connect()
  await client.query('BEGIN')
  for (const name of [mail, audit]) await sluice.enqueue(client, name, 1)
  await client.query('COMMIT')
  client.release()
  await untilEmpty(database, mail)
  await untilEmpty(database, audit)
  expect(handled.toSorted()).toEqual(['audit 1', 'mail 1', 'mail 2', 'mail 3'])
})

test('a failed message disturbs neither the one in flight beside it nor one that comes while it waits', async ({
  database,
  sluice,
  queue,
  log,
}) => {
  const steps = new Steps()
  const options = { concurrency: 2, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } } as const
  sluice.pipeline(queue, options).handle(steps.handle).subscribe()
  const [failed] = await put(sluice, queue, ['failed'])
  const failing = await steps.next()
  await put(sluice, queue, ['beside'])
  const beside = await steps.next()
  failing.endBy(raise)
  await log.first('message.failed')
  await put(sluice, queue, ['later'])
  const later = await steps.next()
  expect(later.payload).toBe('later')
  later.end()
  await sluice.operate.messages.runNow(queue, failed!)
  const again = await steps.next()
  expect([again.payload, again.context.attempt]).toEqual(['failed', 2])
  again.end()
  expect(beside.context.signal.aborted).toBe(false)
  beside.end()
  await untilEmpty(database, queue)
  expect(steps.payloads).toEqual(['failed', 'beside', 'later', 'failed'])
})

test.for([
  [2, 2, 'failed 2 of 2 attempts'],
  [3, 2, 'failed 3 attempts, and 2 are allowed'],
  [2, 1, 'failed 2 attempts, and 1 is allowed'],
] as const)('a death after %i attempts of %i says: %s', async ([tries, most, reason], { database }) => {
  expect(spentReason(tries, most)).toBe(reason)
  const [row] = await database.sql('SELECT sluice_private.spent_reason($1, $2) AS reason', [tries, most])
  expect(row).toEqual({ reason })
})
