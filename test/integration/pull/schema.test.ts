import { describe, expect } from 'vitest'
import { z } from 'zod'
import type { Sluice } from '../../../src/sluice.ts'
import { EventLog } from '../../support/event-log.ts'
import { runOut } from '../../support/rows/claims.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

describe('claims of a queue with a schema', () => {
  const Count = z.object({ count: z.coerce.number() })

  const MISFIT = 'SluiceError: payload: expected what its schema accepts, received an object. count: '

  test('give its output, and have what does not fit tried again', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: Count } } })
    const log = new EventLog(sluice.events)
    const [, id] = await put(startTestSluice(database), queue, [{ count: '1' }, { count: 'x' }, { count: 3 }])
    const claim = await sluice.claim(queue)
    expect(claim?.messages.map(({ payload }) => payload)).toEqual([{ count: 1 }, { count: 3 }])
    const lastError = expect.stringContaining(MISFIT)
    expect(await sluice.operate.messages.get(queue, id!)).toMatchObject({ state: 'retrying', attempt: 1, lastError })
    expect(log.of('message.failed')).toMatchObject([{ id, attempt: 1, error: lastError }])
  })

  test('pop what fits', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: Count } } })
    const [id] = await put(startTestSluice(database), queue, [{ count: 'x' }, { count: '2' }])
    const popped = await sluice.pop(queue, { limit: 5 })
    expect(popped.map(({ payload }) => payload)).toEqual([{ count: 2 }])
    expect(await sluice.operate.messages.get(queue, id!)).toMatchObject({ state: 'retrying', attempt: 1 })
    expect(await counts(sluice, queue)).toEqual({ claimed: 0, free: 0, total: 1 })
  })

  test('that are read by their number change nothing: what does not fit stays with its holder', async ({
    database,
    queue,
  }) => {
    const other = startTestSluice(database)
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: Count } } })
    const log = new EventLog(stricter.events)
    const [misfit, fit] = await put(other, queue, [{ count: 'x' }, { count: '2' }])
    const held = await other.claim(queue)
    const read = await stricter.operate.claims.get(queue, held!.id)
    expect(read.messages.map(({ id, payload }) => [id, payload])).toEqual([[fit, { count: 2 }]])
    expect(log.of('message.failed')).toEqual([])
    expect(await held!.settle(misfit!)).toEqual({ settled: [misfit], refused: [] })
  })

  test('that are read by their number give all of it back, also what does not fit', async ({ database, queue }) => {
    const other = startTestSluice(database)
    await put(other, queue, [{ count: 'x' }])
    const held = await other.claim(queue)
    const stricter = startTestSluice(database, { queues: { [queue]: { schema: Count } } })
    const read = await stricter.operate.claims.get(queue, held!.id)
    expect(await read.release()).toBe(1)
    expect(await counts(other, queue)).toEqual({ claimed: 0, free: 1, total: 1 })
  })
})

test('pop buries what has no attempt left, with a schema and without', async ({ database, queue }) => {
  const other = startTestSluice(database)
  for (const sluice of [other, startTestSluice(database, { queues: { [queue]: { schema: z.number() } } })]) {
    const [spent, left] = await put(other, queue, [1, 2], { maxAttempts: 1 })
    const claim = await other.claim(queue, { limit: 1 })
    await runOut(database, queue, claim!.id)
    expect((await sluice.pop(queue, { limit: 2 })).map(({ id }) => id)).toEqual([left])
    expect(await other.operate.deadLetters.get(queue, spent!)).toMatchObject({ reason: 'failed 1 of 1 attempts' })
  }
})

