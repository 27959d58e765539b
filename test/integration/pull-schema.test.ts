import { describe, expect } from 'vitest'
import { z } from 'zod'
import type { Sluice } from '../../src/sluice.ts'
import { EventLog } from '../support/event-log.ts'
import { runOut } from '../support/rows/claims.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'

describe('claims of a queue with a schema', () => {
  const Count = z.object({ count: z.coerce.number() })

  test('give its output, and bury what does not fit', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: Count } } })
    await put(startTestSluice(database), queue, [{ count: '1' }, { count: 'x' }, { count: 3 }])
    const claim = await sluice.claim(queue)
    expect(claim?.messages.map(({ payload }) => payload)).toEqual([{ count: 1 }, { count: 3 }])
    const { deadLetters } = await sluice.operate.deadLetters.list({ queue })
    expect(deadLetters).toMatchObject([{ reason: 'the payload does not fit its schema', attempt: 1 }])
  })

  test('pop what fits', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: Count } } })
    await put(startTestSluice(database), queue, [{ count: 'x' }, { count: '2' }])
    const popped = await sluice.pop(queue, { limit: 5 })
    expect(popped.map(({ payload }) => payload)).toEqual([{ count: 2 }])
    expect(await counts(sluice, queue)).toEqual({ claimed: 0, free: 0, total: 0 })
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
    await enqueuing.operate.settings.set(queue, { retry: { kind: 'fixed', delay: '1d' } })
    const [first] = await put(enqueuing, queue, [1])
    const [second] = await put(enqueuing, queue, [2], { maxAttempts: 1 })
    expect(await sluice.claim(queue)).toBeUndefined()
    expect(await sluice.operate.message(queue, first!)).toMatchObject({ state: 'retrying', attempt: 1 })
    const error = 'Error: no dictionary'
    expect(log.of('message.failed')).toMatchObject([{ queue, id: first, attempt: 1, error }])
    expect(log.of('message.failed')[0]?.retryInMs).toBeGreaterThanOrEqual(800)
    expect(log.of('message.failed')[0]?.retryInMs).toBeLessThanOrEqual(1_200)
    expect(log.of('message.dead')).toMatchObject([{ id: second, reason: 'failed 1 of 1 attempts', error }])
    expect(await sluice.operate.deadLetters.get(queue, second!)).toMatchObject({ reason: 'failed 1 of 1 attempts' })
  })

  // It has half of the time that the claim lasts. The other half is for the settlement.
  test('does not keep a claim, which is retried when half of its time has passed', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: hanging } })
    const [id] = await put(startTestSluice(database), queue, [1])
    expect(await sluice.claim(queue, { ttl: '8s' })).toBeUndefined()
    expect(await sluice.operate.message(queue, id!)).toMatchObject({ state: 'retrying', lastError: TOO_LATE })
  })

  test('does not keep a claim that is got by its number', async ({ database, queue }) => {
    const { claims } = startTestSluice(database, { queues: { [queue]: hanging } }).operate
    const other = startTestSluice(database)
    const [id] = await put(other, queue, [1])
    const claim = await other.claim(queue, { ttl: '8s' })
    expect(await claims.get(queue, claim!.id)).toMatchObject({ messages: [] })
    expect(await other.operate.message(queue, id!)).toMatchObject({ state: 'retrying', lastError: TOO_LATE })
  })
})

test('a claim that cannot settle what it refuses gives all of it back', async ({ database, queue }) => {
  await using _ = await refusingDeadLetters(database, queue)
  const sluice = startTestSluice(database, { queues: { [queue]: { schema: z.object({ count: z.number() }) } } })
  await put(startTestSluice(database), queue, [{ count: 1 }, { count: 'x' }])
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

const TOO_LATE = 'The schema did not answer in time'

async function counts(sluice: Sluice, queue: string) {
  const [status] = await sluice.operate.queues({ queue })
  const { inFlight = 0, ready = 0, scheduled = 0, retrying = 0 } = status ?? {}
  return { claimed: inFlight, free: ready, total: inFlight + ready + scheduled + retrying }
}
