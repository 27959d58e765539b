import { expect } from 'vitest'
import { ack, deadLetter, type Message, retryLater, snooze } from '../../../src/message.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { test as base, put } from '../../support/sluice.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

const test = base.extend('written', { scope: 'file' }, async ({ database }) => {
  await database.sql('CREATE TABLE written (queue text, n integer)')
  return async (queue: string) => {
    const rows = await database.sql<{ n: number }>('SELECT n FROM written WHERE queue = $1 ORDER BY n', [queue])
    return rows.map(({ n }) => n)
  }
})

const INSERT_ALL = 'INSERT INTO written SELECT $1, unnest($2::integer[])'

function numbersOf(messages: readonly Message[]): readonly number[] {
  return messages.map(({ payload }) => Number(payload))
}

test('handles a whole batch by one statement, which commits with the removal of its messages', async ({
  database,
  sluice,
  queue,
  written,
  log,
}) => {
  const calls: (readonly number[])[] = []
  sluice
    .pipeline(queue, { batchSize: 4 })
    .handleBatch(async (messages, { tx }) => {
      calls.push(numbersOf(messages))
      await tx.query(INSERT_ALL, [queue, numbersOf(messages)])
    })
    .subscribe()
  await put(sluice, queue, [1, 2, 3, 4, 5, 6])
  await untilEmpty(database, queue)
  expect(calls).toEqual([
    [1, 2, 3, 4],
    [5, 6],
  ])
  expect(await written(queue)).toEqual([1, 2, 3, 4, 5, 6])
  expect(log.of('batch.committed').map(({ acked }) => acked)).toEqual([4, 2])
})

test('settles each message by its own outcome, and keeps what was written', async ({
  database,
  sluice,
  queue,
  written,
  log,
}) => {
  sluice
    .pipeline(queue, LATER)
    .handleBatch(async (messages, { tx }) => {
      await tx.query(INSERT_ALL, [queue, numbersOf(messages)])
      return [ack(), retryLater({ error: 'two' }), snooze({ after: '1h' }), deadLetter('four'), undefined]
    })
    .subscribe()
  await put(sluice, queue, [1, 2, 3, 4, 5])
  expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1, snoozed: 1, dead: 1 })
  expect(
    await database.sql('SELECT payload, attempt, last_error FROM sluice.message WHERE queue = $1 ORDER BY id', [queue]),
  ).toEqual([
    { payload: 2, attempt: 1, last_error: 'two' },
    { payload: 3, attempt: 0, last_error: null },
  ])
  expect(await database.sql('SELECT payload, reason FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual([
    { payload: 4, reason: 'four' },
  ])
  expect(await written(queue)).toEqual([1, 2, 3, 4, 5])
})

test('keeps what was written by a batch of one just the same', async ({ sluice, queue, written, log }) => {
  sluice
    .pipeline(queue, LATER)
    .handleBatch(async (messages, { tx }) => {
      await tx.query(INSERT_ALL, [queue, numbersOf(messages)])
      return [retryLater()]
    })
    .subscribe()
  await put(sluice, queue, [1])
  expect(await log.first('batch.committed')).toMatchObject({ retried: 1 })
  expect(await written(queue)).toEqual([1])
})

test('that throws rolls back and handles each message alone, so that only the one to blame fails', async ({
  database,
  sluice,
  queue,
  written,
  log,
}) => {
  const calls: (readonly number[])[] = []
  sluice
    .pipeline(queue, LATER)
    .handleBatch(async (messages, { tx }) => {
      calls.push(numbersOf(messages))
      await tx.query(INSERT_ALL, [queue, numbersOf(messages)])
      if (numbersOf(messages).includes(3)) await tx.query('SELECT 1 / 0')
    })
    .subscribe()
  await put(sluice, queue, [1, 2, 3, 4])
  expect(await log.first('batch.committed')).toMatchObject({ acked: 3, retried: 1 })
  expect(calls).toEqual([[1, 2, 3, 4], [1], [2], [3], [4]])
  expect(await written(queue)).toEqual([1, 2, 4])
  expect(await payloadsOf(database, queue)).toEqual([3])
})

