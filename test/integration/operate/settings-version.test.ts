import type pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { readSettings } from '../../../src/table/settings/read-settings.ts'
import { executeAlone } from '../../support/permutations/claims.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Begins a transaction that has a number. */
async function begun(client: pg.ClientBase): Promise<bigint> {
  await client.query('BEGIN')
  const { rows } = await client.query('SELECT pg_current_xact_id()::text AS xid')
  return BigInt(rows[0].xid)
}

async function clientOf(database: TestDatabase): Promise<pg.PoolClient> {
  const client = await database.pool.connect()
  onTestFinished(async () => {
    await client.query('ROLLBACK')
    client.release()
  })
  return client
}

/** Three open transactions, of which the second has the number in the middle between those of the others. */
async function threeInARow(database: TestDatabase) {
  const [first, middle, last] = await Promise.all([clientOf(database), clientOf(database), clientOf(database)])
  const rollBack = () => Promise.all([first, middle, last].map((client) => client.query('ROLLBACK')))
  return waitFor(
    async () => {
      const from = await begun(first)
      const wanted = 2n * (await begun(middle)) - from
      let at = await begun(last)
      for (; at < wanted; at = await begun(last)) await last.query('ROLLBACK')
      if (at === wanted) return { first, middle, last }
      // Another session has drawn that number.
      await rollBack()
      return undefined
    },
    { what: 'three transactions whose numbers are as far apart' },
  )
}

test('two pauses and one transaction that ends both are two versions, whatever the numbers of the transactions', async ({
  database,
  queue,
}) => {
  const execute = executeAlone(database)
  const queues = [`${queue}.1`, `${queue}.2`]
  for (const name of queues) await database.sql(`SELECT sluice.queue_set($1, '{"max_attempts": 5}')`, [name])
  const { first, middle, last } = await threeInARow(database)
  for (const [client, name] of [
    [first, queues[0]],
    [last, queues[1]],
  ] as const) {
    await client.query('SELECT sluice.pause($1)', [name])
    await client.query('COMMIT')
  }
  const paused = await readSettings(execute, null)
  for (const name of queues) expect(paused?.queues.get(name)?.paused).not.toBeNull()
  expect(await readSettings(execute, paused!.version)).toBeUndefined()
  for (const name of queues) await middle.query('SELECT sluice.resume($1)', [name])
  await middle.query('COMMIT')
  const resumed = await readSettings(execute, paused!.version)
  for (const name of queues) expect(resumed?.queues.get(name)?.paused).toBeNull()
})
