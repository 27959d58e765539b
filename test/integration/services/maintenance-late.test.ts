import pg from 'pg'
import { expect, onTestFinished, vi } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { type MaintainOptions, maintain } from '../../../src/services/maintain.ts'
import { Maintenance } from '../../../src/services/maintenance.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'
import { deferred } from '../../support/wait.ts'

/** Two steps and a half of dead letters and of receipts, all of them too old. */
async function fill(database: TestDatabase, queue: string): Promise<void> {
  await database.sql('DELETE FROM sluice.receipt; DELETE FROM sluice.dead_letter; DELETE FROM sluice.queue')
  await database.sql('INSERT INTO sluice.queue (queue, dead_letter_retention_ms) VALUES ($1, 1000)', [queue])
  await database.sql(
    `INSERT INTO sluice.dead_letter
       (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at, died_at)
     SELECT $1, n, 5, 1, '1', '{}', 1, 'old', now(), now() - interval '1 day' FROM generate_series(1, 2500) n`,
    [queue],
  )
  await database.sql(
    `INSERT INTO sluice.receipt (queue, source, message_id, until)
     SELECT $1, 's', n::text, now() - interval '1 day' FROM generate_series(1, 2500) n`,
    [queue],
  )
}

/** A database in which each step takes twenty seconds, by the clock that a pass looks at. */
async function slow(database: TestDatabase): Promise<Pick<MaintainOptions, 'inTransaction' | 'inSession'>> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  const now = performance.now.bind(performance)
  let laterMs = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
  onTestFinished(() => clock.mockRestore())
  return {
    inTransaction: async (work) => {
      laterMs += 20_000
      await client.query('BEGIN')
      const result = await work(executeOn(client))
      await client.query('COMMIT')
      return result
    },
    inSession: () => Promise.reject(new Error('no segment is to be dropped')),
  }
}

test('a pass takes a step of each task, however long another one has to do', async ({ database, queue }) => {
  await fill(database, queue)
  const options = await slow(database)
  const onLate = vi.fn()
  const counts = await maintain({ ...options, onFailed: (_, error) => expect(error).toBeUndefined(), onLate })
  expect(counts).toMatchObject({ deadLetters: 1_000, receipts: 1_000, finished: false })
  expect(onLate).toHaveBeenCalledOnce()
})

test('a process makes the next pass at once while one ends for want of time', async ({ database, queue }) => {
  await fill(database, queue)
  const options = await slow(database)
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  const passes: unknown[] = []
  const done = deferred<void>()
  const maintenance = new Maintenance({
    ...options,
    control: { execute: executeOn(client) },
    by: () => 'a',
    intervalMs: 3_600_000,
    report: (event) => {
      if (passes.push(event) === 3) done.resolve()
    },
  })
  // The first pass comes after an hour.
  const later = globalThis.setTimeout
  const timer = vi
    .spyOn(globalThis, 'setTimeout')
    .mockImplementationOnce(((work: () => void) => later(work, 0)) as never)
  maintenance.start()
  timer.mockRestore()
  onTestFinished(() => maintenance.stop())
  await done.promise
  expect(passes).toMatchObject([
    { receipts: 1_000, deadLetters: 1_000, finished: false },
    { receipts: 1_000, deadLetters: 1_000, finished: false },
    { receipts: 500, deadLetters: 500, finished: true },
  ])
})
