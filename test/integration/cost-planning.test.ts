import pg from 'pg'
import { expect } from 'vitest'
import { executeOn } from '../../src/connection/open-client.ts'
import { CLAIM_SETTINGS } from '../../src/pipeline/batch-connection.ts'
import { claim } from '../../src/table/claim.ts'
import { claimSlots, claimWholeQueue, WHOLE_QUEUE_SLOT } from '../../src/table/claim-ordered.ts'
import { insertMessages } from '../../src/table/insert.ts'
import { ensureSlots, lookOver } from '../../src/table/lanes.ts'
import { ackMessages, holdKeys } from '../../src/table/settle.ts'
import { pollQueues } from '../../src/table/wait.ts'
import { bottomOf, keysOf, put, test } from '../support/claim-session.ts'
import { times } from '../support/counted.ts'
import { batchRecorded, buried, insertRow, postponed } from '../support/settled-rows.ts'

/** The server plans a prepared statement this often before it may keep one plan for all parameters. */
const PLANNED = 5

/**
 * It keeps none for these: it reckons with ten queues where it knows no better, and then one plan for each poll seems
 * cheaper. A poll is sent once per second.
 */
const PLANNED_EACH_TIME = ['sluice_poll']

test('W18: a hot statement is planned five times by each connection, and then no more', async ({ database, queue }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    const { same, slot } = await keysOf(database)
    const execute = executeOn(client)
    await ensureSlots(execute, queue, [slot, WHOLE_QUEUE_SLOT])
    const ids = await put(database, queue, times(100, [{}, { key: same[0] }]))
    const held = { slot, orderingKey: same[0], messageId: ids[0]!, untilUs: 1 }
    for (let time = 0; time < 2 * PLANNED; time++) {
      await client.query(`BEGIN; ${CLAIM_SETTINGS}`)
      await claim(execute, queue, bottomOf(5), 100)
      await claimSlots(execute, queue, [{ slot, id: '0' }], 100)
      await claimWholeQueue(execute, queue, { slot: WHOLE_QUEUE_SLOT, id: '0' }, 100)
      await lookOver(execute, queue)
      await postponed(execute, queue, ids.slice(0, 50))
      await holdKeys(execute, queue, [held], 2)
      await buried(execute, queue, ids.slice(50, 100))
      await ackMessages(execute, queue, ids.slice(100))
      await batchRecorded(execute, queue, ids)
      await pollQueues(execute, 1, [queue], true)
      await insertMessages(execute, queue, times(10, [insertRow()]))
      await client.query('ROLLBACK')
    }
    const { rows } = await client.query<{ name: string; planned: number }>(
      `SELECT name, custom_plans::integer AS planned FROM pg_prepared_statements WHERE custom_plans > $1 ORDER BY name`,
      [PLANNED],
    )
    expect(rows.map(({ name }) => name)).toEqual(PLANNED_EACH_TIME)
  } finally {
    await client.end()
  }
})
