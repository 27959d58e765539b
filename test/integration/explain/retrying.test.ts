import { describe, expect } from 'vitest'
import type { Duration } from '../../../src/basics/time/duration.ts'
import { retryLater } from '../../../src/message.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { busyWorker, reasonOf, words } from '../../support/explain/reasons.ts'
import { register } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Handles what is due once, and fails: each message is tried again after the time that is its payload. */
async function failDue(sluice: Sluice, queue: string): Promise<void> {
  await sluice
    .pipeline(queue)
    .handle(({ payload }) => retryLater({ after: payload as Duration, error: 'the shop\nis closed' }))
    .runOnce()
}

/** A live worker that takes nothing. */
const consumed = (database: TestDatabase, queue: string) =>
  register(database, { name: `w.${queue}`, queues: [queue], alive: true })

describe('a queue whose messages have failed', () => {
  test('names the only one, with its attempt, its error, its next attempt and what runs it now', async ({
    database,
    queue,
    sluice,
  }) => {
    await consumed(database, queue)
    const [id = ''] = await put(sluice, queue, ['1h'], { maxAttempts: 5 })
    await failDue(sluice, queue)
    const explain = () => sluice.operate.queues.explain(queue)
    const { headline, others } = await explain()
    expect(headline).toMatchObject({
      reason: 'retrying',
      explanation: expect.stringMatching(
        new RegExp(
          `^1 message has failed and waits for its next attempt: message ${id}, whose attempt 1 of 5 failed \\d+m?s ago: "the shop is closed"\\. It is tried again in (?:1h|59m \\d+s)\\.$`,
        ),
      ),
      since: expect.any(Date),
      until: expect.any(Date),
      details: { count: 1, more: false, message: id, attempt: 1, maxAttempts: 5, error: 'the shop\nis closed' },
      remedy: `npx sluice message run-now ${queue} ${id}`,
    })
    expect(others).toEqual([])
    await database.sql('UPDATE sluice.message SET attempt = 3 WHERE id = $1', [id])
    expect((await explain()).headline.remedy).toBe(
      `npx sluice message run-now ${queue} ${id} # or, if it cannot succeed: npx sluice message cancel ${queue} ${id}`,
    )
    await sluice.operate.messages.runNow(queue, id)
    expect(words(await explain())).toEqual(['due_now'])
  })

  test('counts several, and names the one that is tried next', async ({ database, queue, sluice }) => {
    await consumed(database, queue)
    const [, next = ''] = await put(sluice, queue, ['3h', '1h', '2h'])
    await failDue(sluice, queue)
    const explanation = await sluice.operate.queues.explain(queue)
    expect(words(explanation)).toEqual(['retrying'])
    expect(explanation.headline).toMatchObject({
      explanation: expect.stringMatching(
        new RegExp(
          `^3 messages have failed and wait for their next attempt\\. The next is message ${next}, whose attempt 1 failed `,
        ),
      ),
      details: { count: 3, more: false, message: next },
      remedy: `npx sluice message run-now ${queue} ${next}`,
    })
  })

  test('counts 1,000 of them exactly, and says of more that they are at least so many', async ({
    database,
    queue,
    sluice,
  }) => {
    await consumed(database, queue)
    const fail = (count: number) =>
      database.sql(
        `INSERT INTO sluice.message (queue, due_at, attempt, failed_at, last_error, payload)
         SELECT $1, clock_timestamp() + interval '1 hour', 2, clock_timestamp(), 'no card', '{}' FROM generate_series(1, $2)`,
        [queue, count],
      )
    await fail(1_000)
    const { headline } = await sluice.operate.queues.explain(queue)
    expect(headline).toMatchObject({ reason: 'retrying', details: { count: 1_000, more: false } })
    expect(headline.explanation).toMatch(/^1000 messages have failed and wait for their next attempt\./)
    await fail(500)
    expect((await sluice.operate.queues.explain(queue)).headline).toMatchObject({
      explanation: expect.stringMatching(/^At least 1001 messages have failed /),
      details: { count: 1_001, more: true },
    })
  })

  test('says so first, and then when the next message falls due that has not failed, be it sooner or later', async ({
    database,
    queue,
    sluice,
  }) => {
    await consumed(database, queue)
    await put(sluice, queue, ['1h'])
    await failDue(sluice, queue)
    for (const [delay, said] of [
      ['2h', /^The next message that has not failed falls due in 1h 59m\.$/],
      ['10m', /^The next message that has not failed falls due in 9m \d+s\.$/],
    ] as const) {
      await put(sluice, queue, [1], { delay })
      const explanation = await sluice.operate.queues.explain(queue)
      expect(words(explanation)).toEqual(['retrying', 'scheduled'])
      expect(reasonOf(explanation, 'scheduled').explanation).toMatch(said)
    }
  })

  test('says so behind what is due and in flight', async ({ queue, sluice }) => {
    const [failed = ''] = await put(sluice, queue, ['1h'])
    await failDue(sluice, queue)
    await busyWorker(sluice, queue)
    await put(sluice, queue, [1])
    const explain = () => sluice.operate.queues.explain(queue)
    await waitFor(async () => words(await explain()).includes('in_flight'), { what: 'the record of the batch' })
    const explanation = await explain()
    expect(words(explanation)).toEqual(['due_now', 'in_flight', 'retrying'])
    expect(reasonOf(explanation, 'retrying').details).toMatchObject({ count: 1, message: failed })
  })

  test('says of one that holds its key what waits for it, and counts it again only beside others', async ({
    database,
    queue,
    sluice,
  }) => {
    await consumed(database, queue)
    const explain = () => sluice.operate.queues.explain(queue)
    const [head = ''] = await put(sluice, queue, ['1h'], { orderingKey: 'k' })
    await failDue(sluice, queue)
    expect((await explain()).headline).toMatchObject({ reason: 'retrying', details: { message: head } })
    await put(sluice, queue, ['1h'], { orderingKey: 'k' })
    expect(words(await explain())).toEqual(['held'])
    await put(sluice, queue, ['2h'])
    await failDue(sluice, queue)
    const both = await explain()
    expect(words(both)).toEqual(['held', 'retrying'])
    expect(reasonOf(both, 'held').details).toMatchObject({ message: head })
    expect(reasonOf(both, 'retrying').details).toMatchObject({ count: 2, message: head })
  })

  test('leaves out those that have expired, with an ordering key and without', async ({ database, queue, sluice }) => {
    await consumed(database, queue)
    await put(sluice, queue, ['1h'], { ttl: '1d', orderingKey: 'k' })
    await put(sluice, queue, ['1h', '2h'], { ttl: '1d' })
    await failDue(sluice, queue)
    const explain = () => sluice.operate.queues.explain(queue)
    expect(words(await explain())).toEqual(['retrying'])
    const expire = (due: string) =>
      database.sql(
        `UPDATE sluice.message SET expires_at = clock_timestamp() - interval '1 second'
         WHERE queue = $1 AND due_at < clock_timestamp() + $2::interval`,
        [queue, due],
      )
    await expire('90 minutes')
    const some = await explain()
    expect(words(some)).toEqual(['retrying', 'expired'])
    expect(reasonOf(some, 'retrying').details).toMatchObject({ count: 1 })
    expect(reasonOf(some, 'expired').details).toEqual({ count: 2 })
    await expire('1 day')
    expect(words(await explain())).toEqual(['expired'])
  })

  test('and is of a group says so before it says that all events are read', async ({ database, queue, sluice }) => {
    await consumed(database, `${queue}:all`)
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'all', { from: 'start' })
    await database.sql(`SELECT sluice.append($1, '{}')`, [queue])
    await sluice
      .pipeline(queue, { group: 'all' })
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    const explain = () => sluice.operate.queues.explain(`${queue}:all`)
    // The record of a batch is removed after its COMMIT.
    await waitFor(async () => !words(await explain()).includes('in_flight'), { what: 'the end of the record' })
    const explanation = await explain()
    expect(words(explanation)).toEqual(['retrying', 'empty'])
    const message = await sluice.groups.messageOf(queue, 'all', 1)
    expect(explanation.headline.details).toMatchObject({ count: 1, message })
  })
})
