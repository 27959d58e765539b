import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { WireMessage } from '../../../faults/environment/wire.ts'
import { deadLetter, retryLater } from '../../../src/index.ts'
import { EventLog } from '../../support/event-log.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const left = (database: TestDatabase, queue: string) =>
  database.sql('SELECT payload FROM sluice.message WHERE queue = $1', [queue])

async function untilEmpty(database: TestDatabase, queue: string): Promise<void> {
  await waitFor(async () => (await left(database, queue)).length === 0, { what: 'the queue to be empty' })
}

/** Moves the rows of a queue, and commits that when somebody waits for it. */
async function moveUnder(database: TestDatabase, queue: string, begin: () => void): Promise<void> {
  const mover = new pg.Client({ connectionString: database.url })
  await mover.connect()
  onTestFinished(() => mover.end())
  await mover.query('BEGIN')
  await mover.query('UPDATE sluice.message SET priority = 1 WHERE queue = $1', [queue])
  begin()
  const waiting = () =>
    database.sql(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
  await waitFor(async () => (await waiting()).length > 0, { what: 'somebody to wait for the rows' })
  await mover.query('COMMIT')
}

describe('a leased message whose row somebody moves', () => {
  test('is settled by who waits for that, and not taken for lost', async ({ sluice, queue, database, log }) => {
    await put(sluice, queue, [1, 2])
    const go = deferred()
    const begun = deferred()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', batchSize: 2 })
      .handle(async () => {
        begun.resolve()
        await go.promise
      })
      .start()
    await begun.promise
    await moveUnder(database, queue, go.resolve)
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(log.of('lease.lost')).toEqual([])
  })

  test('keeps its dedupe key, also if the row is moved while the settlement waits for it', async ({
    sluice,
    queue,
    database,
  }) => {
    const enqueue = () => sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: 'k', for: '1h' } })
    await enqueue()
    const go = deferred()
    const begun = deferred()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(async () => {
        begun.resolve()
        await go.promise
      })
      .start()
    await begun.promise
    await moveUnder(database, queue, go.resolve)
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(await enqueue()).toMatchObject({ outcome: 'duplicate' })
  })

  test('is locked by transaction(), which waits for that', async ({ sluice, queue, database, log }) => {
    await database.sql('CREATE TABLE moved (n integer)')
    await put(sluice, queue, [1])
    const go = deferred()
    const begun = deferred()
    const run = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(async (_, { transaction }) => {
        begun.resolve()
        await go.promise
        await transaction((tx) => tx.query('INSERT INTO moved VALUES (1)'))
      })
      .runOnce()
    await begun.promise
    await moveUnder(database, queue, go.resolve)
    expect((await run).counts).toMatchObject({ acked: 1, retried: 0 })
    expect(await database.sql('SELECT n FROM moved')).toEqual([{ n: 1 }])
    expect(log.of('lease.lost')).toEqual([])
  })
})

describe('a process that has lost a message and claimed it again', () => {
  /** Two calls of the handler, of which the first has lost the message to the second. */
  async function twoCalls(queue: string, database: TestDatabase, lease: string) {
    const sluice = startTestSluice(database, { pollInterval: 100 })
    await put(sluice, queue, [1])
    const begun = deferred()
    const ends = [deferred(), deferred()]
    const signals: AbortSignal[] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', lease: lease as '6s' })
      .handle(async (_, { signal }) => {
        const at = signals.push(signal) - 1
        begun.resolve()
        await ends[at]?.promise
      })
      .start()
    await begun.promise
    const [{ lease: held } = { lease: '' }] = await database.sql<{ lease: string }>(
      'SELECT lease::text FROM sluice.message WHERE queue = $1',
      [queue],
    )
    // A renewal that comes before the next claim keeps the message: then it is taken from it once more.
    const lost = async () => {
      const overdue = `UPDATE sluice.message SET due_at = clock_timestamp() - interval '1 s' WHERE queue = $1 AND lease = $2`
      await database.sql(overdue, [queue, held])
      return signals.length > 1
    }
    await waitFor(lost, { what: 'the message to be claimed again' })
    return { sluice, pipeline, ends, signals }
  }

  test('settles it once, by the call that has it', async ({ queue, database }) => {
    const { pipeline, ends } = await twoCalls(queue, database, '5m')
    for (const { resolve } of ends) resolve()
    await untilEmpty(database, queue)
    await pipeline.drain()
  })

  test('aborts the call that has lost it, and renews the lease of the other', async ({ queue, database }) => {
    const { pipeline, ends, signals } = await twoCalls(queue, database, '6s')
    const [first, second] = signals
    await waitFor(() => first?.aborted, { what: 'the first call to be aborted' })
    ends[0]!.resolve()
    expect(first?.reason).toMatchObject({ code: 'LEASE_LOST' })
    const until = async () => {
      const [row] = await database.sql<{ us: string }>(
        `SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us FROM sluice.message WHERE queue = $1`,
        [queue],
      )
      return BigInt(row?.us ?? 0)
    }
    const before = await until()
    await waitFor(async () => (await until()) > before, { what: 'the lease to be renewed' })
    expect(second?.aborted).toBe(false)
    ends[1]!.resolve()
    await untilEmpty(database, queue)
    await pipeline.drain()
  })
})

const saysCommitted = ({ type, bytes }: WireMessage) => type === 'C' && bytes.toString('utf8', 5) === 'COMMIT\0'

