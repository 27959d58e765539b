import { describe, expect } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

/** So many handlers of a pipeline have a transaction at a time. */
const PLACES = 10

/** As before version 17, where a transaction may run one statement for ever. */
const NO_LIMITS = `
SELECT set_config(s.name, '0', true) FROM pg_catalog.pg_settings s
WHERE s.name IN ('transaction_timeout', 'idle_in_transaction_session_timeout')`

/** A pipeline whose transactions are all taken until the test ends them, and a handler that asks for one more. */
async function oneTooMany(sluice: Sluice, queue: string, afterAsking: (asked: Promise<unknown>) => Promise<unknown>) {
  await put(
    sluice,
    queue,
    Array.from({ length: PLACES }, () => 'inside'),
  )
  await put(sluice, queue, ['waits'], { lease: '2s' })
  const full = deferred()
  const end = deferred()
  const asked = deferred<AbortSignal>()
  let inside = 0
  let worked = false
  const pipeline = sluice
    .pipeline(queue, { mode: 'leased', concurrency: PLACES + 1, retry: { kind: 'fixed', delay: '1h' } })
    .handle(async ({ payload }, { transaction, signal }) => {
      if (payload === 'inside') {
        await transaction(async () => {
          if (++inside === PLACES) full.resolve()
          await end.promise
        })
        return
      }
      await full.promise
      const transacted = transaction(() => {
        worked = true
      })
      transacted.catch(() => undefined)
      asked.resolve(signal)
      await afterAsking(transacted)
    })
    .start()
  return { pipeline, signal: await asked.promise, end, worked: () => worked }
}

async function waiting(database: TestDatabase, queue: string) {
  const [row] = await database.sql<{ us: string; attempt: number; lease: string | null }>(
    `SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us, attempt, lease::text
     FROM sluice.message WHERE queue = $1 AND payload::jsonb = '"waits"'`,
    [queue],
  )
  return row
}

describe('a handler that waits for a place for its transaction()', () => {
  test('keeps its lease', async ({ sluice, queue, database, log }) => {
    const { pipeline, end } = await oneTooMany(sluice, queue, (asked) => asked)
    const until = async () => BigInt((await waiting(database, queue))?.us ?? 0)
    const first = await until()
    await waitFor(async () => (await until()) > first + 2_500_000n, { what: 'the lease to be renewed' })
    end.resolve()
    await pipeline.drain()
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).toEqual([])
    expect(log.of('lease.lost')).toEqual([])
  })

  test('is aborted when its lease is lost', async ({ sluice, queue, database, log }) => {
    const { pipeline, signal, end, worked } = await oneTooMany(sluice, queue, (asked) => asked)
    await database.sql(
      `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() + interval '1 h'
       WHERE queue = $1 AND payload::jsonb = '"waits"'`,
      [queue],
    )
    await waitFor(() => signal.aborted, { what: 'the handler to be aborted' })
    expect(signal.reason).toMatchObject({ code: 'LEASE_LOST' })
    await log.first('lease.lost')
    end.resolve()
    await pipeline.drain()
    expect(worked()).toBe(false)
    expect(await waiting(database, queue)).toMatchObject({ attempt: 0 })
  })

  test('is settled when it ends, although there is no place yet', async ({ sluice, queue, database }) => {
    const { pipeline, end, worked } = await oneTooMany(sluice, queue, () => Promise.reject(new Error('no luck')))
    await waitFor(async () => (await waiting(database, queue))?.attempt === 1, { what: 'the failure to be written' })
    end.resolve()
    await pipeline.drain()
    expect(worked()).toBe(false)
    expect(await waiting(database, queue)).toMatchObject({ attempt: 1, lease: null })
  })
})

