import { describe, expect } from 'vitest'
import type { Sluice } from '../../../src/index.ts'
import { test } from '../../support/sluice.ts'

/** However slow the run is, it does not come to the next attempts. */
const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

const DEDUPE = { dedupe: { key: 'k' } } as const

test.for([
  ['dedupe', 'an enqueue with a dedupe key'],
  ['dedupe', 'an enqueue of many'],
  ['queue', 'a pause'],
] as const)('a trigger that returns NULL on sluice.%s fails %s', async ([table, call], { database, sluice, queue }) => {
  await database.sql(`
    CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER swallow BEFORE INSERT ON sluice.${table} FOR EACH ROW EXECUTE FUNCTION swallow()`)
  const calls = {
    'an enqueue with a dedupe key': () => sluice.enqueue(sluice.ownTransaction, queue, 1, DEDUPE),
    'an enqueue of many': () =>
      sluice.enqueueMany(sluice.ownTransaction, queue, [
        { payload: 1, ...DEDUPE },
        { payload: 2, dedupe: { key: 'other' } },
      ]),
    'a pause': () => sluice.operate.queues.pause(queue),
  }
  const failed = await calls[call]().catch((error: unknown) => error)
  await database.sql('DROP FUNCTION swallow() CASCADE')
  expect(failed).toMatchObject({ message: expect.stringContaining('expected to take 1 row') })
})

/** How a message succeeds, and where the failure is told. */
const SUCCESSES = {
  'a transactional batch': (sluice, queue) =>
    sluice
      .pipeline(queue, LATER)
      .handle(() => undefined)
      .runOnce(),
  'a leased message': (sluice, queue) =>
    sluice
      .pipeline(queue, { ...LATER, mode: 'leased' })
      .handle(() => undefined)
      .runOnce(),
  'a leased transaction': (sluice, queue) =>
    sluice
      .pipeline(queue, { ...LATER, mode: 'leased' })
      .handle(async (_, { transaction }) => {
        await transaction(() => undefined)
      })
      .runOnce(),
  'a claim': async (sluice, queue) => {
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages)
  },
  'a pop': (sluice, queue) => sluice.pop(queue),
} satisfies Readonly<Record<string, (sluice: Sluice, queue: string) => Promise<unknown>>>

describe.for(['kept_key', 'completed_message'])('a trigger that returns NULL on sluice.%s', (table) => {
  test.for(Object.entries(SUCCESSES))(
    'fails %s, whose message stays',
    async ([, succeed], { database, queue, sluice }) => {
      await sluice.operate.queues.settings.set(queue, { history: '1d' })
      await sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: 'k', for: '1h' } })
      await database.sql(`
      CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.${table} FOR EACH ROW EXECUTE FUNCTION swallow()`)
      const failed = await succeed(sluice, queue).catch((error: unknown) => error)
      await database.sql('DROP FUNCTION swallow() CASCADE')
      const [left] = await database.sql<{ last_error: string | null }>(
        'SELECT last_error FROM sluice.message WHERE queue = $1',
        [queue],
      )
      const told = failed instanceof Error ? failed.message : left?.last_error
      expect(left).toBeDefined()
      expect(told).toContain(`sluice.${table}: expected to take 1 row(s) for queue "${queue}", took 0`)
      expect(await database.sql('SELECT FROM sluice.kept_key WHERE queue = $1', [queue])).toEqual([])
    },
  )
})

test('a trigger that swallows the DELETE of a leased message fails it, and its transaction(), with ROWS_MISSING', async ({
  database,
  queue,
  sluice,
}) => {
  for (const name of ['a leased message', 'a leased transaction'] as const) {
    await sluice.enqueue(sluice.ownTransaction, queue, name)
    await database.sql(`
      CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER swallow BEFORE DELETE ON sluice.message FOR EACH ROW EXECUTE FUNCTION swallow()`)
    await SUCCESSES[name](sluice, queue)
    await database.sql('DROP FUNCTION swallow() CASCADE')
    const left = `DELETE FROM sluice.message WHERE queue = $1 RETURNING attempt, lease, last_error`
    const [failed] = await database.sql<{ last_error: string | null }>(left, [queue])
    expect(failed, name).toMatchObject({ attempt: 1, lease: null })
    expect(failed?.last_error, name).toContain('sluice.message: expected to settle message')
  }
})

test('a leased handler that removes its message by the tx of transaction() has handled it', async ({
  database,
  queue,
  sluice,
}) => {
  await sluice.enqueue(sluice.ownTransaction, queue, 1)
  await database.sql('CREATE TABLE removed (id bigint)')
  const { counts } = await sluice
    .pipeline(queue, { ...LATER, mode: 'leased' })
    .handle(async ({ id }, { transaction }) => {
      await transaction(async (tx) => {
        await tx.query('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, id])
        await tx.query('INSERT INTO removed VALUES ($1)', [id])
      })
    })
    .runOnce()
  expect(counts).toMatchObject({ acked: 1 })
  expect(await database.sql('SELECT FROM removed')).toHaveLength(1)
  expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).toEqual([])
})

test.for([
  ['UPDATE', 'move'],
  ['DELETE', 'clear'],
  ['DELETE', 'cancel'],
] as const)(
  'a trigger that returns NULL on %s fails a %s of messages, which stay',
  async ([event, call], { database, sluice, queue }) => {
    const id = await sluice.enqueue(sluice.ownTransaction, queue, 1)
    await database.sql(`
    CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER swallow BEFORE ${event} ON sluice.message FOR EACH ROW EXECUTE FUNCTION swallow()`)
    const { queues, messages } = sluice.operate
    const calls = {
      move: () => queues.move(queue, `${queue}.to`),
      clear: () => queues.clear(queue),
      cancel: () => messages.cancel(queue, id),
    }
    const failed = await calls[call]().catch((error: unknown) => error)
    await database.sql('DROP FUNCTION swallow() CASCADE')
    expect(failed).toMatchObject({ code: 'ROWS_MISSING' })
    expect(await messages.list({ queue })).toMatchObject({ messages: [{ id }] })
  },
)
