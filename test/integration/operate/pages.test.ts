import { describe, expect } from 'vitest'
import type { DeadLettersOptions, MessagesOptions, Operate } from '../../../src/index.ts'
import { REACH } from '../../../src/table/operate/messages/message-pages.ts'
import { bury } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'

/** The ids of every page that follows, until there is no more. */
async function pagesOf(operate: Operate, options: MessagesOptions): Promise<readonly (readonly string[])[]> {
  const { messages, next } = await operate.messages.list(options)
  const ids = messages.map(({ id }) => id)
  return next === null ? [ids] : [ids, ...(await pagesOf(operate, { ...options, after: next }))]
}

async function deadPagesOf(operate: Operate, options: DeadLettersOptions): Promise<readonly (readonly string[])[]> {
  const { deadLetters, next } = await operate.deadLetters.list(options)
  const ids = deadLetters.map(({ id }) => id)
  return next === null ? [ids] : [ids, ...(await deadPagesOf(operate, { ...options, after: next }))]
}

describe('pages of messages', () => {
  test('hold each message once, newest or oldest first', async ({ sluice, queue }) => {
    const [a, b, c, d, e] = await put(sluice, queue, [1, 2, 3, 4, 5])
    await put(sluice, `${queue}.other`, [1])
    expect(await pagesOf(sluice.operate, { queue, limit: 2 })).toEqual([[e, d], [c, b], [a]])
    expect(await pagesOf(sluice.operate, { queue, limit: 2, order: 'oldest' })).toEqual([[a, b], [c, d], [e]])
    expect(await pagesOf(sluice.operate, { queue, limit: 5 })).toEqual([[e, d, c, b, a]])
  })

  test('stay right while messages come and go between them', async ({ database, sluice, queue }) => {
    const [a, b, c, d, e] = await put(sluice, queue, [1, 2, 3, 4, 5])
    const first = await sluice.operate.messages.list({ queue, limit: 2 })
    expect(first.messages.map(({ id }) => id)).toEqual([e, d])
    expect(await sluice.operate.messages.list({ queue, limit: 2, after: null })).toMatchObject({ next: first.next })
    await put(sluice, queue, [6, 7])
    // The last one of the page, by which the next one is found, and one that is still to come.
    await database.sql('DELETE FROM sluice.message WHERE id = ANY ($1)', [[d, b]])
    expect(await pagesOf(sluice.operate, { queue, limit: 2, after: first.next! })).toEqual([[c, a]])
  })

  test('of an ordering key hold its messages and no others', async ({ sluice, queue }) => {
    const ids: string[] = []
    for (let at = 0; at < 3; at++) {
      ids.push(...(await put(sluice, queue, [at], { orderingKey: 'wanted' })))
      await put(sluice, queue, [at], { orderingKey: `other ${at}` })
      await put(sluice, queue, [at])
    }
    const [a, b, c] = ids
    const options = { queue, orderingKey: 'wanted', limit: 2 }
    expect(await pagesOf(sluice.operate, options)).toEqual([[c, b], [a]])
    expect(await pagesOf(sluice.operate, { ...options, order: 'oldest' })).toEqual([[a, b], [c]])
    expect(await pagesOf(sluice.operate, { ...options, orderingKey: 'none' })).toEqual([[]])
  })

  test('tell the keys of a slot apart', async ({ database, sluice, queue }) => {
    const [{ other } = { other: '' }] = await database.sql<{ other: string }>(
      `SELECT 'key ' || n AS other FROM generate_series(1, 10000) n
       WHERE hashtextextended(('key ' || n) COLLATE "C", 0) & 255 = hashtextextended('wanted' COLLATE "C", 0) & 255 LIMIT 1`,
    )
    const [a] = await put(sluice, queue, [1], { orderingKey: 'wanted' })
    await put(sluice, queue, [2], { orderingKey: other })
    expect(await pagesOf(sluice.operate, { queue, orderingKey: 'wanted' })).toEqual([[a]])
  })

  test('are chosen by state, type, attempts, and whether an earlier message holds them', async ({
    database,
    sluice,
    queue,
  }) => {
    const [ready] = await put(sluice, queue, [1], { type: 'a.b' })
    const [scheduled] = await put(sluice, queue, [2], { delay: '1h' })
    const [failed] = await put(sluice, queue, [3], { orderingKey: 'k' })
    const [behind] = await put(sluice, queue, [4], { orderingKey: 'k' })
    await failOnce(database, queue, failed!)
    const ids = async (options: Omit<MessagesOptions, 'queue'>) =>
      (await pagesOf(sluice.operate, { queue, ...options })).flat()
    expect(await ids({ state: 'ready' })).toEqual([behind, ready])
    expect(await ids({ state: 'scheduled' })).toEqual([scheduled])
    expect(await ids({ state: 'retrying' })).toEqual([failed])
    expect(await ids({ state: 'in_flight' })).toEqual([])
    expect(await ids({ held: true })).toEqual([behind])
    expect(await ids({ held: true, orderingKey: 'k' })).toEqual([behind])
    expect(await ids({ held: false, state: 'ready' })).toEqual([ready])
    expect(await ids({ minAttempts: 1 })).toEqual([failed])
    expect(await ids({ minAttempts: 2, orderingKey: 'k' })).toEqual([])
    expect(await ids({ type: 'a.b' })).toEqual([ready])
    expect((await sluice.operate.messages.list({ queue, held: true })).messages[0]).toMatchObject({ heldBy: failed })
  })

  test.for([{}, { orderingKey: 'wide' }])(
    'look at ten thousand messages with a filter, and go on from there: %o',
    async (key, { database, sluice, queue }) => {
      const rare = async () => (await put(sluice, queue, ['rare'], { type: 'rare', ...key }))[0]!
      const oldest = await rare()
      await database.sql(
        `INSERT INTO sluice.message (queue, payload, ordering_key) SELECT $1, '1', $2 FROM generate_series(1, $3::integer)`,
        [queue, 'orderingKey' in key ? key.orderingKey : null, REACH],
      )
      const newest = await rare()
      expect(await pagesOf(sluice.operate, { queue, type: 'rare', ...key })).toEqual([[newest], [oldest]])
      expect(await pagesOf(sluice.operate, { queue, type: 'rare', order: 'oldest', limit: 1, ...key })).toEqual([
        [oldest],
        [newest],
      ])
      const none = await pagesOf(sluice.operate, { queue, type: 'none', ...key })
      expect(none).toEqual([[], []])
    },
  )
})

