import { describe, expect, vi } from 'vitest'
import { z } from 'zod'
import { retryPolicy } from '../../../src/retry-policy.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

/** What docs/guides/changing-handlers.md says. */

const NewForm = z.object({ first: z.string(), last: z.string() })
const OLD = { name: 'Ada Lovelace' }

const IN_AN_HOUR = { kind: 'fixed', delay: '1h' } as const

describe('a stricter schema that meets a backlog', () => {
  test('refuses to enqueue the old form, and a process without it still enqueues it', async ({ database, queue }) => {
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: NewForm } } })
    const old = startTestSluice(database)
    // @ts-expect-error The old form.
    const refused = stricter.enqueue(stricter.ownTransaction, queue, OLD)
    await expect(refused).rejects.toMatchObject({ code: 'PAYLOAD_SCHEMA' })
    await old.enqueue(old.ownTransaction, queue, OLD)
    expect(await old.operate.queues.list({ queue })).toMatchObject([{ ready: 1 }])
  })

  test('calls no handler, counts one attempt of each message, names the field, and leaves them to an old worker', async ({
    database,
    sluice: old,
    queue,
  }) => {
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: NewForm } } })
    const ids = await put(old, queue, [OLD, OLD, OLD])
    const handle = vi.fn()
    await stricter.pipeline(queue, { retry: IN_AN_HOUR }).handle(handle).runOnce()
    expect(handle).not.toHaveBeenCalled()
    const waiting = { state: 'retrying', attempt: 1, lastError: expect.stringContaining('first: ') }
    for (const id of ids) expect(await old.operate.messages.get(queue, id)).toMatchObject(waiting)

    for (const id of ids) await old.operate.messages.runNow(queue, id)
    const attempts: number[] = []
    await old
      .pipeline(queue)
      .handle((_, { attempt }) => void attempts.push(attempt))
      .runOnce()
    expect(attempts).toEqual([2, 2, 2])
  })

  test('buries what no worker reads, and a redrive gives it to one that does, as if it had never been tried', async ({
    database,
    sluice: old,
    queue,
  }) => {
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: NewForm } } })
    const [id] = await put(old, queue, [OLD])
    await stricter
      .pipeline(queue, { maxAttempts: 1 })
      .handle(() => undefined)
      .runOnce()
    const dead = { id, reason: 'failed 1 of 1 attempts', payload: OLD }
    expect(await database.sql('SELECT id, reason, payload FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual(
      [dead],
    )
    await old.operate.deadLetters.redrive({ queue })
    const seen: unknown[] = []
    await old
      .pipeline(queue)
      .handle((message, { attempt }) => void seen.push([message.id, message.payload, attempt]))
      .runOnce()
    expect(seen).toEqual([[id, OLD, 1]])
  })

  test('holds the later messages of the ordering key, and no others', async ({ database, sluice: old, queue }) => {
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: NewForm } } })
    const ada = { first: 'Ada', last: 'Lovelace' }
    await put(old, queue, [OLD, ada], { orderingKey: 'a' })
    await put(old, queue, [ada], { orderingKey: 'b' })
    await put(old, queue, [ada])
    const log = new EventLog(stricter.events)
    const handled = vi.fn()
    await stricter.pipeline(queue, { retry: IN_AN_HOUR }).handle(handled).runOnce()
    expect(handled).toHaveBeenCalledTimes(2)
    expect(log.of('message.failed')).toHaveLength(1)
    expect(await old.operate.queues.list({ queue })).toMatchObject([{ retrying: 1, held: 1, ready: 0 }])
  })
})

test('twenty attempts with the default retry policy take seven to eight hours', () => {
  const policy = retryPolicy(undefined, () => 0.5)
  const waits = Array.from({ length: 19 }, (_, at) => policy(at + 1, undefined))
  const hours = waits.reduce((sum, wait) => sum + wait, 0) / 3_600_000
  expect(hours).toBeGreaterThan(7)
  expect(hours).toBeLessThan(8)
})

describe('a queue that is renamed while workers of both names run', () => {
  test('has each message handled once', async ({ database, sluice, queue }) => {
    const to = `${queue}.renamed`
    const handled: unknown[] = []
    for (const name of [queue, to])
      sluice
        .pipeline(name)
        .handle(async ({ payload }) => void handled.push(payload))
        .start()
    const payloads = Array.from({ length: 200 }, (_, at) => at)
    await put(sluice, queue, payloads.slice(0, 150))
    await put(sluice, to, payloads.slice(150))
    await sluice.operate.queues.move(queue, to)
    await Promise.all([untilEmpty(database, queue), untilEmpty(database, to)])
    expect(handled.toSorted((a, b) => Number(a) - Number(b))).toEqual(payloads)
  })

  test('keeps the order of a key, if the new queue is paused until the old one is empty', async ({
    database,
    sluice,
    queue,
  }) => {
    const to = `${queue}.renamed`
    const { queues } = sluice.operate
    const log = new EventLog(sluice.events)
    for (const name of [queue, to]) await queues.pause(name)
    const handled: unknown[] = []
    const consumer = (name: string) => sluice.pipeline(name).handle(async ({ payload }) => void handled.push(payload))
    for (const name of [queue, to]) consumer(name).start()
    for (const name of [queue, to]) await log.first('pipeline.paused', (event) => event.queue === name)
    await put(sluice, queue, [1, 2], { orderingKey: 'a' })
    await put(sluice, to, [3, 4], { orderingKey: 'a' })
    await consumer(to).runOnce()
    expect(handled).toEqual([])
    expect(await queues.move(queue, to)).toMatchObject({ moved: 2 })
    for (const name of [queue, to]) await queues.resume(name)
    await untilEmpty(database, to)
    expect(handled).toEqual([1, 2, 3, 4])
  })
})
