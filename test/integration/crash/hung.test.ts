import { expect } from 'vitest'
import { startTestSluice } from '../../support/sluice.ts'
import { test } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'

// A handler that blocks the event loop stops every clock of its process: only the server can end its transaction.

test('P4: a message that hangs its process until the server ends the transaction dies after crashLimit times', async ({
  database,
}) => {
  const sluice = startTestSluice(database, { crashLimit: 2 })
  await database.sql('CREATE TABLE hung_effect (id text)')
  const attempts: number[] = []
  const poison = await sluice.enqueue(sluice.ownTransaction, 'hung', { poison: true })
  const innocent = await sluice.enqueue(sluice.ownTransaction, 'hung', { poison: false })

  sluice
    .pipeline('hung', { timeout: 500, batchSize: 10 })
    .handle(async (message, { tx, attempt }) => {
      await tx.query('INSERT INTO hung_effect VALUES ($1)', [message.id])
      if (message.id !== poison) return
      attempts.push(attempt)
      const until = performance.now() + 4_000
      while (performance.now() < until);
    })
    .subscribe()

  await waitFor(async () => (await database.sql('SELECT 1 FROM sluice.dead_letters')).length === 1, {
    what: 'the dead letter',
  })
  await waitFor(async () => (await database.sql('SELECT 1 FROM sluice.message')).length === 0, { what: 'the innocent' })
  expect(await database.sql('SELECT id::text, reason, attempt FROM sluice.dead_letters')).toEqual([
    { id: poison, reason: 'crashed: 2 processes died or hung while they handled this message', attempt: 2 },
  ])
  expect(attempts).toEqual([1, 2])
  expect(await database.sql('SELECT id FROM hung_effect')).toEqual([{ id: innocent }])
  expect(await database.sql('SELECT 1 FROM sluice.crash')).toEqual([])
})
