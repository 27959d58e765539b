import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { claim } from '../../../src/table/claim/claim.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { bottomOf } from '../../support/rows/claim-session.ts'
import { test } from '../../support/servers/undisturbed.ts'

test('a claim of ten goes by its index and reads little', async ({ database }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query(`SELECT sluice.enqueue('q', '{}') FROM generate_series(1, 5000)`)
  await client.query('ANALYZE sluice.message')

  const statement = await recorded((execute) => claim(execute, 'q', bottomOf(5), 10))
  const { ways, buffers, plan } = await explain(client, statement)
  expect(ways, plan).toContain('Index Scan message_due_idx')
  expect(ways, plan).not.toContain('Seq Scan message')
  expect(buffers, plan).toBeLessThan(100)
})