test('that throws hands out the stored payload and headers again, whatever it has changed of them', async ({
  sluice,
  queue,
  log,
}) => {
  const calls: unknown[] = []
  sluice
    .pipeline(queue, LATER)
    .handleBatch((messages) => {
      calls.push(structuredClone(messages.map(({ payload, headers }) => ({ payload, headers }))))
      for (const { payload, headers } of messages) {
        Object.assign(payload as object, { n: 0, changed: true })
        Object.assign(headers, { changed: true })
      }
      for (const message of messages) Object.assign(message, { attempt: 7 })
      if (messages.length > 1) throw new Error('failed on purpose')
    })
    .subscribe()
  await put(sluice, queue, [{ n: 1 }, { n: 2 }], { headers: { trace: 't' } })
  expect(await log.first('batch.committed')).toMatchObject({ acked: 2 })
  expect(log.of('batch.failed')).toEqual([
    { kind: 'batch.failed', queue, messages: 2, error: 'Error: failed on purpose' },
  ])
  expect(log.of('batch.failed')[0]?.cause).toBeInstanceOf(Error)
  const [one, two] = [1, 2].map((n) => ({ payload: { n }, headers: { trace: 't' } }))
  expect(calls).toEqual([[one, two], [one], [two]])
})

test('that throws handles no message of a key after a failed one of that key', async ({ sluice, queue, log }) => {
  const calls: (readonly number[])[] = []
  sluice
    .pipeline(queue, LATER)
    .handleBatch((messages) => {
      calls.push(numbersOf(messages))
      if (numbersOf(messages).includes(1)) throw new Error('failed on purpose')
    })
    .subscribe()
  await put(sluice, queue, [1, 2], { orderingKey: 'a' })
  expect(await log.first('batch.committed')).toMatchObject({ acked: 0, retried: 1 })
  expect(calls).toEqual([[1, 2], [1]])
})

test('that postpones two messages of a key for different times goes on with the first of them', async ({
  database,
  sluice,
  queue,
}) => {
  const calls: (readonly number[])[] = []
  sluice
    .pipeline(queue, { batchSize: 3 })
    .handleBatch((messages) => {
      calls.push(numbersOf(messages))
      if (calls.length === 1) return [snooze({ after: 300 }), retryLater({ after: 10 }), ack()]
      return undefined
    })
    .subscribe()
  await put(sluice, queue, [1, 2, 3], { orderingKey: 'a' })
  await put(sluice, queue, [4], { orderingKey: 'a' })
  await untilEmpty(database, queue)
  expect(calls.flat().filter((n, at, all) => all.lastIndexOf(n) === at)).toEqual([3, 1, 2, 4])
})

test.for([
  ['too few outcomes', [ack()]],
  ['something else', 'done'],
  ['an outcome that is none', [ack(), { kind: 'done' }]],
] as const)('that returns %s is asked again for each message', async ([, result], { sluice, queue, log }) => {
  const calls: (readonly number[])[] = []
  sluice
    .pipeline(queue, LATER)
    .handleBatch((messages) => {
      calls.push(numbersOf(messages))
      return messages.length > 1 ? (result as never) : undefined
    })
    .subscribe()
  await put(sluice, queue, [1, 2])
  expect(await log.first('batch.committed')).toMatchObject({ acked: 2 })
  expect(calls).toEqual([[1, 2], [1], [2]])
})

test('enqueues in its transaction', async ({ database, sluice, queue }) => {
  sluice
    .pipeline(queue)
    .handleBatch(async (messages, { enqueue }) => {
      for (const { payload } of messages) await enqueue(`${queue}.next`, payload)
      if (messages.length > 1) throw new Error('one by one, please')
    })
    .subscribe()
  await put(sluice, queue, [1, 2])
  await untilEmpty(database, queue)
  expect(await payloadsOf(database, `${queue}.next`)).toEqual([1, 2])
})

test('that throws late in leased mode handles each message alone all the same', async ({ sluice, queue, log }) => {
  const timeout = 50
  const calls: (readonly number[])[] = []
  await put(sluice, queue, [1, 2, 3])
  const { counts } = await sluice
    .pipeline(queue, { ...LATER, mode: 'leased', timeout })
    .handleBatch((messages) => {
      calls.push(numbersOf(messages))
      if (calls.length > 1) {
        if (numbersOf(messages).includes(2)) throw new Error('two')
        return
      }
      const late = performance.now() + timeout + 1
      while (performance.now() < late);
      throw new Error('late')
    })
    .runOnce()
  expect(calls).toEqual([[1, 2, 3], [1], [2], [3]])
  expect(counts).toMatchObject({ acked: 2, retried: 1 })
  expect(log.of('batch.failed')).toHaveLength(1)
})
