import { expect } from 'vitest'
import { unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

// Two processes died with this message in hand: the next death may condemn it, so it runs while nothing else does.

test('P2, P4: a message on its last chance waits for its turn without a transaction, and so do those behind it', async ({
  database,
  queue,
  sluice,
  log,
}) => {
  const other = `${queue}.other`
  const [others, lastChances] = [new Steps(), new Steps()]
  sluice.pipeline(other).handle(others.handle).subscribe()
  await put(sluice, other, ['busy'])
  const busy = await others.next()

  const [id] = await put(sluice, queue, ['last chance'])
  await crashedTwice(database, queue, id!)
  // The server would end a transaction of this pipeline after 1.2 seconds.
  sluice.pipeline(queue, { timeout: 100 }).handle(lastChances.handle).subscribe()
  await waitFor(() => wasGivenBack(database), { what: 'the message to be given back' })
  await put(sluice, other, ['behind'])
  expect(await unlockedPayloads(database, queue)).toEqual(['last chance'])
  expect(await openTransactions(database)).toBe(1)

  busy.end()
  const step = await lastChances.endNext()
  expect(step.context.attempt).toBe(3)
  await others.endNext()
  await untilEmpty(database, queue)
  await untilEmpty(database, other)
  expect(log.of('batch.released')).toEqual([])
  expect(await database.sql('SELECT FROM sluice.crash')).toEqual([])
})

async function crashedTwice(database: TestDatabase, queue: string, id: string): Promise<void> {
  await database.sql(
    `INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
     SELECT $1, $2, -n, 1, 'vanished', 'dead', false FROM generate_series(1, 2) AS n`,
    [queue, id],
  )
}

/** Its claim was rolled back. */
async function wasGivenBack(database: TestDatabase): Promise<boolean> {
  const rows = await database.sql(
    `SELECT FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'sluice' AND state = 'idle' AND query = 'ROLLBACK'`,
  )
  return rows.length > 0
}

async function openTransactions(database: TestDatabase): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `SELECT count(*)::integer AS n FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'sluice' AND xact_start IS NOT NULL`,
  )
  return row?.n ?? 0
}
