import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { bury } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'

describe('sluice.operate.deadLetters', () => {
  test('shows one, and what is alike', async ({ database, sluice, queue }) => {
    const [id = ''] = await bury(database, { queue, error: 'Error: no', reason: 'Timeout' })
    await bury(database, { queue, count: 2, type: null })
    const { deadLetters } = sluice.operate
    expect(await deadLetters.get(queue, id)).toEqual({
      queue,
      id,
      reason: 'Timeout',
      error: 'Error: no',
      failures: [],
      attempt: 5,
      maxAttempts: null,
      diedAt: expect.any(Date),
      ageMs: expect.any(Number),
      enqueuedAt: expect.any(Date),
      type: 'order.paid',
      schemaVersion: 1,
      orderingKey: null,
      priority: 5,
      tenant: null,
      dedupeKey: null,
      headers: { trace: 'abc' },
      headersJson: '{"trace": "abc"}',
      payload: { order: 1 },
      position: null,
      payloadJson: '{"order": 1}',
    })
    expect(await deadLetters.get(`${queue}.other`, id)).toBeUndefined()
    expect(await deadLetters.summarise({ queue })).toEqual({
      total: 3,
      groups: [
        { queue, type: null, reason: 'Too many attempts', error: null, messages: 2 },
        { queue, type: 'order.paid', reason: 'Timeout', error: 'Error: no', messages: 1 },
      ],
      moreGroups: 0,
    })
  })

  test('redrives and deletes those of a queue, and of all only when told so', async ({ database, sluice, queue }) => {
    await database.sql('DELETE FROM sluice.dead_letter')
    const { deadLetters } = sluice.operate
    const [first = ''] = await bury(database, { queue, count: 3 })
    const [other] = await bury(database, { queue: `${queue}.other`, agoMs: 7_200_000 })
    expect(await deadLetters.redrive({ queue, ids: [first, '1'] })).toBe(1)
    expect(await sluice.operate.messages.get(queue, first)).toMatchObject({ state: 'ready', attempt: 0 })
    expect(await deadLetters.delete({ queue, type: 'another' })).toBe(0)
    expect(await deadLetters.delete({ queue })).toBe(2)
    const hourAgo = new Date((await sluice.operate.now()).getTime() - 3_600_000)
    expect(await deadLetters.redrive({ allQueues: true, diedBefore: hourAgo })).toBe(1)
    expect(await sluice.operate.messages.get(`${queue}.other`, other!)).toBeDefined()
    expect(await deadLetters.summarise()).toMatchObject({ total: 0 })
  })

  test('leaves alone what died after the look', async ({ database, sluice, queue }) => {
    const [seen] = await bury(database, { queue, agoMs: 10 })
    const diedBefore = await sluice.operate.now()
    await bury(database, { queue, agoMs: -1_000 })
    expect(await sluice.operate.deadLetters.summarise({ queue, diedBefore })).toMatchObject({ total: 1 })
    expect(await sluice.operate.deadLetters.redrive({ queue, diedBefore })).toBe(1)
    expect(await sluice.operate.messages.get(queue, seen!)).toBeDefined()
    expect(await sluice.operate.deadLetters.summarise({ queue })).toMatchObject({ total: 1 })
  })

  test.for(['COMMIT', 'ROLLBACK'])(
    'changes them in a transaction of the application: %s',
    async (end, { database, sluice, queue }) => {
      const client = await connect(database)
      const ids = await bury(database, { queue, count: 2 })
      await client.query('BEGIN')
      expect(await sluice.operate.deadLetters.redrive({ queue, ids: [ids[0]!] }, { tx: client })).toBe(1)
      expect(await sluice.operate.deadLetters.delete({ queue }, { tx: client })).toBe(1)
      expect(await sluice.operate.deadLetters.summarise({ queue })).toMatchObject({ total: 2 })
      await client.query(end)
      const done = end === 'COMMIT'
      expect(await sluice.operate.deadLetters.summarise({ queue })).toMatchObject({ total: done ? 0 : 2 })
      expect((await sluice.operate.messages.list({ queue })).messages).toHaveLength(done ? 1 : 0)
    },
  )

  test('says so when a trigger keeps a message from coming back, and then changes nothing', async ({
    database,
    sluice,
    queue,
  }) => {
    await bury(database, { queue, count: 2 })
    await database.sql(`
      CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.message FOR EACH ROW WHEN (NEW.queue = '${queue}') EXECUTE FUNCTION swallow()`)
    onTestFinished(async () => void (await database.sql('DROP FUNCTION swallow CASCADE')))
    await expect(sluice.operate.deadLetters.redrive({ queue })).rejects.toMatchObject({ code: 'ROWS_MISSING' })
    expect(await sluice.operate.deadLetters.summarise({ queue })).toMatchObject({ total: 2 })
  })

  test('brings back a message in its old place among the pages', async ({ database, sluice, queue }) => {
    const [id] = await bury(database, { queue })
    const [later] = await put(sluice, queue, [1])
    await sluice.operate.deadLetters.redrive({ queue })
    const { messages } = await sluice.operate.messages.list({ queue })
    expect(messages.map((message) => message.id)).toEqual([later, id])
  })
})

async function connect({ url }: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
