import pg from 'pg'
import { describe, expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimSlots, claimWholeQueue, WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { insertMessages } from '../../../src/table/enqueue/insert.ts'
import { forgetEvidence, holdKeys } from '../../../src/table/settle/around.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { pollQueues, raiseFlag } from '../../../src/table/worker/wait.ts'
import { times } from '../../support/plans/counted.ts'
import { type Explained, explain, recorded, type WalUsage } from '../../support/plans/explain.ts'
import { bottomOf, keysOf, put } from '../../support/rows/claim-session.ts'
import { acked, batchRecorded, buried, insertRow, postponed } from '../../support/rows/settled-rows.ts'
import { test as base } from '../../support/servers/undisturbed.ts'

type Send = (execute: Execute, facts: Facts) => Promise<unknown>

interface Facts {
  readonly slot: number
  readonly key: string
  /** 100 messages without a key, and 100 with it. */
  readonly ids: readonly string[]
  readonly keyedIds: readonly string[]
}

const QUEUE = 'wal'

/**
 * The most records, and bytes per message, as EXPLAIN (ANALYZE, WAL) counts them: of the statement alone, whatever
 * others write on the same server, without the commit. Measured on PostgreSQL 18, with a little to spare for bytes.
 */
const BOUNDS: readonly {
  readonly what: string
  readonly messages: number
  readonly records: number
  readonly bytesEach: number
  readonly send: Send
}[] = [
  // The lock of a row is a record: 54 bytes. So a claim of 100 that locks more than 100 rows fails here.
  { what: 'a claim of one', messages: 1, records: 1, bytesEach: 60, send: (on) => claim(on, QUEUE, bottomOf(5), 1) },
  {
    what: 'a claim of 100',
    messages: 100,
    records: 100,
    bytesEach: 60,
    send: (on) => claim(on, QUEUE, bottomOf(5), 100),
  },
  // And one for the slot.
  {
    what: 'a claim of 100 of a key',
    messages: 100,
    records: 101,
    bytesEach: 60,
    send: (on, { slot }) => claimSlots(on, QUEUE, [{ slot, id: '0' }], 100),
  },
  {
    what: 'a claim of 100 of a whole queue',
    messages: 100,
    records: 101,
    bytesEach: 60,
    send: (on) => claimWhole(on, QUEUE),
  },
  // Where the row was, and nothing of what was in it.
  {
    what: 'an ack of one',
    messages: 1,
    records: 1,
    bytesEach: 60,
    send: (on, { ids }) => acked(on, QUEUE, ids.slice(0, 1)),
  },
  {
    what: 'an ack of 100',
    messages: 100,
    records: 100,
    bytesEach: 60,
    send: (on, { ids }) => acked(on, QUEUE, ids),
  },
  // The lock that moving to another page takes, the row, and three index entries; now and then a page is split.
  {
    what: 'a postponement of one',
    messages: 1,
    records: 6,
    bytesEach: 900,
    send: (on, { ids }) => postponed(on, QUEUE, ids.slice(0, 1)),
  },
  {
    what: 'a postponement of 100',
    messages: 100,
    records: 530,
    bytesEach: 610,
    send: (on, { ids }) => postponed(on, QUEUE, ids),
  },
  {
    what: 'a postponement of 100 of a key',
    messages: 100,
    records: 500,
    bytesEach: 545,
    send: (on, { keyedIds }) => postponed(on, QUEUE, keyedIds),
  },
  // One row for the slot's keys, in its page.
  { what: 'a hold of a key', messages: 1, records: 1, bytesEach: 150, send: hold },
  // The row goes here, and comes there, with one index entry.
  {
    what: 'a burial of 100',
    messages: 100,
    records: 410,
    bytesEach: 500,
    send: (on, { ids }) => buried(on, QUEUE, ids),
  },
  // The row and two index entries. One more for 32 numbers of the sequence, and where a page is split.
  {
    what: 'an enqueue',
    messages: 1,
    records: 5,
    bytesEach: 900,
    send: (on) => insertMessages(on, QUEUE, [insertRow()]),
  },
  {
    what: 'an enqueue of 1,000',
    messages: 1_000,
    records: 3_060,
    bytesEach: 360,
    send: (on) => insertMessages(on, QUEUE, times(1_000, [insertRow()])),
  },
  {
    what: 'an enqueue of 1,000 of a key',
    messages: 1_000,
    records: 3_060,
    bytesEach: 360,
    send: (on, { key }) => insertMessages(on, QUEUE, times(1_000, [insertRow(key)])),
  },
]

const NOTHING: readonly { readonly what: string; readonly send: Send }[] = [
  { what: 'a claim that finds nothing', send: (on) => claim(on, 'empty', bottomOf(5), 100) },
  {
    what: 'a claim in slots that finds nothing',
    send: (on, { slot }) => claimSlots(on, 'empty', [{ slot, id: '0' }], 100),
  },
  { what: 'a claim of a whole queue that finds nothing', send: (on) => claimWhole(on, 'empty') },
  { what: 'a look over the queue', send: (on) => scanQueue(on, QUEUE) },
  { what: 'a poll', send: (on) => pollQueues(on, 1, [QUEUE], { dead: true }) },
  { what: 'a raised flag', send: (on) => raiseFlag(on, QUEUE) },
  // Its table is unlogged. (The commit has a record of 34 bytes, which waits for no disk.)
  { what: 'a record of a batch', send: (on, { ids }) => batchRecorded(on, QUEUE, ids) },
  {
    what: 'forgetting the evidence about messages that have none',
    send: (on, { ids }) => forgetEvidence(on, QUEUE, ids),
  },
]

/** With the commits, per message, by the counter of the server process. Claims and acks by 100 to a transaction. */
const BYTES_OF_A_LIFE = { enqueued: 380, claimedAndAcked: 115 }

const test = base.extend('loaded', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  const { same, slot } = await keysOf(database)
  await ensureSlots(executeOn(client), QUEUE, [slot, WHOLE_QUEUE_SLOT])
  const ids = await put(database, QUEUE, times(100, [{}]))
  const keyedIds = await put(database, QUEUE, times(100, [{ key: same[0] }]))
  return { client, facts: { slot, key: same[0], ids, keyedIds } }
})

