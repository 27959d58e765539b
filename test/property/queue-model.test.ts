import fc from 'fast-check'
import { expect, onTestFinished } from 'vitest'
import { installSqlClock, onSqlClock } from '../../faults/environment/sql-clock.ts'
import { LastSequence } from '../support/models/last-sequence.ts'
import { QueueModel } from '../support/models/queue-model.ts'
import { type Command, commandsOf } from '../support/models/queue-model-commands.ts'
import { QueueSystem } from '../support/models/queue-model-system.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test as base, startTestSluice } from '../support/sluice.ts'

const test = base.extend('clocked', { scope: 'file', auto: true }, async ({ database }) => {
  await installSqlClock(database.sql)
  await database.sql('CREATE TABLE effect (queue text NOT NULL, message_id bigint NOT NULL)')
})

/** A sequence takes a tenth of a second. What is left of the time goes into shrinking one that failed. */
const RUNS = { seed: 20_261_122, numRuns: 80, interruptAfterTimeLimit: 60_000 }

/** A model in which a message that has been leased lets the later ones of its key go first. */
class OpenKeys extends QueueModel {
  override closedBy(): undefined {
    return undefined
  }
}

test('whatever is done to a queue, the database agrees with a model of a few hundred lines', async ({ database }) => {
  await fc.assert(await agreement(database, () => new QueueModel()), RUNS)
})

test('the database disagrees with a model that opens the keys of leased messages', async ({ database }) => {
  const { errorInstance } = await fc.check(await agreement(database, () => new OpenKeys()), {
    ...RUNS,
    endOnFailure: true,
  })
  expect(errorInstance).toMatchObject({ name: 'AssertionError' })
})

let queues = 0

async function agreement(database: TestDatabase, newModel: () => QueueModel) {
  const sluice = startTestSluice(database, { connection: onSqlClock(database.url), pollInterval: 100 })
  await sluice.start()
  const last = new LastSequence()
  onTestFinished(() => last[Symbol.asyncDispose]())
  const run = last.of(async (commands: Iterable<Command>) => {
    queues += 1
    const system = new QueueSystem(database, sluice, `model.${queues}`)
    try {
      await fc.asyncModelRun(() => ({ model: newModel(), real: system }), commands)
    } finally {
      await system.close()
    }
  })
  return fc.asyncProperty(commandsOf(await keysThatShareASlot(database)), run)
}

/** Two keys of one slot, and one of another. */
async function keysThatShareASlot(database: TestDatabase): Promise<readonly string[]> {
  const rows = await database.sql<{ key: string }>(
    `SELECT k.key FROM (SELECT 'k' || n AS key FROM generate_series(1, 2000) n) k
     WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = hashtextextended('k1' COLLATE "C", 0) & 255 ORDER BY 1 LIMIT 2`,
  )
  expect(rows).toHaveLength(2)
  return [...rows.map(({ key }) => key), `it's "another"\\ \u202e{NULL}`]
}
