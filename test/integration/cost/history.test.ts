import pg from 'pg'
import { expect, inject } from 'vitest'
import type { Execute } from '../../../src/table/statement.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { keepHistory } from '../../support/rows/history.ts'
import { acked } from '../../support/rows/settled-rows.ts'
import { ackAndKeep, ackAndKeepLeased } from '../../support/rows/write-settled.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/test.ts'

const VERSION = inject('serverVersion')
/** Before PostgreSQL 17 the ctids of the rows are looked up first. */
const BEFORE_17 = VERSION < 170_000

/** A hundred messages, leased by 5, in a queue beside which the history has a year of days. */
const test = base.extend('settling', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  onCleanup(() => client.end())
  await client.connect()
  await keepHistory(database, 'kept', 365 * 86_400_000)
  const rows = await database.sql<{ id: string }>(
    `INSERT INTO sluice.message (queue, payload, lease) SELECT 'kept', '{"order": 17}', 5 FROM generate_series(1, 100) RETURNING id::text`,
  )
  const ids = rows.map(({ id }) => id)
  // The first rows of a table and its indexes make their pages.
  await database.sql('SELECT sluice.pop($1)', ['kept'])
  return { client, ids: ids.slice(1) }
})

const kept = (ids: readonly string[]) => ({ worker: 'w', attempts: ids.map(() => 1), claimedUs: ids.map(() => 0) })
const leased = (ids: readonly string[]) => ids.map((id) => ({ id, lease: '5' }))

const SENDS: readonly (readonly [string, number, (on: Execute, ids: readonly string[]) => Promise<unknown>])[] = [
  ['transactional', BEFORE_17 ? 1_350 : 800, (on, ids) => ackAndKeep(on, 'kept', ids, kept(ids), VERSION)],
  ['leased', BEFORE_17 ? 1_350 : 800, (on, ids) => ackAndKeepLeased(on, 'kept', leased(ids), kept(ids), VERSION)],
]

test.for(SENDS)(
  'a settlement of a hundred with history reads and writes so much, and not more with a year of days: %s',
  async ([, most, send], { database, settling: { client, ids } }) => {
    const sent = await recorded((on) => send(on, ids))
    const { buffers, plan } = await explain(client, sent, 'force_generic_plan')
    expect(buffers, plan).toBeLessThanOrEqual(most)
    await addDays(database, 200)
    const later = await explain(client, sent, 'force_generic_plan')
    expect(later.buffers, later.plan).toBeLessThanOrEqual(most)
    expect(later.ways.filter((way) => way.startsWith('Seq Scan'))).toEqual([])
  },
)

test('a settlement without history names neither the history nor the settings', async ({ settling: { ids } }) => {
  const { statement } = await recorded((on) => acked(on, 'kept', ids))
  expect(statement.text).not.toMatch(/completed|sluice\.queue/)
})

async function addDays(database: TestDatabase, days: number): Promise<void> {
  await database.sql(`
    DO $$ DECLARE day timestamptz; BEGIN
      FOR n IN 1..${days} LOOP
        day := sluice_private.day_of(now()) - interval '24 hours' * n;
        EXECUTE format('CREATE TABLE IF NOT EXISTS sluice.%I PARTITION OF sluice.completed_message FOR VALUES FROM (%L) TO (%L)',
          'completed_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD'), day, day + interval '24 hours');
      END LOOP;
    END $$`)
}
