import type { StandardSchemaV1 } from '@standard-schema/spec'
import { expect, vi } from 'vitest'
import * as z from 'zod'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const Order = z.object({ customer: z.object({ email: z.email() }), lines: z.array(z.number()).default([]) })

const DEAD = 'SELECT id, reason, error, attempt, payload FROM sluice.dead_letters WHERE queue = $1'

test('a handler gets what the schema makes of the stored payload, also when a batch is handled again one by one', async ({
  database,
  sluice,
  queue,
}) => {
  const queues = { [queue]: { schema: z.object({ at: z.iso.date().transform((text) => new Date(text)) }) } }
  const typed = startTestSluice(database, { queues })
  await put(sluice, queue, [{ at: '2026-01-02' }, { at: '2026-01-03' }])
  const seen: unknown[] = []
  typed
    .pipeline(queue)
    .handleBatch((messages) => {
      for (const { payload } of messages) {
        seen.push(new Date(payload.at))
        payload.at.setTime(0)
      }
      if (messages.length > 1) throw new Error('one by one, please')
    })
    .subscribe()
  await untilEmpty(database, queue)
  const [first, second] = [new Date('2026-01-02'), new Date('2026-01-03')]
  expect(seen).toEqual([first, second, first, second])
})

test('a stored payload that does not fit fails its attempts, says why, and is not handed to the handler', async ({
  database,
  sluice,
  queue,
}) => {
  const typed = startTestSluice(database, { queues: { [queue]: { schema: Order } } })
  const log = new EventLog(typed.events)
  const bad = { customer: { email: 'nobody' }, lines: [1, 'two'] }
  const [, id] = await put(sluice, queue, [{ customer: { email: 'ada@example.com' } }, bad])
  const seen: unknown[] = []
  typed
    .pipeline(queue, { maxAttempts: 2, retry: { kind: 'fixed', delay: 0 } })
    .handle(({ payload }) => void seen.push(payload))
    .subscribe()
  await untilEmpty(database, queue)
  expect(seen).toEqual([{ customer: { email: 'ada@example.com' }, lines: [] }])
  const [reason, error] = ['failed 2 of 2 attempts', expect.stringMatching(/ customer\.email: .*; lines\[1\]: /)]
  expect(await database.sql(DEAD, [queue])).toEqual([{ id, reason, error, attempt: 2, payload: bad }])
  expect(log.of('message.failed')).toMatchObject([{ id, attempt: 1, error }])
  expect(log.of('message.dead')).toMatchObject([{ id, reason, error }])
})

test.for(['transactional', 'leased'] as const)(
  'a worker with a stricter schema buries nothing of a backlog: an older one handles it (%s)',
  async (mode, { database, sluice, queue }) => {
    const retry = vi.fn(() => 3_600_000)
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: z.object({ from: z.string() }) } } })
    const log = new EventLog(stricter.events)
    const ids = await put(sluice, queue, [{ to: 'ada' }, { to: 'grace' }, { to: 'edsger' }])
    await stricter
      .pipeline(queue, { mode: mode as 'transactional', retry })
      .handle(() => undefined)
      .runOnce()
    expect(log.of('message.failed').map(({ id, attempt }) => [id, attempt])).toEqual(ids.map((id) => [id, 1]))
    expect(retry).toHaveBeenCalledWith(1, expect.objectContaining({ code: 'PAYLOAD_SCHEMA' }))
    for (const id of ids) await sluice.operate.messages.runNow(queue, id)
    const { counts } = await sluice
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    expect(counts).toMatchObject({ acked: 3 })
  },
)

test('a schema that throws is no verdict on the payload: the message is tried again', async ({
  database,
  sluice,
  queue,
}) => {
  let validated = 0
  const schema = standardSchema(async () => {
    validated += 1
    if (validated === 1) throw new Error('the registry is down')
    return { value: 'valid' }
  })
  const typed = startTestSluice(database, { queues: { [queue]: { schema } } })
  const log = new EventLog(typed.events)
  await put(sluice, queue, ['stored'])
  const seen: unknown[] = []
  typed
    .pipeline(queue, { retry: { kind: 'fixed', delay: 0 } })
    .handle(({ payload }) => void seen.push(payload))
    .subscribe()
  await untilEmpty(database, queue)
  expect(seen).toEqual(['valid'])
  expect(log.of('message.failed')).toMatchObject([{ attempt: 1, error: 'Error: the registry is down' }])
})

test('a schema that throws holds back the later messages of the key, not the earlier ones, in batches as well', async ({
  database,
  sluice,
  queue,
}) => {
  let failures = 1
  const schema = standardSchema((value) => {
    if (value === 2 && failures-- > 0) throw new Error('the registry is down')
    return { value }
  })
  const typed = startTestSluice(database, { queues: { [queue]: { schema } } })
  await put(sluice, queue, [1, 2, 3], { orderingKey: 'a' })
  const seen: unknown[] = []
  typed
    .pipeline(queue, { retry: { kind: 'fixed', delay: 20 } })
    .handleBatch((messages) => void seen.push(...messages.map(({ payload }) => payload)))
    .subscribe()
  await untilEmpty(database, queue)
  expect(seen).toEqual([1, 2, 3])
})

test('a schema that takes for ever is ended as a handler is', async ({ database, sluice, queue }) => {
  const schema = standardSchema((value) => (value === 'stuck' ? new Promise(() => undefined) : { value }))
  const typed = startTestSluice(database, { queues: { [queue]: { schema } } })
  const log = new EventLog(typed.events)
  await put(sluice, queue, ['stuck'])
  typed
    .pipeline(queue, { timeout: 50, retry: { kind: 'fixed', delay: '1h' } })
    .handle(() => undefined)
    .subscribe()
  expect(await log.first('message.failed')).toMatchObject({ error: expect.stringContaining('within 50 ms') })
})

test('text in the complaints of a schema that cannot be stored does not hurt the batch', async ({
  database,
  sluice,
  queue,
}) => {
  const schema = standardSchema(() => ({ issues: [{ message: 'NUL: \0' }] }))
  const typed = startTestSluice(database, { queues: { [queue]: { schema } } })
  await put(sluice, queue, [1])
  typed
    .pipeline(queue, { maxAttempts: 1 })
    .handle(() => undefined)
    .subscribe()
  await untilEmpty(database, queue)
  expect(await database.sql(DEAD, [queue])).toMatchObject([{ error: expect.stringContaining('NUL: \uFFFD') }])
})

function standardSchema(validate: (value: unknown) => unknown): StandardSchemaV1 {
  return { '~standard': { version: 1, vendor: 'test', validate: validate as never } }
}
