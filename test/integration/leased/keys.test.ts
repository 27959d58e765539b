import pg from 'pg'
import { describe, expect } from 'vitest'
import { scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { load } from '../../support/plans/planned.ts'
import { STATISTICS, type Statistics, setStatistics } from '../../support/plans/statistics.ts'
import { test as base } from '../../support/servers/undisturbed.ts'

const test = base.extend('keyed', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  const { hotSlot } = await load(client, 0.3)
  const { rows } = await client.query<{ id: string }>(
    `SELECT id::text AS id FROM sluice.message WHERE queue = 'mixed' AND slot = $1 ORDER BY id OFFSET 20000 LIMIT 1`,
    [hotSlot],
  )
  const id = rows[0]!.id
  await client.query(`UPDATE sluice.message SET lease = 7 WHERE queue = 'mixed' AND id = $1`, [id])
  return {
    client,
    hotSlot,
    id,
    with: (wanted: Statistics) => setStatistics(client, wanted),
  }
})

describe.for(STATISTICS)('the keys that leases have closed, in a slot of 30,000 messages, %s,', (statistics) => {
  test('are found without reading the others', async ({ keyed }) => {
    await keyed.with(statistics)
    const { client, hotSlot, id } = keyed
    const { rows } = await client.query<{ keys: object }>(`SELECT sluice_private.leased_keys('mixed', $1, 0) AS keys`, [
      hotSlot,
    ])
    expect(rows).toEqual([{ keys: { hot: id } }])
    const text = `SELECT sluice_private.leased_keys('mixed', ${hotSlot}::smallint, 0)`
    const explained = await explain(client, { statement: { name: 'keys', text }, params: [] }, 'force_generic_plan')
    expect(explained.buffers, explained.plan).toBeLessThanOrEqual(20)
  })

  test('are asked when they open by a look over the queue, which reads no more', async ({ keyed }) => {
    await keyed.with(statistics)
    const statement = await recorded((execute) => scanQueue(execute, 'mixed'))
    for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
      const explained = await explain(keyed.client, statement, mode)
      expect(explained.buffers, explained.plan).toBeLessThanOrEqual(256 * 16)
    }
  })
})
