import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { ack, deadLetter } from '../../../src/index.ts'
import { ask, type Stage } from '../../support/dedupe/key-states.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'

describe('a message that waits and is asked for again', () => {
  test('keeps its life if none is given, and it moves with its due time', async ({ database, sluice, queue }) => {
    const { ownTransaction } = sluice
    const asked = (onDuplicate: 'update' | 'debounce', options: { ttl?: '2h' }) =>
      sluice.enqueue(ownTransaction, queue, {}, { ...options, delay: '10m', dedupe: { key: 'K', onDuplicate } })
    const life = async () => {
      const [row] = await database.sql(
        `SELECT m.expires_at - m.due_at = interval '1 hour' AS hour, m.expires_at - m.due_at = interval '2 hours' AS two
         FROM sluice.message m WHERE m.queue = $1`,
        [queue],
      )
      return row
    }
    await sluice.enqueue(ownTransaction, queue, {}, { ttl: '1h', dedupe: { key: 'K', onDuplicate: 'update' } })
    for (const policy of ['update', 'debounce'] as const) {
      expect((await asked(policy, {})).outcome).toBe(`${policy}d`)
      expect(await life()).toEqual({ hour: true, two: false })
    }
    await asked('debounce', { ttl: '2h' })
    expect(await life()).toEqual({ hour: false, two: true })
  })

  test('moves with a debounce also if it may expire and was given back', async ({ sluice, queue }) => {
    const asked = (onDuplicate: 'reject' | 'debounce', options: { delay?: '1h' }) =>
      sluice.enqueue(sluice.ownTransaction, queue, {}, { ...options, ttl: '1d', dedupe: { key: 'K', onDuplicate } })
    await asked('reject', {})
    await (await sluice.claim(queue))?.release()
    expect((await asked('debounce', { delay: '1h' })).outcome).toBe('debounced')
  })

  test.for(['', 'SAVEPOINT before', 'SAVEPOINT after'])(
    'is in no hands for the transaction that has changed it (%s)',
    async (savepoint, { database, sluice, queue }) => {
      const stage = { database, sluice, queue }
      await ask(stage, 'first', 'update')
      const client = await connected(database)
      await client.query('BEGIN')
      if (savepoint === 'SAVEPOINT before') await client.query('SAVEPOINT s')
      await ask(stage, 'changed', 'update', undefined, client)
      if (savepoint === 'SAVEPOINT after') await client.query('SAVEPOINT s')
      expect(await ask(stage, 'again', 'reject', undefined, client)).toMatchObject({
        outcome: 'duplicate',
        state: 'ready',
      })
      // To others it is locked.
      expect(await ask(stage, 'other', 'reject')).toMatchObject({ outcome: 'duplicate', state: 'in_flight' })
      await client.query('ROLLBACK')
    },
  )

  test('is updated after its lease has run out, and what its holder settles then finds nothing', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'update')
    const claim = await sluice.claim(queue)
    expect(await ask(stage, 'too soon', 'update')).toMatchObject({ outcome: 'duplicate', state: 'in_flight' })
    await database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1', [queue])
    expect(await ask(stage, 'second', 'update')).toMatchObject({ outcome: 'updated', state: 'ready' })
    const settled = await claim?.settle(claim.messages)
    expect(settled).toMatchObject({ settled: [] })
    expect(await sluice.pop(queue)).toMatchObject([{ payload: 'second', attempt: 2 }])
  })
})

describe('by a key', () => {
  test('the first is known as dead, although the one behind it was cancelled', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    const { id } = await ask(stage, 'first', 'requeue')
    const claim = await sluice.claim(queue)
    await ask(stage, 'again', 'requeue')
    await claim?.settle(claim.messages, deadLetter('broken'))
    await sluice.operate.messages.cancel(queue, { dedupeKey: 'K' })
    const dedupeKey = { dedupeKey: 'K' }
    expect(await sluice.operate.messages.status(queue, dedupeKey)).toMatchObject({ id, state: 'dead' })
    expect(await sluice.operate.messages.cancel(queue, dedupeKey)).toMatchObject({ result: 'nothing', state: 'dead' })
    expect(await sluice.operate.messages.runNow(queue, dedupeKey)).toMatchObject({ result: 'refused', state: 'dead' })
  })
})

