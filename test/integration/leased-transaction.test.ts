import { describe, expect } from 'vitest'
import type { Sluice } from '../../src/sluice.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { put, test } from '../support/sluice.ts'
import { deferred, waitFor } from '../support/wait.ts'

/** So many handlers of a pipeline have a transaction at a time. */
const PLACES = 10

/** The server would end their transactions with their leases. */
const NO_LIMITS = `
SELECT set_config(s.name, '0', true) FROM pg_catalog.pg_settings s
WHERE s.name IN ('transaction_timeout', 'idle_in_transaction_session_timeout')`

/** A pipeline whose transactions are all taken until the test ends them, and a handler that asks for one more. */
async function oneTooMany(sluice: Sluice, queue: string, afterAsking: (asked: Promise<unknown>) => Promise<unknown>) {
  await put(sluice, queue, [...Array.from({ length: PLACES }, () => 'inside'), 'waits'])
  const full = deferred()
  const end = deferred()
  const asked = deferred<AbortSignal>()
  let inside = 0
  let worked = false
  const pipeline = sluice
    .pipeline(queue, { mode: 'leased', lease: '2s', concurrency: PLACES + 1, retry: { kind: 'fixed', delay: '1h' } })
    .handle(async ({ payload }, { transaction, signal }) => {
      if (payload === 'inside') {
        await transaction(async (tx) => {
          await tx.query(NO_LIMITS)
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
