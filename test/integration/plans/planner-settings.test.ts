import pg from 'pg'
import { describe, expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { Session } from '../../../src/session/session.ts'
import { claimSettings, handlerSettings } from '../../../src/table/planner.ts'
import { checkSchema } from '../../../src/table/schema.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { expectPlanned, load, STATEMENTS, WRITES } from '../../support/plans/planned.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/test.ts'

/** A twentieth of the messages of the gates for plans: reading a queue through is seen by the way that it is read. */
const SCALE = 1 / 20

const JIT = ['jit = on', 'jit_above_cost = 0', 'jit_inline_above_cost = 0', 'jit_optimize_above_cost = 0']
const PARALLEL = ['parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0']
const SWITCHES = [
  'nestloop',
  'indexscan',
  'indexonlyscan',
  'bitmapscan',
  'seqscan',
  'tidscan',
  'hashjoin',
  'mergejoin',
  'hashagg',
  'sort',
  'incremental_sort',
  'material',
  'memoize',
].map((name) => `enable_${name} = off`)

/** What a database may have, for the sake of some statement of the application. */
const DATABASES: readonly (readonly [string, readonly string[]])[] = [
  ['compiles everything', JIT],
  ...SWITCHES.map((setting) => [`has ${setting}`, [setting]] as const),
  ['has all of them off, and compiles', [...SWITCHES, ...JIT]],
  ['has little memory', ['work_mem = 64', 'hash_mem_multiplier = 1', 'effective_cache_size = 1']],
  ['collapses nothing', ['from_collapse_limit = 1', 'join_collapse_limit = 1', 'geqo_threshold = 2']],
  ['takes random pages for dear', ['random_page_cost = 1000', 'cpu_index_tuple_cost = 1']],
  ['takes random pages for free', ['random_page_cost = 0', 'seq_page_cost = 1000']],
  ['takes all pages for free', ['random_page_cost = 0', 'seq_page_cost = 0', 'cpu_tuple_cost = 0']],
  ['works in parallel', ['max_parallel_workers_per_gather = 4', ...PARALLEL]],
  ['plans each time anew', ['plan_cache_mode = force_custom_plan']],
]

const test = base
  .extend('loaded', { scope: 'file' }, async ({ database }) => {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    const facts = await load(client, SCALE)
    await client.query('ANALYZE sluice.message')
    const { serverVersion } = await checkSchema(executeOn(client))
    const { rows } = await client.query<{ compiles: boolean }>(`SELECT pg_jit_available() AS compiles`)
    await client.end()
    return { facts, serverVersion, compiles: rows[0]!.compiles }
  })
  .extend('connect', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const known = new Map<readonly string[], Awaited<ReturnType<typeof connectWith>>>()
    onCleanup(async () => void (await Promise.all([...known.values()].map(({ client }) => client.end()))))
    /** A session of a database with these settings: one for all tests of it. */
    return async (settings: readonly string[]) => {
      const session = known.get(settings) ?? (await connectWith(database, settings))
      known.set(settings, session)
      return session
    }
  })

describe.for(DATABASES)('in a database that %s,', ([, settings]) => {
  for (const planned of [...STATEMENTS, ...WRITES]) {
    test(`${planned.name} goes by its index, and is not compiled`, async ({ connect, loaded }) => {
      const session = await connect(settings)
      const statement = await recorded((execute) => planned.send(execute, loaded.facts))
      for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
        const explained = await explain(session.client, statement, mode, claimSettings(session.deviations))
        expectPlanned(planned, explained, `${mode}, ${claimSettings(session.deviations)}`)
        expect(explained.compiled, explained.plan).toBe(false)
      }
    })
  }
})

test('such a database compiles a claim that goes without our settings, so this gate can fail', async ({
  connect,
  loaded,
  skip,
}) => {
  skip(!loaded.compiles, 'this server has no LLVM, so nothing could be compiled: DATABASE_URL of one that has')
  const session = await connect(JIT)
  const [claimOf100] = STATEMENTS
  const statement = await recorded((execute) => claimOf100!.send(execute, loaded.facts))
  const explained = await explain(session.client, statement, 'force_generic_plan', 'SET LOCAL enable_sort = off')
  expect(explained.compiled).toBe(true)
})

test('what a handler runs is planned as its database says', async ({ connect }) => {
  const session = await connect([...JIT, 'enable_nestloop = off', 'random_page_cost = 7'])
  const { client, deviations } = session
  const settings = async () => {
    const { rows } = await client.query(
      `SELECT s.name, s.setting FROM pg_settings s WHERE s.name ~ '^(jit|enable_|plan_)'`,
    )
    return rows
  }
  const before = await settings()
  await client.query(`BEGIN; ${claimSettings(deviations)}`)
  expect(await settings()).not.toEqual(before)
  await client.query(handlerSettings(deviations))
  expect(await settings()).toEqual(before)
  await client.query('ROLLBACK')
})

async function connectWith(database: TestDatabase, settings: readonly string[]) {
  const name = new URL(database.url).pathname.slice(1)
  await database.sql(`ALTER DATABASE ${name} RESET ALL`)
  for (const setting of settings) await database.sql(`ALTER DATABASE ${name} SET ${setting}`)
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const session = Session.of(client)
  await session.learn(client)
  return { client, deviations: session.deviations }
}