describe('a transaction() that fails', () => {
  const options = { mode: 'leased', retry: { kind: 'fixed', delay: '1h' } } as const
  const refused = (tx: { query(sql: string): Promise<unknown> }) => tx.query("SELECT 'x'::integer")

  test('and is not awaited fails the message, also if it has failed before the handler returns', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, ['at once', 'later'])
    const { counts } = await sluice
      .pipeline(queue, options)
      .handle(async ({ payload }, { transaction }) => {
        const failed = deferred()
        transaction((tx) => refused(tx).finally(failed.resolve))
        if (payload === 'at once') return
        await failed.promise
        // The transaction is rolled back behind its statement.
        await database.sql('SELECT')
      })
      .runOnce()
    expect(counts).toMatchObject({ acked: 0, retried: 2 })
    const error = expect.stringContaining('invalid input syntax')
    expect(await database.sql('SELECT last_error FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { last_error: error },
      { last_error: error },
    ])
  })

  test('and is dealt with by the handler does not', async ({ sluice, queue }) => {
    await put(sluice, queue, [1])
    const { counts } = await sluice
      .pipeline(queue, options)
      .handle(async (_, { transaction }) => {
        await transaction(refused).catch(() => undefined)
      })
      .runOnce()
    expect(counts).toMatchObject({ acked: 1, retried: 0 })
  })

  test('and is not awaited fails each message of a batch by itself', async ({ sluice, queue }) => {
    await put(sluice, queue, [1, 2])
    const { counts } = await sluice
      .pipeline(queue, options)
      .handleBatch((messages, { transaction }) => {
        if (messages.some(({ payload }) => payload === 2)) void transaction(refused)
      })
      .runOnce()
    expect(counts).toMatchObject({ acked: 1, retried: 1 })
  })
})

describe('a transaction() whose statement goes on', () => {
  /** Sends a statement that ends only when somebody ends it, and tells which session runs it. */
  async function hang(tx: HandlerTransaction, running: (pid: number) => void): Promise<void> {
    await tx.query(NO_LIMITS)
    const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    running(rows[0]!.pid)
    await tx.query('SELECT pg_sleep(600)')
  }

  async function untilEnded(database: TestDatabase, pid: number): Promise<void> {
    const sessions = () => database.sql('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])
    await waitFor(async () => (await sessions()).length === 0, { what: 'the session of the transaction to end' })
  }

  test('is ended on the server when its handler is out of time', async ({ sluice, queue, database, log }) => {
    await put(sluice, queue, [1])
    const session = deferred<number>()
    const running = sluice
      .pipeline(queue, { mode: 'leased', timeout: '1s', retry: { kind: 'fixed', delay: 0 } })
      .handle((_, { transaction }) => transaction((tx) => hang(tx, session.resolve)))
      .start()
    await untilEnded(database, await session.promise)
    expect(await log.first('message.failed')).toMatchObject({ error: expect.stringContaining('within 1000 ms') })
    await running.stop()
  })

  test('is ended on the server when the pipeline stops', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [1])
    const session = deferred<number>()
    const running = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle((_, { transaction }) => transaction((tx) => hang(tx, session.resolve)))
      .start()
    const pid = await session.promise
    await running.stop()
    await untilEnded(database, pid)
    expect(await sluice.operate.messages.get(queue, id!)).toMatchObject({ state: 'ready', attempt: 0 })
  })

  test.for([
    ['in one statement', (tx: HandlerTransaction) => tx.query('SELECT pg_sleep(600)')],
    ['in one after another', sleepOn],
    ['in a process that stands still meanwhile', async () => standStill()],
  ] as const)('does not commit after its lease, %s', async ([, work], { sluice, queue, database }) => {
    const table = `"late ${queue}"`
    await database.sql(`CREATE TABLE ${table} (attempt integer)`)
    await put(sluice, queue, [1])
    const running = sluice
      .pipeline(queue, { mode: 'leased', lease: '1s', retry: { kind: 'fixed', delay: 0 } })
      .handle(async ({ attempt }, { transaction }) => {
        await transaction(async (tx) => {
          await tx.query(NO_LIMITS)
          await tx.query(`INSERT INTO ${table} VALUES ($1)`, [attempt])
          if (attempt === 1) await work(tx)
        })
      })
      .start()
    await untilEmpty(database, queue)
    await running.stop()
    const [committed, ...others] = await database.sql<{ attempt: number }>(`SELECT attempt FROM ${table}`)
    expect(others).toEqual([])
    // A busy machine may need another one.
    expect(committed?.attempt).toBeGreaterThan(1)
  })
})

async function sleepOn(tx: HandlerTransaction): Promise<never> {
  for (;;) await tx.query('SELECT pg_sleep(0.1)')
}

/** The timers are late, as after a pause of the machine. */
function standStill(): void {
  const until = performance.now() + 1_500
  while (performance.now() < until);
}
