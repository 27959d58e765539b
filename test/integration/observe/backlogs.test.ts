import parse from 'parse-prometheus-text-format'
import { expect } from 'vitest'
import { prometheus } from '../../../src/prometheus/prometheus.ts'
import { put, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

/** As a KEDA scaler of the kind postgresql asks it. */
const KEDA = `SELECT coalesce(sum(due + leased), 0)::integer AS messages FROM sluice.backlogs WHERE queue = $queue`

test('a queue that has never had a message scales to none', async ({ database, queue }) => {
  expect(await database.sql(KEDA.replace('$queue', `'${queue}'`))).toEqual([{ messages: 0 }])
})

test('a scaler counts what is due and what is leased or claimed, and not what is due later', async ({
  sluice,
  database,
  queue,
}) => {
  await put(sluice, queue, [1, 2, 3])
  await put(sluice, queue, [4, 5], { orderingKey: 'a' })
  await put(sluice, queue, [6], { delay: '1h' })
  await sluice.claim(queue, { limit: 2, lease: '10m' })
  expect(await database.sql(KEDA.replace('$queue', `'${queue}'`))).toEqual([{ messages: 5 }])
  const [backlog] = (await sluice.operate.metrics()).queues.filter((one) => one.queue === queue)
  expect(backlog).toMatchObject({
    due: 3,
    leased: 2,
    inFlight: 2,
    dead: 0,
    workers: 0,
    concurrency: null,
    pausedAt: null,
  })
})

test('a message that a transactional worker handles is due and in flight', async ({ sluice, queue, log }) => {
  const gate = Promise.withResolvers<void>()
  const [begun, done] = [Promise.withResolvers<void>(), gate.promise]
  await put(sluice, queue, [1])
  const running = sluice
    .pipeline(queue)
    .handle(() => {
      begun.resolve()
      return done
    })
    .start()
  await log.first('batch.claimed')
  await begun.promise
  const { queues } = await sluice.operate.metrics()
  expect(queues.find((one) => one.queue === queue)).toMatchObject({ due: 1, leased: 0, inFlight: 1, workers: 1 })
  gate.resolve()
  await running.drain()
})

test('the oldest due message has its age, with a key and without', async ({ sluice, database, queue }) => {
  for (const [name, options] of [
    [queue, {}],
    [`${queue}.keyed`, { orderingKey: 'a' }],
  ] as const) {
    await put(sluice, name, [1, 2], options)
    await database.sql(`UPDATE sluice.message SET due_at = now() - interval '1 hour' WHERE queue = '${name}'`)
    const [row] = await database.sql<{ old: boolean }>(
      `SELECT oldest_due_age BETWEEN interval '1 hour' AND interval '61 minutes' AS old FROM sluice.backlogs WHERE queue = '${name}'`,
    )
    expect(row).toEqual({ old: true })
  }
})

test.for(['transactional', 'leased'] as const)(
  'what has failed and waits for its retry is retrying, and its key is held, in %s mode',
  async (mode, { sluice, queue }) => {
    await put(sluice, queue, [1], { orderingKey: 'a' })
    await put(sluice, queue, [2, 3], { orderingKey: 'a' })
    await put(sluice, queue, [4])
    const options = { mode, concurrency: 1, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } } as const
    const of = async () => (await sluice.operate.metrics()).queues.find((one) => one.queue === queue)
    expect(await of()).toMatchObject({ due: 4, retrying: 0, heldKeys: 0 })
    await sluice
      .pipeline(queue, options as { mode: 'leased' })
      .handle(() => raise())
      .runOnce()
    await sluice
      .pipeline(queue, options as { mode: 'leased' })
      .handle(() => raise())
      .runOnce()
    expect(await of()).toMatchObject({ due: 2, retrying: 2, heldKeys: 1 })
    expect(prometheus(await sluice.operate.metrics())).toContain(`sluice_queue_held_keys{queue="${queue}"} 1\n`)
    expect(prometheus(await sluice.operate.metrics())).toContain(`sluice_queue_retrying_messages{queue="${queue}"} 2\n`)
  },
)

test('it counts no further than ten thousand, with keys and without', async ({ sluice, queue }) => {
  const payloads = Array.from({ length: 10_050 }, () => 1)
  await put(sluice, queue, payloads)
  await put(sluice, `${queue}.keyed`, payloads, { orderingKey: 'a' })
  const { queues } = await sluice.operate.metrics()
  const dueOf = (name: string) => queues.find((one) => one.queue === name)?.due
  expect([dueOf(queue), dueOf(`${queue}.keyed`)]).toEqual([10_000, 10_000])
})

test('a parser reads the gauges of queues and groups', async ({ sluice, queue }) => {
  const stream = `stream.${queue}`
  await sluice.streams.set(stream)
  await sluice.groups.set(stream, 'mail', { from: 'start' })
  await sluice.append(sluice.ownTransaction, stream, 1)
  await put(sluice, queue, [1], { maxAttempts: 1 })
  await sluice
    .pipeline(queue)
    .handle(() => raise())
    .runOnce()
  await sluice.operate.queues.settings.set(queue, { concurrency: 7 })
  await sluice.operate.queues.pause(queue)
  const families = parse(prometheus(await sluice.operate.metrics())) as readonly {
    readonly name: string
    readonly type: string
    readonly metrics: readonly { readonly labels: object; readonly value: string }[]
  }[]
  const gaugeOf = (name: string, labels: Readonly<Record<string, string>>) =>
    families
      .find((family) => family.name === name && family.type === 'GAUGE')
      ?.metrics.find((metric) => JSON.stringify(metric.labels) === JSON.stringify(labels))?.value
  expect(gaugeOf('sluice_queue_dead_letters', { queue })).toBe('1')
  expect(gaugeOf('sluice_queue_concurrency_limit', { queue })).toBe('7')
  expect(gaugeOf('sluice_queue_paused', { queue })).toBe('1')
  expect(gaugeOf('sluice_queue_oldest_due_seconds', { queue })).toBe('0')
  expect(gaugeOf('sluice_group_unread_events', { stream, group: 'mail' })).toBe('1')
})
