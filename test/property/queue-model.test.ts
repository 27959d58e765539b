import fc from 'fast-check'
import { expect } from 'vitest'
import { installSqlClock, onSqlClock } from '../../faults/environment/sql-clock.ts'
import { QueueModel } from '../support/models/queue-model.ts'
import { commandsOf } from '../support/models/queue-model-commands.ts'
import { QueueSystem } from '../support/models/queue-model-system.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { startTestSluice, test } from '../support/sluice.ts'

/**
 * A sequence takes a tenth of a second. The seed, and the first number of the path, bring one back that failed; what is
 * left of the time goes into shrinking it.
 */
const RUNS = { numRuns: 100, interruptAfterTimeLimit: 60_000 }

test('whatever is done to a queue, the database agrees with a model of a few hundred lines', async ({ database }) => {
  await installSqlClock(database.sql)
  await database.sql('CREATE TABLE effect (queue text NOT NULL, message_id bigint NOT NULL)')
  const sluice = startTestSluice(database, { connection: onSqlClock(database.url), pollInterval: 100 })
  await sluice.start()
  let queues = 0
  const property = fc.asyncProperty(commandsOf(await keysThatShareASlot(database)), async (commands) => {
    queues += 1
    const system = new QueueSystem(database, sluice, `model.${queues}`)
    try {
      await fc.asyncModelRun(() => ({ model: new QueueModel(), real: system }), commands)
    } finally {
      await system.close()
    }
  })
  await fc.assert(property, RUNS)
}, 120_000)

/** Two keys of one slot, and one of another. */
async function keysThatShareASlot(database: TestDatabase): Promise<readonly string[]> {
  const rows = await database.sql<{ key: string }>(
    `SELECT k.key FROM (SELECT 'k' || n AS key FROM generate_series(1, 2000) n) k
     WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = hashtextextended('k1' COLLATE "C", 0) & 255 ORDER BY 1 LIMIT 2`,
  )
  expect(rows).toHaveLength(2)
  return [...rows.map(({ key }) => key), `it's "another"\\ \u202e{NULL}`]
}
