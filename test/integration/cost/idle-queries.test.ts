import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import type { TcpProxy } from '../../../faults/environment/tcp-proxy.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { untilSessions } from '../../support/servers/sessions.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const QUEUES = Array.from({ length: 100 }, (_, at) => `idle.${at}`)

describe('the queries', () => {
  test('of a hundred idle queues are one per second in all', async ({ database }) => {
    const processes = [await startIdle(database), await startIdle(database)]
    await waitFor(async () => (await flagsHeld(database)) === QUEUES.length, { what: 'all flags to be raised' })
    // The control and the listener connection, and those of the looks that ran side by side.
    for (const proxy of processes) expect(proxy.accepted).toBeLessThanOrEqual(2 + 8)
    // The looks of the start trickle out. Then there are the poll of each second, the listener's heartbeat, the reaper,
    // and now and then a look at the flags of the other process.
    for (const [ms, most] of [
      [2_000, 3],
      [10_000, 12],
    ] as const) {
      const isQuiet = async (proxy: TcpProxy) => (await countFor(proxy, ms)) <= most
      const what = `at most ${most} queries in ${ms} ms`
      await Promise.all(processes.map((proxy) => waitFor(() => isQuiet(proxy), { what, timeoutMs: 45_000 })))
    }
    await untilSessions(database, 'sluice control', 2)
    await untilSessions(database, 'sluice listener', 2)
    // The connections that looked at the queues are closed after ten idle seconds.
    await untilSessions(database, 'sluice', 0)
  })

  test('of a busy and an idle runner are at most six per second', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { connection: proxy.url })
    const steps = new Steps()
    sluice.pipeline(queue, { concurrency: 2, batchSize: 1 }).handle(steps.handle).subscribe()
    await put(sluice, queue, [1])
    await steps.next()
    const looks = () => proxy.statements.filter(({ text }) => text === 'ROLLBACK').length
    await waitFor(() => looks() >= 2, { what: 'the idle runner to have looked' })
    // On a busy machine a look can take so long that the next sweep has to wait, and then one poll costs two looks.
    const isIdle = async () => (await countFor(proxy, 5_000)) <= 30
    await waitFor(isIdle, { what: 'at most 30 queries in 5 s', timeoutMs: 60_000 })
    expect(steps.taken).toHaveLength(1)
  })
})

/** A process that consumes all queues, through a proxy that counts. */
async function startIdle(database: TestDatabase): Promise<TcpProxy> {
  const proxy = await startProxy(database.url)
  const sluice = startTestSluice(database, { connection: proxy.url })
  for (const queue of QUEUES)
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
  return proxy
}

async function flagsHeld(database: TestDatabase): Promise<number> {
  const rows = await database.sql(
    `SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 746501 AND l.mode = 'ExclusiveLock' AND l.granted
     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`,
  )
  return rows.length
}

async function countFor(proxy: TcpProxy, ms: number): Promise<number> {
  const before = proxy.statements.length
  await sleep(ms)
  return proxy.statements.length - before
}
