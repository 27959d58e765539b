// More weak spots of the implementation that Sluice's pipelines descend from: attempts, times, options and what is seen.

import { expect } from 'vitest'
import { type RoutesOptions, routes } from '../../src/handle/routes.ts'
import { retry } from '../../src/message.ts'
import { untilEmpty, untilRecorded } from '../support/rows.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'
import { claimsOf, recordStatements } from '../support/statements.ts'
import { raise, Steps } from '../support/steps.ts'

const SOON = { retry: { kind: 'fixed', delay: 10 } } as const
const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

test.for([{ ordered: false }, { ordered: true }])(
  'W10: attempts are counted by the queue, apart from what the user writes into headers (%o)',
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

test('W11: a message that always fails dies after its attempts, and an ordered queue goes on', async ({
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

test('W12: a message keeps its id, and its place in its order, through retries, death and redrive', async ({
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
  await steps.endNext(retry())
  await steps.endNext(retry())
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

test('W14: a message due between two milliseconds is not early, and nobody asks for it all the time', async ({
  database,
  queue,
}) => {
  const statements = recordStatements()
  const sluice = startTestSluice(database, { pollIntervalMs: 60_000 })
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await database.sql(
    `SELECT sluice.enqueue($1, '1'::jsonb, deliver_at => date_trunc('milliseconds', clock_timestamp()) + interval '400.999 milliseconds')`,
    [queue],
  )
  sluice.pipeline(queue).handle(steps.handle)
  const step = await steps.next()
  const { rows } = await step.context.tx.query(
    `SELECT due_at <= $2::timestamptz + interval '1 millisecond' AS in_time FROM sluice.message WHERE queue = $1`,
    [queue, step.at],
  )
  expect(rows).toEqual([{ in_time: true }])
  step.end()
  expect(claimsOf(statements, queue).length).toBeLessThan(20)
})

test('W17: no plan makes a claim lock more than was demanded', async ({ database, queue }) => {
  for (const setting of ['enable_indexscan', 'enable_seqscan', 'enable_hashjoin', 'enable_sort', 'enable_material']) {
    const url = new URL(database.url)
    url.searchParams.set('options', `-c ${setting}=off -c enable_bitmapscan=off -c enable_mergejoin=off`)
    const sluice = startTestSluice(database, { connection: url.href })
    const steps = new Steps()
    const name = `${queue}.${setting}`
    await put(sluice, name, Array(50).fill('unkeyed'))
    for (let n = 0; n < 50; n++) await put(sluice, name, ['keyed'], { orderingKey: `key ${n}` })
    sluice.pipeline(name, { concurrency: 2, batchSize: 2 }).handle(steps.handle).subscribe()
    await steps.next()
    await steps.next()
    const free = await database.sql('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE SKIP LOCKED', [name])
    expect(free.length, setting).toBeGreaterThanOrEqual(100 - 4)
    await sluice.stop({ timeoutMs: 0 })
  }
})

test.for([
  [undefined, 'dead', { dead: 1 }],
  ['deadLetter', 'dead', { dead: 1 }],
  ['retry', 'waiting', { retried: 1 }],
  ['ack', 'gone', { acked: 1 }],
] as const)(
  'W20: a message whose type no route matches is not consumed silently: with unmatched %s it is %s',
  async ([unmatched, where, committed], { database, sluice, queue, log }) => {
    const options: RoutesOptions = { unmatched }
    sluice
      .pipeline(queue, LATER)
      .handle(routes([{ match: 'Orders.Paid', handle: () => undefined }], options))
      .subscribe()
    await put(sluice, queue, [1], { type: 'Orders.Payd' })
    expect(await log.first('batch.committed')).toMatchObject(committed)
    const dead = await database.sql('SELECT reason FROM sluice.dead_letters WHERE queue = $1', [queue])
    const waiting = await database.sql('SELECT last_error FROM sluice.message WHERE queue = $1', [queue])
    const text = 'no route matches the type "Orders.Payd"'
    expect(dead).toEqual(where === 'dead' ? [{ reason: text }] : [])
    expect(waiting).toEqual(where === 'waiting' ? [{ last_error: text }] : [])
  },
)

// One row per subscriber: what is enqueued for two consumers goes into two queues, in one transaction.
test('W21: a consumer that fails does not make another repeat', async ({ database, sluice, queue }) => {
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

test('W22: options that do not exist are refused, whoever takes them', ({ sluice, queue }) => {
  const unknown = { backoff_ms: 100 } as object
  const calls = [
    () => sluice.pipeline(queue, unknown),
    () => sluice.pipeline(queue, { retry: { kind: 'fixed', delay: 1, ...unknown } }),
    () => sluice.deliveries(queue, { demand: 1, ...unknown }),
    () => routes([], unknown),
  ]
  for (const call of calls) expect(call).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
})

test('W24: peek shows one queue, in the order of due times, as many as wanted, and locks nothing', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, `${queue}.other`, ['other'])
  await put(sluice, queue, ['last'], { delay: '1h' })
  await put(sluice, queue, [1, 2, 3])
  const peek = (most: number) => database.sql('SELECT payload, state FROM sluice.peek($1, $2)', [queue, most])
  expect(await peek(10)).toEqual([
    { payload: 1, state: 'ready' },
    { payload: 2, state: 'ready' },
    { payload: 3, state: 'ready' },
    { payload: 'last', state: 'scheduled' },
  ])
  expect(await peek(2)).toHaveLength(2)
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 2 }).handle(steps.handle).subscribe()
  await steps.next()
  await untilRecorded(database, queue, 2)
  expect((await peek(10)).map(({ state }) => state)).toEqual(['in_flight', 'in_flight', 'ready', 'scheduled'])
})
