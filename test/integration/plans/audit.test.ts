import pg from 'pg'
import { describe, expect } from 'vitest'
import { type AuditMatch, readAudit } from '../../../src/table/operate/audit.ts'
import { PLAN_BY_INDEX } from '../../../src/table/planner.ts'
import { explain, recorded } from '../../support/plans/explain.ts'
import { STATISTICS, setStatistics } from '../../support/plans/statistics.ts'
import { test as base } from '../../support/test.ts'

/** 300,000 actions of a month in 50 queues, and some that concern none. */
const ACT = `
INSERT INTO sluice.action (at, actor, login, action, queue, message_ids, count)
SELECT now() - n * interval '9 seconds', 'ada', 'app', 'message.cancel',
       CASE WHEN n % 100 > 0 THEN 'q.' || n % 50 END, ARRAY[n::bigint], 1
FROM generate_series(1, 300000) n`

const test = base.extend('client', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  await client.query('ALTER TABLE sluice.action SET (autovacuum_enabled = off)')
  await client.query(ACT)
  return client
})

const ALL: AuditMatch = { queue: null, subject: null, id: null, action: null, actor: null, since: null, before: null }
/** Behind all of them. EXPLAIN of PostgreSQL 14 cannot show the instant that the first page begins with. */
const LATEST = { us: String(Date.now() * 1_000 + 3_600_000_000), id: '0' }
const PAST = Date.now() * 1_000 - 1_000_000_000_000

describe('a page of the audit', () => {
  test.for(
    STATISTICS.flatMap((statistics) => [
      { statistics, of: 'everything', match: {}, way: 'action_pkey' },
      { statistics, of: 'a time', match: { before: PAST, since: PAST - 3_600_000_000 }, way: 'action_pkey' },
      { statistics, of: 'a queue', match: { queue: 'q.7' }, way: 'action_queue_idx' },
      { statistics, of: 'a kind in a queue', match: { queue: 'q.7', action: 'message' }, way: 'action_queue_idx' },
      { statistics, of: 'a queue without any', match: { queue: 'none' }, way: 'action_queue_idx' },
    ]),
  )(
    'of $of reads no more than its rows, with statistics: $statistics',
    async ({ statistics, match, way }, { client }) => {
      await setStatistics(client, statistics, 'sluice.action')
      const page = await recorded((execute) => readAudit(execute, { ...ALL, ...match }, { after: LATEST, limit: 50 }))
      const { ways, buffers, plan } = await explain(client, page, 'force_custom_plan', PLAN_BY_INDEX.text)
      expect(
        ways.filter((one) => one.includes('action')),
        plan,
      ).toEqual([`Index Scan ${way}`])
      expect(buffers, plan).toBeLessThan(120)
    },
  )

  test.for(
    STATISTICS.flatMap((statistics) => [
      { statistics, of: 'one message', match: { id: '777' } },
      { statistics, of: 'a message that nobody has touched', match: { id: '999999999' } },
      { statistics, of: 'one message in a queue', match: { id: '777', queue: 'q.27' } },
    ]),
  )('of $of reads no other actions, with statistics: $statistics', async ({ statistics, match }, { client }) => {
    await setStatistics(client, statistics, 'sluice.action')
    const page = await recorded((execute) => readAudit(execute, { ...ALL, ...match }, { after: LATEST, limit: 50 }))
    const { ways, buffers, plan } = await explain(client, page, 'force_custom_plan')
    expect(
      ways.filter((one) => one.includes('action')),
      plan,
    ).toEqual(['Bitmap Index Scan action_message_idx'])
    expect(buffers, plan).toBeLessThan(120)
  })
})