describe('what is written to the log:', () => {
  for (const { what, messages, records, bytesEach, send } of BOUNDS) {
    test(`${what} takes at most ${records} records, and ${bytesEach} bytes per message`, async ({ loaded }) => {
      const { wal, plan } = await withoutPages(loaded.client, send, loaded.facts)
      const received = `${what}: received ${wal.records} records and ${wal.bytes / messages} bytes per message\n${plan}`
      expect(wal.records, received).toBeLessThanOrEqual(records)
      if (!(await isLogical(loaded.client))) expect(wal.bytes / messages, received).toBeLessThanOrEqual(bytesEach)
    })
  }

  test.for(NOTHING)('$what writes nothing', async ({ what, send }, { loaded }) => {
    const { wal, plan } = await withoutPages(loaded.client, send, loaded.facts)
    expect(wal, `${what}\n${plan}`).toEqual({ records: 0, pages: 0, bytes: 0 })
  })

  test(`a message takes at most ${BYTES_OF_A_LIFE.enqueued} bytes to come, and ${BYTES_OF_A_LIFE.claimedAndAcked} to go`, async ({
    loaded: { client },
    skip,
  }) => {
    const { rows } = await client.query(`SELECT FROM pg_proc WHERE proname = 'pg_stat_get_backend_wal'`)
    skip(rows.length === 0 || (await isLogical(client)), 'the server has no counter of one process, or writes more')
    const execute = executeOn(client)
    const enqueue = () => inTransaction(client, () => insertMessages(execute, 'life', times(1_000, [insertRow()])))
    const drain = async () => {
      for (let batch = 0; batch < 10; batch++) {
        await inTransaction(client, async () => {
          const { rows: claimed } = await claim(execute, 'life', bottomOf(5), 100)
          const ids = claimed.map(({ id }) => id)
          await acked(execute, 'life', ids)
        })
      }
    }
    for (let attempt = 1; ; attempt++) {
      const [enqueued, drained] = [await writtenBy(client, enqueue), await writtenBy(client, drain)]
      if (enqueued.pages + drained.pages > 0 && attempt < ATTEMPTS) continue
      expect(enqueued.bytes / 1_000).toBeLessThanOrEqual(BYTES_OF_A_LIFE.enqueued)
      expect(drained.bytes / 1_000).toBeLessThanOrEqual(BYTES_OF_A_LIFE.claimedAndAcked)
      return
    }
  })
})

/** A checkpoint a moment ago, which every DROP DATABASE makes, adds whole pages to what is written. Once. */
const ATTEMPTS = 10

/** Executes a statement until it has written no whole page. What it does is rolled back. */
async function withoutPages(client: pg.Client, send: Send, facts: Facts): Promise<Explained> {
  const statement = await recorded((execute) => send(execute, facts))
  // Who reads a page first may have to prune what others have left there.
  await explain(client, statement)
  for (let attempt = 1; ; attempt++) {
    const explained = await explain(client, statement)
    if (explained.wal.pages === 0 || attempt === ATTEMPTS) return explained
  }
}

/** What the client's server process writes meanwhile, commits included. */
async function writtenBy(client: pg.Client, work: () => Promise<unknown>): Promise<WalUsage> {
  const before = await written(client)
  await work()
  const after = await written(client)
  return {
    records: after.records - before.records,
    pages: after.pages - before.pages,
    bytes: after.bytes - before.bytes,
  }
}

async function written(client: pg.Client): Promise<WalUsage> {
  await client.query('SELECT pg_stat_force_next_flush()')
  const { rows } = await client.query<WalUsage>(`
    SELECT wal_records::float8 AS records, wal_fpi::float8 AS pages, wal_bytes::float8 AS bytes
    FROM pg_stat_get_backend_wal(pg_backend_pid())`)
  return rows[0]!
}

/** Logical replication adds the old row's key to what a DELETE writes. */
async function isLogical(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ wal_level: string }>('SHOW wal_level')
  return rows[0]!.wal_level === 'logical'
}

async function inTransaction(client: pg.Client, work: () => Promise<unknown>): Promise<void> {
  await client.query('BEGIN')
  await work()
  await client.query('COMMIT')
}

function claimWhole(execute: Execute, queue: string) {
  return claimWholeQueue(execute, queue, { slot: WHOLE_QUEUE_SLOT, id: '0' }, 100)
}

function hold(execute: Execute, { slot, key, keyedIds }: Facts) {
  return holdKeys(execute, QUEUE, [{ slot, orderingKey: key, messageId: keyedIds[0]!, untilUs: 1 }], 2)
}
