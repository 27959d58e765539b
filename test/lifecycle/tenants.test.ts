import { expect } from 'vitest'
import { createEffects } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { setQueueColumns } from '../support/rows/queue-settings.ts'
import { test as base } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) => createEffects(database))

test.for(['transactional', 'leased'] as const)(
  'in %s mode, tenants have what they may in flight, and no more, while one process after another is killed',
  async (mode, { database, queue }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2 })
    const tenantOf = new Map<string, string>()
    const put = async (tenant: string, count: number) => {
      const rows = await database.sql<{ id: string }>(
        `SELECT sluice.enqueue($1, '{"wait": true}', tenant => $2)::text AS id FROM generate_series(1, $3)`,
        [queue, tenant, count],
      )
      for (const { id } of rows) tenantOf.set(id, tenant)
    }
    // Enough for all that begin: what a dead worker had leased is due behind them, so no message dies twice. One that has is
    // handled alone in its process, which then has less in flight than it may.
    for (const tenant of ['a', 'b', 'c']) await put(tenant, 2 + KILLS * 4)
    const options = { mode, concurrency: 8, ...(mode === 'transactional' && { batchSize: 1 }) } as const
    const start = () => WorkerProcess.start(database, queue, options)
    let workers = await Promise.all([start(), start()])
    const left = async () => {
      const rows = await database.sql<{ id: string }>('SELECT id::text FROM sluice.message WHERE queue = $1', [queue])
      return new Set(rows.map(({ id }) => id))
    }
    /** How many messages of each tenant the living have begun and not ended. */
    const begun = async () => {
      const unsettled = await left()
      const counts: Record<string, number> = {}
      for (const news of workers.flatMap((worker) => worker.news)) {
        if (news.kind !== 'handling' || !unsettled.has(news.id)) continue
        const tenant = tenantOf.get(news.id) ?? ''
        counts[tenant] = (counts[tenant] ?? 0) + 1
      }
      return counts
    }
    const beginning = (total: number) =>
      waitFor(async () => Object.values(await begun()).reduce((sum, count) => sum + count, 0) >= total, {
        what: `${total} messages to begin`,
      })
    await beginning(6)
    for (let kills = 1; kills <= KILLS; kills += 1) {
      const [first, ...others] = workers
      await first?.kill()
      workers = [...others, await start()]
      await beginning(6)
      expect(await begun()).toEqual({ a: 2, b: 2, c: 2 })
      for (const worker of workers) worker.order('go')
      await waitFor(async () => tenantOf.size - (await left()).size === kills * 6, { what: 'these to end' })
      await beginning(6)
    }
    // Claims go on behind those tenants.
    await put('d', 3)
    await beginning(8)
    expect(await begun()).toEqual({ a: 2, b: 2, c: 2, d: 2 })
  },
)

const KILLS = 2
