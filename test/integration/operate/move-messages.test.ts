import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/message.ts'
import { claimWholeQueue, WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { executeAlone } from '../../support/permutations/claims.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const NOTHING_LEFT = { inFlight: 0, held: 0, duplicates: 0 }

const ROW = `SELECT id::text, priority, payload, attempt, lease::text, due_at <= clock_timestamp() AS due, tenant, dedupe_key
  FROM sluice.message WHERE queue = $1 ORDER BY id`

describe('move', () => {
  test('counts first, then moves what matches, with ids, attempts and times to come', async ({
    sluice,
    queue,
    database,
  }) => {
    const { queues } = sluice.operate
    const to = `${queue}.to`
    const [a] = await put(sluice, queue, [1], { type: 'a', priority: 0, tenant: 'acme' })
    const [b] = await put(sluice, queue, [2], { type: 'a', delay: '1h' })
    const [other] = await put(sluice, queue, [3], { type: 'b' })
    expect(await queues.move(queue, to, { type: 'a', dryRun: true })).toEqual({ moved: 2, ...NOTHING_LEFT })
    expect(await database.sql(ROW, [to])).toEqual([])
    expect(await queues.move(queue, to, { type: 'a' })).toEqual({ moved: 2, ...NOTHING_LEFT })
    const rest = { attempt: 0, lease: null, dedupe_key: null }
    expect(await database.sql(ROW, [to])).toEqual([
      { id: a, priority: 0, payload: 1, due: true, tenant: 'acme', ...rest },
      { id: b, priority: 5, payload: 2, due: false, tenant: null, ...rest },
    ])
    expect(await database.sql(ROW, [queue])).toMatchObject([{ id: other }])
  })

  test('goes on step by step, and is one action', async ({ sluice, queue, database }) => {
    await database.sql(`INSERT INTO sluice.message (queue, payload) SELECT $1, '1' FROM generate_series(1, 2500)`, [
      queue,
    ])
    const { operate } = sluice
    expect(await operate.by('ada').queues.move(queue, `${queue}.to`)).toEqual({ moved: 2_500, ...NOTHING_LEFT })
    expect(await operate.queues.list({ queue: `${queue}.to` })).toMatchObject([{ ready: 2_500 }])
    const { actions } = await operate.audit.list({ queue, action: 'queue.move' })
    expect(actions).toMatchObject([{ actor: 'ada', count: 2_500, details: { target: `${queue}.to` } }])
  })

  test('wakes a worker of the other queue that sleeps', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const handled: unknown[] = []
    const { queues } = sluice.operate
    sluice
      .pipeline(`${queue}.to`)
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await raisedFlag(database, `${queue}.to`)
    await put(sluice, queue, [1, 2], { orderingKey: 'a' })
    await put(sluice, queue, [3])
    await queues.move(queue, `${queue}.to`)
    await waitFor(() => handled.length === 3, { what: 'all three, without a poll' })
    expect(handled.filter((payload) => payload !== 3)).toEqual([1, 2])
  })

  test('is behind what a worker of the other queue has handled, and is found all the same', async ({
    sluice,
    queue,
  }) => {
    const to = `${queue}.to`
    const options = { orderingKey: 'a' }
    const first = await put(sluice, queue, [1, 2], options)
    const handled: string[] = []
    const pipeline = sluice.pipeline(to, { concurrency: 1 }).handle(({ id }) => void handled.push(id))
    const later = await put(sluice, to, [3, 4], options)
    await pipeline.runOnce()
    expect(handled).toEqual(later)
    await sluice.operate.queues.move(queue, to)
    await pipeline.runOnce()
    expect(handled).toEqual([...later, ...first])
  })

  test('is behind what a worker has handled of a queue in order, and goes before what waits there', async ({
    sluice,
    queue,
    database,
  }) => {
    const to = `${queue}.to`
    const [moved] = await put(sluice, queue, [1])
    const [waiting = ''] = await put(sluice, to, [2])
    await sluice.operate.queues.move(queue, to)
    const execute = executeAlone(database)
    await ensureSlots(execute, to, [WHOLE_QUEUE_SLOT])
    const { rows } = await claimWholeQueue(execute, to, { slot: WHOLE_QUEUE_SLOT, id: waiting }, 2)
    expect(rows.map(({ id }) => id)).toEqual([moved, waiting])
  })

  test('leaves what is leased or locked, and with it the later messages of its key', async ({
    sluice,
    queue,
    database,
  }) => {
    const to = `${queue}.to`
    const [leased, behind] = await put(sluice, queue, [1, 2], { orderingKey: 'leased' })
    const claim = await sluice.claim(queue, { limit: 1 })
    expect(claim?.messages).toMatchObject([{ id: leased }])
    const [locked] = await put(sluice, queue, [3])
    const [free] = await put(sluice, queue, [4])
    const session = await database.pool.connect()
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE', [queue, locked])
    expect(await sluice.operate.queues.move(queue, to)).toEqual({ moved: 1, inFlight: 2, held: 1, duplicates: 0 })
    await session.query('ROLLBACK')
    session.release()
    expect(await database.sql(ROW, [to])).toMatchObject([{ id: free }])
    expect(await claim?.settle(claim.messages)).toMatchObject({ refused: [] })
    expect(await sluice.operate.queues.move(queue, to)).toEqual({ moved: 2, ...NOTHING_LEFT })
    expect(await database.sql(ROW, [to])).toMatchObject([{ id: behind }, { id: locked }, { id: free }])
  })

  test('leaves what comes behind a message of its key that any session has locked', async ({
    sluice,
    queue,
    database,
  }) => {
    const [locked] = await put(sluice, queue, [1, 2], { orderingKey: 'a' })
    await put(sluice, queue, [3], { orderingKey: 'b' })
    const session = await database.pool.connect()
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE', [queue, locked])
    expect(await sluice.operate.queues.move(queue, `${queue}.to`)).toEqual({
      moved: 1,
      inFlight: 1,
      held: 1,
      duplicates: 0,
    })
    await session.query('ROLLBACK')
    session.release()
  })

  test('leaves the later messages of a key whose slot a batch had at the first one, and has no more', async ({
    sluice,
    queue,
    database,
  }) => {
    const to = `${queue}.to`
    const [first] = await put(sluice, queue, [1], { orderingKey: 'a' })
    await sluice.enqueue(sluice.ownTransaction, queue, 2, { dedupe: { key: 'between' } })
    const [later] = await put(sluice, queue, [3], { orderingKey: 'a' })
    const gate = await gateOn(database, to)
    const batch = await database.pool.connect()
    await batch.query('BEGIN')
    await batch.query(
      'INSERT INTO sluice.slot (queue, slot) SELECT DISTINCT queue, slot FROM sluice.message WHERE queue = $1 AND slot IS NOT NULL',
      [queue],
    )
    await batch.query('COMMIT')
    await batch.query('BEGIN')
    await batch.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
    const move = sluice.operate.queues.move(queue, to)
    await gate.reached()
    await batch.query('ROLLBACK')
    batch.release()
    await gate.open()
    expect(await move).toEqual({ ...NOTHING_LEFT, moved: 1, held: 2 })
    expect(await database.sql(ROW, [to])).toMatchObject([{ payload: 2 }])
    expect(await database.sql(ROW, [queue])).toMatchObject([{ id: first }, { id: later }])
  })

  test('leaves the later messages of a key that a later step sees', async ({ sluice, queue, database }) => {
    const [locked] = await put(sluice, queue, [1], { orderingKey: 'a' })
    await database.sql(`INSERT INTO sluice.message (queue, payload) SELECT $1, '2' FROM generate_series(1, 1000)`, [
      queue,
    ])
    const [later] = await put(sluice, queue, [3], { orderingKey: 'a' })
    const session = await database.pool.connect()
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE', [queue, locked])
    const moved = await sluice.operate.queues.move(queue, `${queue}.to`)
    await session.query('ROLLBACK')
    session.release()
    expect(moved).toEqual({ moved: 1_000, inFlight: 1, held: 1, duplicates: 0 })
    expect(await database.sql(ROW, [queue])).toMatchObject([{ id: locked }, { id: later }])
    expect(await sluice.operate.queues.move(queue, `${queue}.to`)).toEqual({ moved: 2, ...NOTHING_LEFT })
  })

  test('leaves keys whose slot a batch has', async ({ sluice, queue, database }) => {
    const batch = await database.pool.connect()
    await put(sluice, queue, [1, 2], { orderingKey: 'a' })
    await database.sql(
      'INSERT INTO sluice.slot (queue, slot) SELECT DISTINCT queue, slot FROM sluice.message WHERE queue = $1',
      [queue],
    )
    await batch.query('BEGIN')
    await batch.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
    expect(await sluice.operate.queues.move(queue, `${queue}.to`)).toEqual({ ...NOTHING_LEFT, moved: 0, held: 2 })
    await batch.query('ROLLBACK')
    batch.release()
    expect(await sluice.operate.queues.move(queue, `${queue}.to`)).toEqual({ moved: 2, ...NOTHING_LEFT })
  })

  test('leaves what has a dedupe key that is taken in the other queue, and takes the others along', async ({
    sluice,
    queue,
  }) => {
    const { queues, messages } = sluice.operate
    const to = `${queue}.to`
    const enqueue = (name: string, key: string) =>
      sluice.enqueue(sluice.ownTransaction, name, 1, { dedupe: { key, for: '1h', onDuplicate: 'throttle' } })
    const { id: taken } = await enqueue(queue, 'taken')
    const { id: free } = await enqueue(queue, 'free')
    await enqueue(to, 'taken')
    expect(await queues.move(queue, to, { dryRun: true })).toEqual({ ...NOTHING_LEFT, moved: 1, duplicates: 1 })
    expect(await queues.move(queue, to)).toEqual({ ...NOTHING_LEFT, moved: 1, duplicates: 1 })
    expect(await messages.status(queue, { dedupeKey: 'taken' })).toMatchObject({ id: taken, state: 'ready' })
    const { takenUntil } = await messages.status(to, { dedupeKey: 'free' })
    expect(takenUntil?.getTime()).toBeGreaterThan(Date.now())
    expect(await enqueue(to, 'free')).toMatchObject({ outcome: 'duplicate', id: free, state: 'ready' })
  })

  test('does not wait for a producer that enqueues with the same key', async ({ sluice, queue, database }) => {
    const to = `${queue}.to`
    const dedupe = { key: 'k' }
    await sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe })
    const producer = await database.pool.connect()
    await producer.query('BEGIN')
    await sluice.enqueue(producer, to, 2, { dedupe })
    expect(await sluice.operate.queues.move(queue, to)).toEqual({ ...NOTHING_LEFT, moved: 0, duplicates: 1 })
    await producer.query('ROLLBACK')
    producer.release()
    expect(await sluice.operate.queues.move(queue, to)).toEqual({ moved: 1, ...NOTHING_LEFT })
  })

  test('waits for twenty producers in a step at most', async ({ sluice, queue, database }) => {
    const to = `${queue}.to`
    const enqueue = (tx: Parameters<typeof sluice.enqueueMany>[0], name: string) =>
      sluice.enqueueMany(
        tx,
        name,
        Array.from({ length: 200 }, (_, n) => ({ payload: n, dedupe: { key: `k${n}` } })),
      )
    await enqueue(sluice.ownTransaction, queue)
    const [free] = await put(sluice, queue, [1])
    const producer = await database.pool.connect()
    await producer.query('BEGIN')
    await enqueue(producer, to)
    const step = await database.sql('SELECT duplicates, next_id FROM sluice.move_messages($1, $2)', [queue, to])
    const moved = await sluice.operate.queues.move(queue, to)
    await producer.query('ROLLBACK')
    producer.release()
    expect(step).toEqual([{ duplicates: 20, next_id: expect.any(String) }])
    expect(moved).toEqual({ ...NOTHING_LEFT, moved: 1, duplicates: 200 })
    expect(await database.sql(ROW, [to])).toMatchObject([{ id: free }])
    expect(await sluice.operate.queues.move(queue, to)).toEqual({ moved: 200, ...NOTHING_LEFT })
  })

  test.for(['transactional', 'leased'] as const)(
    'while workers of both queues run in %s mode, hands each message to one of them, and keeps the order of keys',
    async (mode, { sluice, queue, database }) => {
      const to = `${queue}.to`
      const payloads = Array.from({ length: 100 }, (_, at) => at)
      for (const key of ['a', 'b', 'c', 'd']) await put(sluice, queue, payloads, { orderingKey: key })
      await put(sluice, queue, payloads)
      const handled: { readonly key: string; readonly n: number }[] = []
      const failed = new Set<string>()
      for (const name of [queue, to]) {
        const options = { mode, batchSize: 5, concurrency: 2, retry: { kind: 'fixed', delay: 5 } } as const
        sluice
          .pipeline(name, options as { mode: 'leased' })
          .handle(({ id, payload, orderingKey }) => {
            if (Number(payload) % 50 === 7 && !failed.has(id)) {
              failed.add(id)
              throw new Error('once')
            }
            handled.push({ key: orderingKey ?? '', n: Number(payload) })
          })
          .subscribe()
      }
      while (handled.length < 500) await sluice.operate.queues.move(queue, to)
      await untilEmpty(database, to)
      expect(await database.sql('SELECT id FROM sluice.message WHERE queue = $1', [queue])).toEqual([])
      expect(handled).toHaveLength(500)
      expect(
        Map.groupBy(handled, ({ key }) => key)
          .get('')
          ?.map(({ n }) => n)
          .toSorted((a, b) => a - b),
      ).toEqual(payloads)
      for (const key of ['a', 'b', 'c', 'd'])
        expect(
          handled.filter((one) => one.key === key).map(({ n }) => n),
          key,
        ).toEqual(payloads)
    },
  )

  test('takes what is known of crashes along', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [1])
    await database.sql(
      `INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
       VALUES ($1, $2, 1, 1, 'vanished', 'w', true)`,
      [queue, id],
    )
    await sluice.operate.queues.move(queue, `${queue}.to`)
    expect(await database.sql('SELECT queue FROM sluice.crash WHERE message_id = $1', [id])).toEqual([
      { queue: `${queue}.to` },
    ])
  })

  test('refuses the same queue, the queue of a group, and a state that is none', async ({
    sluice,
    queue,
    database,
  }) => {
    const { queues, streams, groups } = sluice.operate
    await streams.set(queue)
    await groups.set(queue, 'g')
    await expect(queues.move(queue, queue)).rejects.toThrow(/queues\.move\.to: expected another queue, received/)
    await expect(queues.move(queue, `${queue}:g`)).rejects.toThrow(/expected one that is not of a group/)
    await expect(queues.move(`${queue}:g`, queue)).rejects.toThrow(/expected one that is not of a group/)
    await expect(queues.move(queue, 'b', { state: 'dead' as 'ready' })).rejects.toThrow(/deadLetters redrives/)
    const sql = (call: string) => database.sql(`SELECT sluice.move_messages(${call})`)
    await expect(sql(`'a', 'a'`)).rejects.toThrow('target: expected another queue than "a", received the same')
    await expect(sql(`'a', 'b', state => 'in_flight'`)).rejects.toThrow('state: expected ready, scheduled')
  })

  test('is from a queue that the code does not define', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { orders: {} } })
    await database.sql('SELECT sluice.enqueue($1, $2::jsonb)', [queue, '1'])
    expect(await sluice.operate.queues.move(queue, 'orders')).toEqual({ moved: 1, ...NOTHING_LEFT })
    await expect(sluice.operate.queues.move('orders', queue as 'orders')).rejects.toMatchObject({
      code: 'QUEUE_UNKNOWN',
    })
  })
})

