import pg from 'pg'
import { describe } from 'vitest'
import { claimSettings } from '../../../src/table/planner.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { expectPlanned, LEASED_WRITES, load, STATEMENTS, WRITES } from '../../support/plans/planned.ts'
import { STATISTICS, type Statistics, setStatistics } from '../../support/plans/statistics.ts'
import { test as base } from '../../support/servers/undisturbed.ts'

const test = base.extend('loaded', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  const facts = await load(client)
  return {
    client,
    facts,
    with: (wanted: Statistics) => setStatistics(client, wanted),
  }
})

for (const statements of [STATEMENTS, WRITES, LEASED_WRITES]) {
  describe.for(STATISTICS)('with a million messages, %s,', (statistics) => {
    for (const planned of statements) {
      test(`${planned.name} goes by its index and reads little`, async ({ loaded }) => {
        await loaded.with(statistics)
        const statement = await recorded((execute) => planned.send(execute, loaded.facts))
        for (const settings of planned.free ? [claimSettings(), ''] : [claimSettings()]) {
          for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
            expectPlanned(planned, await explain(loaded.client, statement, mode, settings), `${mode} ${settings}`)
          }
        }
      })
    }
  })
}