describe('a dead letter that is redriven', () => {
  test.for(['is done', 'is done and its pointer is pruned', 'is dead too'])(
    'has its key again although another message had it, which %s',
    async (end, { database, sluice, queue }) => {
      const stage = { database, sluice, queue }
      const { id } = await ask(stage, 'first', 'reject')
      const first = await sluice.claim(queue)
      await first?.settle(first.messages, deadLetter('broken'))
      const { id: other } = await ask(stage, 'other', 'reject')
      const second = await sluice.claim(queue)
      await second?.settle(second.messages, end === 'is dead too' ? deadLetter('broken') : undefined)
      if (end.endsWith('pruned')) await database.sql('SELECT sluice.prune_dedupe()')
      await sluice.operate.deadLetters.redrive({ queue, ids: [id] })
      expect(await ask(stage, 'again', 'reject')).toMatchObject({ id, outcome: 'duplicate' })
      if (end !== 'is dead too') return
      // The other one finds the key taken: both are handled.
      await sluice.operate.deadLetters.redrive({ queue })
      expect(await ask(stage, 'again', 'reject')).toMatchObject({ id, outcome: 'duplicate' })
      await sluice.pop(queue)
      expect(await sluice.pop(queue)).toMatchObject([{ id: other }])
    },
  )

  test('waits for no producer, who has the key then', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'reject')
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages, deadLetter('broken'))
    await database.sql('DELETE FROM sluice.dedupe WHERE queue = $1', [queue])
    const client = await connected(database)
    await client.query('BEGIN')
    const { id } = await ask(stage, 'producer', 'reject', undefined, client)
    await sluice.operate.deadLetters.redrive({ queue })
    await client.query('COMMIT')
    expect(await ask(stage, 'again', 'reject')).toMatchObject({ id, outcome: 'duplicate' })
    await sluice.pop(queue)
    await sluice.pop(queue)
    await untilEmpty(database, queue)
  })
})

describe('ack() with dedupeFor', () => {
  test.for(['transactional', 'leased', 'delivery', 'claim', 'HTTP', 'SQL'] as const)(
    'keeps the key for as long as the handler says, whatever the message asks for (%s)',
    async (by, { database, sluice, queue }) => {
      const asked = { ...{ database, sluice }, queue }
      for (const [kept, dedupeFor, taken] of [
        [undefined, '1h', true],
        ['1h', 0, false],
        ['1h', undefined, true],
      ] as const) {
        const stage = { ...asked, queue: `${queue}.${kept}.${dedupeFor}` }
        await ask(stage, 'first', 'reject', kept)
        await settleBy[by](stage, dedupeFor === undefined ? {} : { dedupeFor })
        await untilEmpty(database, stage.queue)
        const outcome = taken ? 'duplicate' : 'added'
        expect(await ask(stage, 'again', 'reject'), stage.queue).toMatchObject({ outcome })
        if (kept === undefined) await untilAnHour(database, stage.queue)
      }
    },
  )

  test('means nothing for a message without a key, and is refused where it cannot be', async ({
    database,
    sluice,
    queue,
  }) => {
    await sluice.enqueue(sluice.ownTransaction, queue, {})
    const running = sluice
      .pipeline(queue)
      .handle(() => ack({ dedupeFor: '1h' }))
      .start()
    await untilEmpty(database, queue)
    await running.stop()
    expect(await database.sql('SELECT FROM sluice.kept_key WHERE queue = $1', [queue])).toEqual([])
    const refused = { code: 'OPTION_INVALID' }
    expect(() => ack({ dedupeFor: -1 })).toThrow(expect.objectContaining(refused))
    expect(() => ack({ for: '1h' } as object)).toThrow(expect.objectContaining(refused))
    const settle = `SELECT sluice.claim_settle($1, 1, outcome => 'snooze', delay => '1 s', dedupe_for => '1 h')`
    await expect(database.sql(settle, [queue])).rejects.toMatchObject({ code: '22023' })
  })
})

type Given = Parameters<typeof ack>[0]

/** How a message of a queue is settled. */
const settleBy = {
  transactional: async ({ sluice, queue }: Stage, given: Given) => {
    sluice
      .pipeline(queue)
      .handle(() => ack(given))
      .start()
  },
  leased: async ({ sluice, queue }: Stage, given: Given) => {
    sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => ack(given))
      .start()
  },
  delivery: async ({ sluice, queue }: Stage, given: Given) => {
    for await (const delivery of sluice.deliveries(queue, { demand: 1 })) {
      delivery.ack(given)
      break
    }
  },
  claim: async ({ sluice, queue }: Stage, given: Given) => {
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages, ack(given))
  },
  HTTP: async ({ sluice, queue }: Stage, given: Given) => {
    const handle = createHttpHandler(sluice, { authorize: () => true })
    const claim = await sluice.claim(queue)
    const messages = claim?.messages.map(({ id }) => ({ id, ...given }))
    const url = `http://localhost/queues/${queue}/claims/${claim?.id}/settle`
    const headers = { 'content-type': 'application/json' }
    const response = await handle(new Request(url, { method: 'POST', headers, body: JSON.stringify({ messages }) }))
    expect(response.status).toBe(200)
  },
  SQL: async ({ database, sluice, queue }: Stage, { dedupeFor }: NonNullable<Given>) => {
    const claim = await sluice.claim(queue)
    const text = `SELECT sluice.claim_settle($1, $2, dedupe_for => $3::interval)`
    const given = dedupeFor === undefined ? null : String(dedupeFor).replace('1h', '1 hour')
    await database.sql(text, [queue, claim?.id, given])
  },
}

async function untilAnHour(database: TestDatabase, queue: string): Promise<void> {
  const sql = `SELECT s.until - clock_timestamp() BETWEEN interval '50 minutes' AND interval '1 hour' AS hour
               FROM sluice.kept_key s WHERE s.queue = $1`
  expect(await database.sql(sql, [queue])).toEqual([{ hour: true }])
}

async function connected(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