describe('a schema that fails', () => {
  const failing = (validate: () => Promise<never>) =>
    ({
      schema: { '~standard': { version: 1, vendor: 'test', validate } },
    }) as const
  const broken = failing(() => Promise.reject(new Error('no dictionary')))
  const hanging = failing(() => new Promise(() => undefined))

  test('fails each message, with an event, and buries it at its last attempt', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: broken } })
    const log = new EventLog(sluice.events)
    const enqueuing = startTestSluice(database)
    // It goes by the default policy, whatever the queue has been told.
    await enqueuing.operate.queues.settings.set(queue, { retry: { kind: 'fixed', delay: '1d' } })
    const [first] = await put(enqueuing, queue, [1])
    const [second] = await put(enqueuing, queue, [2], { maxAttempts: 1 })
    expect(await sluice.claim(queue)).toBeUndefined()
    expect(await sluice.operate.messages.get(queue, first!)).toMatchObject({ state: 'retrying', attempt: 1 })
    const error = 'Error: no dictionary'
    expect(log.of('message.failed')).toMatchObject([{ queue, id: first, attempt: 1, error }])
    expect(log.of('message.failed')[0]?.retryInMs).toBeGreaterThanOrEqual(800)
    expect(log.of('message.failed')[0]?.retryInMs).toBeLessThanOrEqual(1_200)
    expect(log.of('message.dead')).toMatchObject([{ id: second, reason: 'failed 1 of 1 attempts', error }])
    expect(await sluice.operate.deadLetters.get(queue, second!)).toMatchObject({ reason: 'failed 1 of 1 attempts' })
  })

  // It has half of the time that the claim lasts. The other half is for the settlement.
  test('fails those that it does not answer in half of the time of the claim, and no other', async ({
    database,
    queue,
  }) => {
    const { schema } = hanging
    const validate = answering((value) => value !== 1 && value !== 4)
    const silent = { schema: { '~standard': { ...schema['~standard'], validate } } }
    const sluice = startTestSluice(database, { queues: { [queue]: silent } })
    const [first, , , fourth] = await put(startTestSluice(database), queue, [1, 2, 3, 4, 5, 6], { maxAttempts: 1 })
    const claim = await sluice.claim(queue, { lease: '8s' })
    expect(claim?.messages.map(({ payload }) => payload)).toEqual([2, 3, 5, 6])
    for (const id of [first!, fourth!])
      expect(await sluice.operate.deadLetters.get(queue, id)).toMatchObject({ error: TOO_LATE })
  })

  test('does not keep a claim that is got by its number, and nothing of it changes', async ({ database, queue }) => {
    const { claims } = startTestSluice(database, { queues: { [queue]: hanging } }).operate
    const other = startTestSluice(database)
    const [id] = await put(other, queue, [1])
    const claim = await other.claim(queue, { lease: '8s' })
    expect(await claims.get(queue, claim!.id)).toMatchObject({ messages: [] })
    expect(await other.operate.messages.get(queue, id!)).toMatchObject({ state: 'in_flight', lastError: null })
  })
})

test('a claim that cannot settle what it refuses gives all of it back', async ({ database, queue }) => {
  await using _ = await refusingDeadLetters(database, queue)
  const sluice = startTestSluice(database, { queues: { [queue]: { schema: z.object({ count: z.number() }) } } })
  await put(startTestSluice(database), queue, [{ count: 1 }, { count: 'x' }], { maxAttempts: 1 })
  await expect(sluice.claim(queue)).rejects.toThrow('no dead letters here')
  expect(await counts(sluice, queue)).toEqual({ claimed: 0, free: 2, total: 2 })
})

/** Until it is disposed of, nothing of the queue becomes a dead letter. */
async function refusingDeadLetters(database: TestDatabase, queue: string): Promise<AsyncDisposable> {
  const name = `"refuse ${queue}"`
  await database.sql(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no dead letters here'; END $$;
    CREATE TRIGGER ${name} BEFORE INSERT ON sluice.dead_letter FOR EACH ROW WHEN (new.queue = '${queue}')
    EXECUTE FUNCTION ${name}();`)
  return {
    [Symbol.asyncDispose]: async () => void (await database.sql(`DROP FUNCTION ${name} CASCADE`)),
  }
}

/** A schema that takes what it answers at all. */
function answering(answers: (value: unknown) => boolean) {
  return (value: unknown) => (answers(value) ? Promise.resolve({ value }) : new Promise<never>(() => undefined))
}

const TOO_LATE = 'The schema did not answer in time'

async function counts(sluice: Sluice, queue: string) {
  const [status] = await sluice.operate.queues.list({ queue })
  const { inFlight = 0, ready = 0, scheduled = 0, retrying = 0 } = status ?? {}
  return { claimed: inFlight, free: ready, total: inFlight + ready + scheduled + retrying }
}
