import { describe, expect, expectTypeOf } from 'vitest'
import type { ListedDeadLetter, ListedMessage } from '../../../src/index.ts'
import { listDeadLetters, listDeadLettersWithoutPayloads } from '../../../src/table/operate/messages/dead-letters.ts'
import { listMessages, listMessagesWithoutPayloads } from '../../../src/table/operate/messages/message-pages.ts'
import { PLAN_BY_INDEX } from '../../../src/table/planner.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'

const PAYLOAD = { number: 1 }
const HEADERS = { trace: 'abc' }

test('a list of messages has no payloads and headers if it is asked for without them', async ({ sluice, queue }) => {
  const [id = ''] = await put(sluice, queue, [PAYLOAD], { headers: HEADERS, orderingKey: 'a' })
  const { payload, headers, payloadJson, headersJson, ...rest } = (await sluice.operate.messages.get(queue, id))!
  expect([payload, headers]).toEqual([PAYLOAD, HEADERS])
  for (const filter of [{}, { state: 'ready' }, { orderingKey: 'a' }, { order: 'oldest' }] as const) {
    const { messages } = await sluice.operate.messages.listWithoutPayloads({ queue, ...filter })
    expectTypeOf(messages).toEqualTypeOf<readonly ListedMessage[]>()
    expect(messages).toEqual([{ ...rest, ...AGES }])
  }
  const all = await sluice.operate.messages.list({ queue })
  expect(all.messages).toEqual([{ ...rest, ...AGES, payload, headers, payloadJson, headersJson }])
})

test('a list of dead letters has none either', async ({ sluice, queue }) => {
  const [id = ''] = await put(sluice, queue, [PAYLOAD], { headers: HEADERS })
  await sluice
    .pipeline(queue, { maxAttempts: 1 })
    .handle(() => Promise.reject(new Error('no')))
    .runOnce()
  const { payload, headers, payloadJson, headersJson, ...rest } = (await sluice.operate.deadLetters.get(queue, id))!
  expect([payload, headers]).toEqual([PAYLOAD, HEADERS])
  const { deadLetters } = await sluice.operate.deadLetters.listWithoutPayloads({ queue })
  expectTypeOf(deadLetters).toEqualTypeOf<readonly ListedDeadLetter[]>()
  expect(deadLetters).toEqual([{ ...rest, ageMs: expect.any(Number) }])
  expect((await sluice.operate.deadLetters.list({ queue })).deadLetters).toMatchObject([
    { payload, headers, payloadJson, headersJson },
  ])
})

/** They differ from one reading to the next. */
const AGES = { enqueuedAgoMs: expect.any(Number), dueInMs: expect.any(Number) }

describe('a page of large messages', () => {
  test('costs no more than one of small ones without payloads, and more with them', async ({ database, queue }) => {
    const insert = `INSERT INTO sluice.message (queue, payload, headers) SELECT $1, to_jsonb(${LARGE}), jsonb_build_object('h', ${LARGE})
      FROM generate_series(1, 20)`
    for (const [name, size] of sizesOf(queue)) await database.sql(insert, [name, size])
    const of = (name: string) => ({ ...ALL_MESSAGES, queue: name })
    await expectCosts(database, queue, {
      whole: (name) => (execute) => listMessages(execute, of(name), PAGE),
      without: (name) => (execute) => listMessagesWithoutPayloads(execute, of(name), PAGE),
    })
  })

  test('costs no more as dead letters', async ({ database, queue }) => {
    const insert = `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
      SELECT $1, n, 5, 1, to_jsonb(${LARGE}), jsonb_build_object('h', ${LARGE}), 1, 'no', now() FROM generate_series(1, 20) n`
    for (const [name, size] of sizesOf(queue)) await database.sql(insert, [name, size])
    const of = (name: string) => ({ ...ALL_DEAD_LETTERS, queue: name })
    await expectCosts(database, queue, {
      whole: (name) => (execute) => listDeadLetters(execute, of(name), PAGE),
      without: (name) => (execute) => listDeadLettersWithoutPayloads(execute, of(name), PAGE),
    })
  })
})

const PAGE = { order: null, after: null, limit: 50 }
const ALL_MESSAGES = { orderingKey: null, type: null, tenant: null, state: null, held: null, minAttempts: 0 }
const ALL_DEAD_LETTERS = {
  ids: null,
  type: null,
  tenant: null,
  diedBefore: null,
  diedAfter: null,
  reason: null,
  error: null,
}

/** Hashes, which do not compress: what is larger than 2 kB is stored in blocks of its own. */
const LARGE = `(SELECT string_agg(md5(n::text), '') FROM generate_series(1, $2::integer) n)`

function sizesOf(queue: string) {
  return [
    [`${queue}.small`, 1],
    [`${queue}.large`, 1_000],
  ] as const
}

type Send = (queue: string) => (execute: Execute) => Promise<unknown>

async function expectCosts(
  database: TestDatabase,
  queue: string,
  { whole, without }: Record<'whole' | 'without', Send>,
) {
  const client = await database.pool.connect()
  const buffers = async (send: Send, of: string) =>
    (await explain(client, await recorded(send(`${queue}.${of}`)), 'force_custom_plan', PLAN_BY_INDEX.text)).buffers
  const small = await buffers(without, 'small')
  const large = await buffers(without, 'large')
  const all = await buffers(whole, 'large')
  client.release()
  expect(large).toBeLessThan(small + 20)
  expect(all).toBeGreaterThan(large + 100)
}

test('backlogs are of all queues, or of one', async ({ sluice, queue }) => {
  await put(sluice, queue, [1, 2])
  await put(sluice, `${queue}.other`, [1])
  expect(await sluice.operate.queues.backlogs({ queue })).toMatchObject([{ queue, due: 2, dead: 0, workers: 0 }])
  const names = (await sluice.operate.queues.backlogs()).map((backlog) => backlog.queue)
  expect(names).toEqual(expect.arrayContaining([queue, `${queue}.other`]))
  expect(await sluice.operate.queues.backlogs({ queue: 'nothing' })).toEqual([])
})