test('a move leaves what waits for the second of two that were put off together, and does not match', async ({
  sluice,
  queue,
}) => {
  const [first] = await put(sluice, queue, ['first'], { orderingKey: 'a', type: 'x' })
  await put(sluice, queue, ['second'], { orderingKey: 'a', type: 'y' })
  await sluice
    .pipeline(queue)
    .handleBatch((batch) => batch.map(() => snooze({ after: '1h' })))
    .runOnce()
  await put(sluice, queue, ['waits'], { orderingKey: 'a', type: 'x' })
  const to = `${queue}.to`
  expect(await sluice.operate.queues.move(queue, to, { type: 'x' })).toEqual({ ...NOTHING_LEFT, moved: 1, held: 1 })
  const { messages } = await sluice.operate.messages.list({ queue: to })
  expect(messages.map(({ id }) => id)).toEqual([first])
})

describe.each(['transactional', 'leased'] as const)('move, in %s mode', (mode) => {
  test('keeps the later messages of a key behind the one that has failed', async ({ sluice, queue, database }) => {
    const to = `${queue}.to`
    const [failed, waits] = await put(sluice, queue, ['fails', 'waits'], { orderingKey: 'a' })
    const options = { mode, concurrency: 1, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } } as const
    const handled: string[] = []
    const handler = (name: string) =>
      sluice.pipeline(name, options as { mode: 'leased' }).handle(({ id, payload }) => {
        if (payload === 'fails' && name === queue) throw new Error('no')
        handled.push(id)
      })
    await handler(queue).runOnce()
    expect(await sluice.operate.queues.move(queue, to)).toEqual({ moved: 2, ...NOTHING_LEFT })
    expect(await database.sql(ROW, [to])).toMatchObject([
      { id: failed, attempt: 1, due: false },
      { id: waits, attempt: 0, due: true },
    ])
    expect(await sluice.operate.queues.list({ queue: to })).toMatchObject([{ ready: 0, held: 1, retrying: 1 }])
    await handler(to).runOnce()
    expect(handled).toEqual([])
    await sluice.operate.messages.runNow(to, failed!)
    await handler(to).runOnce()
    await handler(to).runOnce()
    expect(handled).toEqual([failed, waits])
    const held = await database.sql('SELECT held FROM sluice.slot WHERE queue = $1', [queue])
    expect(held.every(({ held: keys }) => Object.keys(keys as object).length === 0)).toBe(true)
  })

  test('leaves what waits for a failed message that does not match', async ({ sluice, queue }) => {
    await put(sluice, queue, ['fails'], { orderingKey: 'a', type: 'a' })
    await put(sluice, queue, ['waits'], { orderingKey: 'a', type: 'b' })
    const options = { mode, concurrency: 1, batchSize: 1 } as const
    await sluice
      .pipeline(queue, options as { mode: 'leased' })
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    expect(await sluice.operate.queues.move(queue, 'x', { type: 'b' })).toEqual({ ...NOTHING_LEFT, moved: 0, held: 1 })
  })
})

/** Stops a move at the first dedupe key that it takes in a queue, until it is opened. */
async function gateOn(database: TestDatabase, queue: string) {
  await database.sql(`CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0
    AS $$ BEGIN PERFORM pg_advisory_xact_lock(7, 7); RETURN NEW; END $$`)
  await database.sql(`CREATE TRIGGER gate BEFORE INSERT ON sluice.dedupe
    FOR EACH ROW WHEN (NEW.queue = '${queue}') EXECUTE FUNCTION wait_at_gate()`)
  const session = await database.pool.connect()
  await session.query('SELECT pg_advisory_lock(7, 7)')
  const waiting = `SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = 7 AND NOT l.granted`
  return {
    reached: () => waitFor(async () => (await database.sql(waiting)).length > 0, { what: 'the move at the gate' }),
    open: async () => {
      await session.query('SELECT pg_advisory_unlock(7, 7)')
      session.release()
      await database.sql('DROP FUNCTION wait_at_gate CASCADE')
    },
  }
}
