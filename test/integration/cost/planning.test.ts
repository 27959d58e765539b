import pg from 'pg'
import { expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { Session } from '../../../src/session/session.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimSlots, claimWholeQueue, WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { insertMessages } from '../../../src/table/enqueue/insert.ts'
import { claimSettings } from '../../../src/table/planner.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { pollQueues } from '../../../src/table/worker/wait.ts'
import { times } from '../../support/plans/counted.ts'
import { bottomOf, keysOf, put, test } from '../../support/rows/claim-session.ts'
import { acked, batchRecorded, buried, insertRow, postponed } from '../../support/rows/settled-rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

/** The server plans a prepared statement this often before it may keep one plan for all parameters. */
const PLANNED = 5

test('a hot statement of a batch is planned once by each connection, whatever its parameters', async ({
  database,
  queue,
}) => {
  expect(await planned(database, queue, claimSettings(), 0)).toEqual([])
})

test('a settlement behind a handler, who has the planner free, is planned five times and then no more', async ({
  database,
  queue,
}) => {
  // The rest is not sent there.
  const elsewhere = [
    'sluice_claim',
    'sluice_claim_free_slots',
    'sluice_claim_slots',
    'sluice_claim_whole_queue',
    'sluice_lanes',
    'sluice_poll',
  ]
  const each = await planned(database, queue, 'SET LOCAL plan_cache_mode = auto', PLANNED)
  expect(each.filter((name) => !elsewhere.includes(name))).toEqual([])
})

/** The names of the statements that are planned more often than that. */
async function planned(database: TestDatabase, queue: string, settings: string, most: number): Promise<string[]> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await Session.of(client).learn(client)
    await sendAll(client, database, queue, settings)
    const { rows } = await client.query<{ name: string; plans: number }>(
      `SELECT name, custom_plans::integer AS plans FROM pg_prepared_statements WHERE name <> 'sluice_session' ORDER BY name`,
    )
    expect(rows.length).toBeGreaterThan(5)
    return rows.filter(({ plans }) => plans > most).map(({ name }) => name.replace(/_[0-9a-f]{8}$/, ''))
  } finally {
    await client.end()
  }
}

async function sendAll(client: pg.Client, database: TestDatabase, queue: string, settings: string): Promise<void> {
  const { same, slot } = await keysOf(database)
  const execute = executeOn(client)
  await ensureSlots(executeOn(database.pool), queue, [slot, WHOLE_QUEUE_SLOT])
  const ids = await put(database, queue, times(100, [{}, { key: same[0] }]))
  const held = { slot, orderingKey: same[0], messageId: ids[0]!, untilUs: 1 }
  for (let time = 0; time < 2 * PLANNED; time++) {
    await client.query(`BEGIN; ${settings}`)
    await claim(execute, queue, bottomOf(5), 100)
    await claimSlots(execute, queue, [{ slot, id: '0' }], 100)
    await claimWholeQueue(execute, queue, { slot: WHOLE_QUEUE_SLOT, id: '0' }, 100)
    await scanQueue(execute, queue)
    await postponed(execute, queue, ids.slice(0, 50))
    await holdKeys(execute, queue, [held], 2)
    await buried(execute, queue, ids.slice(50, 100))
    await acked(execute, queue, ids.slice(100))
    // One message: that a plan for one is cheaper must not tempt the planner.
    await acked(execute, queue, ids.slice(0, 1))
    await batchRecorded(execute, queue, ids)
    await pollQueues(execute, 1, [queue], { consumed: [queue], dead: true })
    await insertMessages(execute, queue, times(10, [insertRow()]))
    await client.query('ROLLBACK')
  }
}