describe('a settlement whose answer is lost', () => {
  for (const by of ['the outcome', 'transaction()'] as const) {
    test(`by ${by} is not made up for by another delivery`, async ({ queue, database }) => {
      await database.sql('CREATE TABLE IF NOT EXISTS unanswered (by text)')
      const proxy = await startProxy(database.url)
      const sluice = startTestSluice(database, { connection: proxy.url, pollInterval: 100 })
      await put(sluice, queue, [1])
      let calls = 0
      const pipeline = sluice
        .pipeline(queue, { mode: 'leased', retry: { kind: 'fixed', delay: 0 } })
        .handle(async ({ payload }, { transaction }) => {
          calls += 1
          if (payload === 1) {
            // The COMMIT of its claim has been answered: the next one is of its settlement.
            proxy.passes = (message, { from, application }) => {
              if (from !== 'server' || application !== 'sluice' || !saysCommitted(message)) return true
              proxy.passes = () => true
              return 'cut'
            }
          }
          if (by === 'transaction()') await transaction((tx) => tx.query('INSERT INTO unanswered VALUES ($1)', [by]))
        })
        .start()
      await untilEmpty(database, queue)
      await put(sluice, queue, [2])
      await untilEmpty(database, queue)
      await pipeline.drain()
      expect(calls).toBe(2)
      const effects = await database.sql('SELECT FROM unanswered WHERE by = $1', [by])
      expect(effects).toHaveLength(by === 'transaction()' ? 2 : 0)
    })
  }
})

describe('a settlement that took effect without an answer', () => {
  for (const [kind, outcome, event] of [
    ['acknowledges', undefined, 'batch.committed'],
    ['retries', retryLater({ after: '1h' }), 'message.failed'],
    ['moves to the dead letters', deadLetter('no use'), 'message.dead'],
  ] as const) {
    test(`and ${kind} is told of, and not taken for lost`, async ({ queue, database }) => {
      const proxy = await startProxy(database.url)
      const sluice = startTestSluice(database, { connection: proxy.url, pollInterval: 100 })
      const log = new EventLog(sluice.events)
      await put(sluice, queue, [1])
      const pipeline = sluice
        .pipeline(queue, { mode: 'leased', concurrency: 1 })
        .handle(() => {
          // No claim sends a COMMIT meanwhile.
          pipeline.pause()
          proxy.passes = (message, { from, application }) => {
            if (from !== 'server' || application !== 'sluice' || !saysCommitted(message)) return true
            proxy.passes = () => true
            return 'cut'
          }
          return outcome
        })
        .start()
      await log.first(event)
      await pipeline.drain()
      expect(log.of('settlement.failed')).toHaveLength(1)
      expect(log.of('lease.lost')).toEqual([])
      const { acked, retried, dead } = log.of('batch.committed')[0]!
      expect(acked + retried + dead).toBe(1)
    })
  }
})

describe('a lease that a crash of the server has taken back', () => {
  test('gives its message to another, and the first handler neither has effects nor removes it', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    await database.sql('CREATE TABLE taken (worker text)')
    await put(sluice, queue, [1])
    const [before] = await database.sql('SELECT due_at FROM sluice.message WHERE queue = $1', [queue])
    const begun = deferred()
    const go = deferred()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 1 })
      .handle(async (_, { transaction }) => {
        begun.resolve()
        await go.promise
        await transaction((tx) => tx.query(`INSERT INTO taken VALUES ('first')`))
      })
      .start()
    await begun.promise
    // Its claim did not wait for the disk: of the row only the version before it is there, and of the record nothing.
    await database.sql(
      `WITH record AS (DELETE FROM sluice.batch_record WHERE queue = $1)
       UPDATE sluice.message SET lease = NULL, due_at = $2 WHERE queue = $1`,
      [queue, before?.due_at],
    )
    const second = startTestSluice(database)
    const attempts: number[] = []
    const claimed = deferred()
    const end = deferred()
    const run = second
      .pipeline(queue, { mode: 'leased' })
      .handle(async (_, { attempt, transaction }) => {
        attempts.push(attempt)
        claimed.resolve()
        await end.promise
        await transaction((tx) => tx.query(`INSERT INTO taken VALUES ('second')`))
      })
      .runOnce()
    await claimed.promise
    go.resolve()
    await log.first('lease.lost')
    expect(await left(database, queue)).toHaveLength(1)
    end.resolve()
    expect((await run).counts.acked).toBe(1)
    await pipeline.drain()
    // Nobody is to blame: it is a first attempt.
    expect(attempts).toEqual([1])
    expect(await database.sql('SELECT worker FROM taken')).toEqual([{ worker: 'second' }])
  })
})

describe('a leased message that an operator deletes', () => {
  test('aborts its handler when its lease is to be renewed, and hurts no other', async ({
    sluice,
    queue,
    database,
  }) => {
    const ids = await put(sluice, queue, [1, 2])
    const both = deferred()
    const reasons = new Map<unknown, unknown>()
    const go = deferred()
    let count = 0
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', lease: '1s' })
      .handle(async ({ payload }, { signal }) => {
        count += 1
        if (count === 2) both.resolve()
        signal.addEventListener('abort', () => reasons.set(payload, signal.reason))
        if (payload === 1) await new Promise((resolve) => signal.addEventListener('abort', resolve))
        else await go.promise
      })
      .start()
    await both.promise
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, ids[0]])
    await waitFor(() => reasons.has(1), { what: 'the handler to be aborted' })
    go.resolve()
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect([...reasons]).toEqual([[1, expect.objectContaining({ code: 'LEASE_LOST' })]])
  })
})
