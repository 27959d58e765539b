import pg from 'pg'
import { describe, expect } from 'vitest'
import { explainEvent, explainMessage, explainQueue } from '../../../src/table/operate/explanations.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { explain, type PlanMode, recorded } from '../../support/plans/explain.ts'
import { load } from '../../support/plans/planned.ts'
import { STATISTICS, setStatistics } from '../../support/plans/statistics.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import { test as base } from '../../support/servers/undisturbed.ts'

interface Crowd {
  readonly client: pg.Client
  /** The last message of each queue, or of one of its keys. */
  readonly last: Readonly<Record<'busy' | 'hot' | 'cold' | 'closed' | 'tenant' | 'limited', string>>
}

/**
 * 300,000 messages; in them a key with 30,000, a slot in which 10,000 are closed by another key, a tenant with 20,000, a
 * limit of 1,000 permits that claims have, and 20,000 that have failed, half of which are due.
 */
const test = base.extend('crowd', { scope: 'file' }, async ({ database }, { onCleanup }): Promise<Crowd> => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  await load(client, 0.3)
  await client.query(`
    INSERT INTO sluice.message (queue, ordering_key, payload, lease)
      SELECT 'closed', 'closed', '{}', 0 FROM generate_series(1, 10000);
    INSERT INTO sluice.message (queue, ordering_key, payload)
      SELECT 'closed', k.key, '{}' FROM (SELECT 'free ' || n AS key FROM generate_series(1, 4000) n) k
      WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = hashtextextended('closed' COLLATE "C", 0) & 255 LIMIT 1;
    INSERT INTO sluice.message (queue, tenant, priority, payload)
      SELECT 'tenants', 'tenant ' || n % 50, n % 10, '{}' FROM generate_series(1, 20000) n;
    INSERT INTO sluice.message (queue, payload) SELECT 'limited', '{}' FROM generate_series(1, 2000);
    INSERT INTO sluice.message (queue, due_at, attempt, failed_at, last_error, payload)
      SELECT 'failed', clock_timestamp() + (n * 7919 % 20000 - 10000) * interval '1 minute', 3, clock_timestamp(), 'no card', '{}'
      FROM generate_series(1, 20000) n;
    SELECT sluice.create_stream('log', 4), sluice.create_group('log', 'all', '{0}');
    SELECT count(*) FROM sluice.append_many('log', (SELECT jsonb_agg(n) FROM generate_series(1, 20000) n));`)
  await setQueueColumns(database, 'tenants', { tenant_concurrency: 3, tenant_rate: 5 })
  await setQueueColumns(database, 'limited', { concurrency: 1_000 })
  await client.query(`SELECT count(*) FROM sluice.claim('limited', 1000)`)
  const last = async (where: string) => {
    const { rows } = await client.query<{ id: string }>(`SELECT max(id)::text AS id FROM sluice.message WHERE ${where}`)
    return rows[0]!.id
  }
  return {
    client,
    last: {
      busy: await last(`queue = 'busy' AND priority = 9 AND due_at <= clock_timestamp()`),
      hot: await last(`queue = 'mixed' AND ordering_key = 'hot' AND due_at <= clock_timestamp()`),
      cold: await last(`queue = 'mixed' AND ordering_key = 'key 7' AND due_at <= clock_timestamp()`),
      closed: await last(`queue = 'closed'`),
      tenant: await last(`queue = 'tenants'`),
      limited: await last(`queue = 'limited'`),
    },
  }
})

const byId = (queue: string, id: string) => (execute: Execute) =>
  explainMessage(execute, queue, { id, dedupeKey: null })

/** As on PostgreSQL 18, with a little to spare: far below the 6,000 pages of the largest queue alone, and its 180,000 rows. */
const COSTS: readonly {
  readonly name: string
  readonly send: (last: Crowd['last']) => (execute: Execute) => Promise<unknown>
  readonly buffers: number
}[] = [
  { name: 'a message behind 160,000', send: ({ busy }) => byId('busy', busy), buffers: 1_400 },
  { name: 'a message with a key', send: ({ cold }) => byId('mixed', cold), buffers: 220 },
  { name: 'a message behind 30,000 others of its key', send: ({ hot }) => byId('mixed', hot), buffers: 220 },
  { name: 'a message behind 10,000 of a closed key', send: ({ closed }) => byId('closed', closed), buffers: 400 },
  { name: 'a message of a tenant with limits', send: ({ tenant }) => byId('tenants', tenant), buffers: 500 },
  { name: 'a message behind a limit of 1,000', send: ({ limited }) => byId('limited', limited), buffers: 6_000 },
  { name: 'a message that has never existed', send: () => byId('busy', '999999999'), buffers: 700 },
  { name: 'a message that is gone', send: () => byId('busy', '0'), buffers: 1_500 },
  { name: 'a message of another queue', send: ({ busy }) => byId('none', busy), buffers: 500 },
  { name: 'a queue with ten priorities', send: () => (execute) => explainQueue(execute, 'busy'), buffers: 400 },
  { name: 'a queue with 256 full slots', send: () => (execute) => explainQueue(execute, 'mixed'), buffers: 9_000 },
  {
    name: 'a queue with a key that 10,000 messages have closed',
    send: () => (execute) => explainQueue(execute, 'closed'),
    buffers: 700,
  },
  {
    name: 'a queue with 10,000 that have failed',
    send: () => (execute) => explainQueue(execute, 'failed'),
    buffers: 1_500,
  },
  { name: 'a queue with 1,000 in flight', send: () => (execute) => explainQueue(execute, 'limited'), buffers: 11_000 },
  { name: 'a queue with tenants', send: () => (execute) => explainQueue(execute, 'tenants'), buffers: 700 },
  { name: 'the queue of a group', send: () => (execute) => explainQueue(execute, 'log:all'), buffers: 350 },
  {
    name: 'an event behind 20,000',
    send: () => (execute) => explainEvent(execute, 'log', 'all', 20_000),
    buffers: 250,
  },
]

describe.for(STATISTICS)('with statistics as %s', (statistics) => {
  for (const { name, send, buffers } of COSTS) {
    for (const mode of ['force_custom_plan', 'force_generic_plan'] satisfies PlanMode[]) {
      test(`${name} is explained with few pages: ${mode}`, async ({ crowd: { client, last } }) => {
        await setStatistics(client, statistics)
        const { buffers: read } = await explain(client, await recorded(send(last)), mode, '')
        expect(read, `expected at most ${buffers} buffers, received ${read}`).toBeLessThanOrEqual(buffers)
      })
    }
  }
})
