import { describe, expect } from 'vitest'
import type { Passage } from '../../../faults/environment/tcp-proxy.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const LEASE_MS = 2_000

/** A pipeline of a message that two processes died with, and a network that asks what becomes of each look at that. */
async function suspect(database: TestDatabase, queue: string, passes: () => Passage) {
  const proxy = await startProxy(database.url)
  const sluice = startTestSluice(database, { connection: proxy.url })
  const log = new EventLog(sluice.events)
  const [id] = await put(sluice, queue, ['suspect'])
  await database.sql(
    `INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
     SELECT $1, $2, -n, 1, 'vanished', 'dead', false FROM generate_series(1, 2) AS n`,
    [queue, id],
  )
  const asked = deferred()
  proxy.passes = ({ bytes }, { from, application }) => {
    if (from !== 'client' || application !== 'sluice control' || !bytes.includes('crash_evidence')) return true
    asked.resolve()
    return passes()
  }
  const attempts: number[] = []
  const pipeline = sluice
    .pipeline(queue, { mode: 'leased', lease: LEASE_MS })
    .handle((_, { attempt }) => void attempts.push(attempt))
    .start()
  await asked.promise
  return { proxy, pipeline, attempts, log }
}

describe('a leased message whose evidence', () => {
  test('cannot be read is given back, and handled when it can', async ({ queue, database }) => {
    const answers: Passage[] = ['cut']
    const { pipeline, attempts, log } = await suspect(database, queue, () => answers.shift() ?? true)
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(attempts).toEqual([3])
    expect(log.of('lease.lost')).toEqual([])
  })

  test('is being read keeps its lease', async ({ queue, database }) => {
    const { proxy, pipeline, attempts, log } = await suspect(database, queue, () => 'wait')
    const until = async () => {
      const [row] = await database.sql<{ us: string }>(
        `SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us FROM sluice.message WHERE queue = $1`,
        [queue],
      )
      return BigInt(row?.us ?? 0)
    }
    const first = await until()
    await waitFor(async () => (await until()) > first + 2_500_000n, { what: 'the lease to be renewed' })
    proxy.passes = () => true
    proxy.letGo()
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(attempts).toEqual([3])
    expect(log.of('lease.lost')).toEqual([])
  })

  test('is being read while its lease is lost is not handled', async ({ queue, database }) => {
    const { proxy, pipeline, attempts, log } = await suspect(database, queue, () => 'wait')
    await database.sql(
      `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() + interval '1 h' WHERE queue = $1`,
      [queue],
    )
    // No renewal finds it from here on.
    const ends = performance.now() + LEASE_MS
    await waitFor(() => performance.now() > ends, { what: 'the lease to run out' })
    proxy.passes = () => true
    proxy.letGo()
    await log.first('lease.lost')
    await pipeline.drain()
    expect(attempts).toEqual([])
  })
})