describe('pages of dead letters', () => {
  test('hold each once, the latest first, of one queue and of all', async ({ database, sluice, queue }) => {
    await database.sql('DELETE FROM sluice.dead_letter')
    const [a, b] = await bury(database, { queue, count: 2, agoMs: 3_000 })
    const [c] = await bury(database, { queue: `${queue}.other`, agoMs: 2_000 })
    const [d] = await bury(database, { queue, agoMs: 1_000 })
    // Died at one instant: their ids decide.
    await database.sql(
      'UPDATE sluice.dead_letter SET died_at = (SELECT max(died_at) FROM sluice.dead_letter WHERE id = $1) WHERE id = $2',
      [a, b],
    )
    expect(await deadPagesOf(sluice.operate, { limit: 1 })).toEqual([[d], [c], [b], [a]])
    expect(await deadPagesOf(sluice.operate, { limit: 2 })).toEqual([
      [d, c],
      [b, a],
    ])
    expect(await deadPagesOf(sluice.operate, { queue, limit: 2 })).toEqual([[d, b], [a]])
  })

  test('stay right while dead letters come and go between them', async ({ database, sluice, queue }) => {
    const ids: string[] = []
    for (let at = 0; at < 5; at++) ids.push(...(await bury(database, { queue, agoMs: 10_000 - at * 1_000 })))
    const [a, b, c, d, e] = ids
    const first = await sluice.operate.deadLetters.list({ queue, limit: 2 })
    expect(first.deadLetters.map(({ id }) => id)).toEqual([e, d])
    expect(await sluice.operate.deadLetters.list({ queue, limit: 2, after: null })).toMatchObject({ next: first.next })
    await bury(database, { queue })
    await sluice.operate.deadLetters.redrive({ queue, ids: [d!, b!] })
    expect(await deadPagesOf(sluice.operate, { queue, limit: 2, after: first.next! })).toEqual([[c, a]])
  })

  test('are chosen by time, type, reason and error', async ({ database, sluice, queue }) => {
    const [old] = await bury(database, { queue, agoMs: 7_200_000, error: 'PaymentError: card declined' })
    const [typed] = await bury(database, { queue, type: 'a.b', reason: 'failed 20 of 20 attempts' })
    const ids = async (options: DeadLettersOptions) =>
      (await sluice.operate.deadLetters.list({ queue, ...options })).deadLetters.map(({ id }) => id)
    const hourAgo = new Date((await sluice.operate.now()).getTime() - 3_600_000)
    expect(await ids({})).toEqual([typed, old])
    expect(await ids({ diedBefore: hourAgo })).toEqual([old])
    expect(await ids({ diedAfter: hourAgo })).toEqual([typed])
    expect(await ids({ type: 'a.b' })).toEqual([typed])
    expect(await ids({ reason: 'FAILED 20' })).toEqual([typed])
    expect(await ids({ error: 'paymenterror' })).toEqual([old])
    expect(await ids({ error: '%' })).toEqual([])
    expect(await ids({ ids: [old!] })).toEqual([old])
    expect(await ids({ ids: [] })).toEqual([])
  })
})

/** As a failed attempt leaves a message with a key: due later, and holding its key. */
async function failOnce(database: TestDatabase, queue: string, id: string): Promise<void> {
  await database.sql(
    `WITH failed AS (
       UPDATE sluice.message SET attempt = 1, due_at = clock_timestamp() + interval '1 hour', failed_at = clock_timestamp()
       WHERE queue = $1 AND id = $2 RETURNING *
     )
     INSERT INTO sluice.slot (queue, slot, held)
     SELECT f.queue, f.slot, jsonb_build_object(f.ordering_key, jsonb_build_array(f.id, (extract(epoch FROM f.due_at) * 1000000)::bigint))
     FROM failed f`,
    [queue, id],
  )
}
