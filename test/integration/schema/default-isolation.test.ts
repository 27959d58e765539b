import { expect } from 'vitest'
import { retryLater } from '../../../src/message.ts'
import { EventLog } from '../../support/event-log.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

for (const level of ['repeatable read', 'serializable']) {
  test(`in a database whose transactions are ${level} workers share limits, and maintenance runs`, async ({
    database,
    queue,
  }) => {
    await database.sql(`DO $$ BEGIN
      EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''${level}''', current_database()); END $$`)
    await setQueueColumns(database, queue, { concurrency: 6, tenant_concurrency: 2, rate: 5_000, rate_ms: 1_000 })
    const sluices = [1, 2, 3].map(() => startTestSluice(database))
    const logs = sluices.map((sluice) => new EventLog(sluice.events))
    const [first] = sluices as [ReturnType<typeof startTestSluice>]
    for (const tenant of ['a', 'b', 'c', 'd', 'e', 'f']) await put(first, queue, Array(25).fill(tenant), { tenant })
    const done = new Set<string>()
    for (const [at, sluice] of sluices.entries()) {
      sluice
        .pipeline(queue, { mode: at === 0 ? 'transactional' : 'leased', concurrency: 3 } as never)
        .handle(({ id, attempt }) => {
          if (attempt === 1 && Number(id) % 10 === 0) return retryLater({ after: 0 })
          done.add(id)
          return undefined
        })
        .start()
    }
    await waitFor(() => done.size === 150, { what: 'all to be handled' })
    await first.operate.maintain()
    expect(logs.flatMap((log) => log.of('claim.failed'))).toEqual([])
  })
}
