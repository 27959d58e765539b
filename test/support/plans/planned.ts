import type pg from 'pg'
import { expect, inject } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimApart } from '../../../src/table/claim/claim-apart.ts'
import {
  claimFreeSlots,
  claimSlots,
  claimWholeQueue,
  WHOLE_QUEUE_SLOT,
} from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { insertMessages } from '../../../src/table/enqueue/insert.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import type { LeasedId } from '../../../src/table/settle/fence.ts'
import { lockLeased, renewLeases } from '../../../src/table/settle/leases.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { readEvidence } from '../../../src/table/worker/evidence.ts'
import { pollQueues } from '../../../src/table/worker/wait.ts'
import { bottomOf } from '../rows/claim-session.ts'
import { acked, batchRecorded, buried, insertRow, postponed } from '../rows/settled-rows.ts'
import { ackLeased, deadLetterLeased, postponeLeased } from '../rows/write-settled.ts'
import type { Explained } from './explain.ts'

/**
 * A million messages, or so many times as many: a queue with ten priorities, one with a hot key, with many keys and without, and fifty small
 * ones; some are due later.
 */
const LOAD = (scale = 1): readonly string[] => [
  `INSERT INTO sluice.message (queue, priority, due_at, payload)
   SELECT 'busy', (n % 10)::smallint, clock_timestamp() + (n::bigint * 7919 % 86400 - 70000) * interval '1 second', '{"n": 1}'
   FROM generate_series(1, ${600_000 * scale}) n`,
  `INSERT INTO sluice.message (queue, ordering_key, due_at, payload)
   SELECT 'mixed', CASE n % 3 WHEN 1 THEN 'hot' WHEN 2 THEN 'key ' || n % 5000 END,
          clock_timestamp() + (CASE WHEN n % 20 = 0 THEN 86400 ELSE -60 END) * interval '1 second', '{"n": 1}'
   FROM generate_series(1, ${300_000 * scale}) n`,
  `INSERT INTO sluice.message (queue, due_at, payload)
   SELECT 'small.' || n % 50, clock_timestamp() - (n % 100) * interval '1 minute', '{"n": 1}'
   FROM generate_series(1, ${100_000 * scale}) n`,
]

const SLOTS = Array.from({ length: 256 }, (_, slot) => ({ slot, id: '0' }))

/** Puts the messages there, and the rows of their slots. */
export async function load(client: pg.ClientBase, scale = 1): Promise<Facts> {
  await client.query('ALTER TABLE sluice.message SET (autovacuum_enabled = off)')
  for (const statement of LOAD(scale)) await client.query(statement)
  await ensureSlots(executeOn(client), 'mixed', [...SLOTS.map(({ slot }) => slot), WHOLE_QUEUE_SLOT])
  const { rows: some } = await client.query<{ id: string }>(
    `SELECT id::text AS id FROM sluice.message WHERE queue = 'busy' ORDER BY id OFFSET ${300_000 * scale} LIMIT 100`,
  )
  const { rows: hot } = await client.query<{ slot: number }>(
    `SELECT slot FROM sluice.message WHERE queue = 'mixed' AND ordering_key = 'hot' LIMIT 1`,
  )
  return { ids: some.map(({ id }) => id), hotSlot: hot[0]!.slot }
}

export interface Facts {
  readonly ids: readonly string[]
  readonly hotSlot: number
}

export interface Planned {
  readonly name: string
  readonly send: (execute: Execute, facts: Facts) => Promise<unknown>
  /** Each way that may lead to the rows. */
  readonly ways: readonly RegExp[]
  /** Far below what reading a whole queue costs: 600,000 rows are at least 6,000 buffers. */
  readonly buffers: number
  /** It is sent by other connections too, or behind a handler's statements: without what a batch's planner must keep to. */
  readonly free?: boolean
}

const worker = /^Index Scan worker_pkey$/
// It is counted through: there are as many rows as processes.
const workers = /^(Seq|Index|Index Only) Scan worker(_pkey)?$/
// All are read: there are as many as batches in flight.
const records = /^(Seq|Index|Index Only) Scan batch_record(_pkey)?$/
const due = /^Index (Only )?Scan message_due_idx$/
const slots = /^Index (Only )?Scan message_slot_idx$/
const schedules = /^Index (Only )?Scan schedule_next_idx$/
// Read as wholes: they have a row only for a message that was cancelled in flight, and for a queue that has been told something.
const requested = /^Seq Scan cancel_request$/
const told = /^(Seq Scan queue|Index (Only )?Scan queue_pkey)$/
const lock = /^Index Scan slot_pkey$/
const leases = /^Index (Only )?Scan message_lease_idx$/
// Nearly always empty.
const redriven = /^Index (Only )?Scan message_redriven_idx$/
const byId = /^Index Scan message_pkey$/
const evidence = /^Index (Only )?Scan crash_pkey$/
// A bitmap of the primary key's entries for the ids given: as good, and nothing depends on the order.
const byIds = [/^Bitmap Index Scan message_pkey$/, /^Bitmap Heap Scan$/]

// A row that a claim has found and locks.
const found = /^Tid Scan message$/
// The ctids come one by one from the primary key.
const byCtid = [/^Index (Only )?Scan message_pkey$/, found]

export const STATEMENTS: readonly Planned[] = [
  {
    name: 'a claim of 100',
    send: (execute) => claim(execute, 'busy', bottomOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), 100),
    ways: [due, evidence],
    buffers: 400,
  },
  {
    name: 'a claim of 100 that finds the first nine priorities empty',
    send: (execute) => claim(execute, 'small.7', bottomOf(0, 1, 2, 3, 4, 6, 7, 8, 9, 5), 100),
    ways: [due, evidence],
    buffers: 400,
  },
  {
    name: 'a claim of 100 that begins behind 500 others',
    send: (execute) => claimApart(execute, 'busy', bottomOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), 100, 500),
    ways: [due, evidence],
    buffers: 1_000,
  },
  {
    name: 'a claim of 100 in slots',
    send: (execute) => claimSlots(execute, 'mixed', SLOTS, 100),
    ways: [slots, redriven, found, lock, evidence],
    buffers: 500,
  },
  {
    name: 'a claim of 100, four of each slot',
    send: (execute) => claimSlots(execute, 'mixed', SLOTS, 100, [], undefined, {}, 4),
    ways: [slots, redriven, found, lock, evidence],
    buffers: 1_200,
  },
  {
    name: 'a claim of 100, four of each free slot',
    send: (execute) => claimFreeSlots(execute, 'mixed', SLOTS, 100, undefined, 4),
    ways: [slots, redriven, found, lock, evidence],
    buffers: 1_200,
  },
  {
    name: 'a claim of 100 of a hot key',
    send: (execute, { hotSlot }) => claimSlots(execute, 'mixed', [{ slot: hotSlot, id: '0' }], 100),
    ways: [slots, redriven, found, lock, evidence],
    buffers: 500,
  },
  {
    name: 'a claim of 100 of the whole queue',
    send: (execute) => claimWholeQueue(execute, 'mixed', { slot: WHOLE_QUEUE_SLOT, id: '0' }, 100),
    ways: [/^Index Scan message_pkey$/, redriven, lock, evidence],
    buffers: 600,
  },
  {
    name: 'a look over ten priorities',
    send: (execute) => scanQueue(execute, 'busy'),
    ways: [due, slots, leases, workers],
    buffers: 400,
  },
  {
    name: 'a look over 256 slots',
    send: (execute) => scanQueue(execute, 'mixed'),
    ways: [due, slots, lock, leases, workers],
    buffers: 256 * 16,
  },
  {
    name: 'a poll of four queues',
    send: (execute) => pollQueues(execute, 1, ['busy', 'mixed', 'small.7', 'none'], { consumed: ['busy'], dead: true }),
    ways: [due, slots, worker, workers, records, schedules, told, requested],
    buffers: 300,
    free: true,
  },
  {
    name: 'a reading of evidence',
    send: (execute, { ids }) => readEvidence(execute, 'busy', ids),
    // It sorts the evidence of one message.
    ways: [evidence, /^Bitmap Index Scan crash_pkey$/, /^Bitmap Heap Scan$/, /^(Incremental )?Sort$/],
    // A descent for each id.
    buffers: 300,
  },
]

const VERSION = inject('serverVersion')
const LEASE = { lease: '4294967297', ms: 60_000, serverVersion: VERSION }
const laterUnderLease = (leased: LeasedId) => ({ ...leased, dueUs: 1, attempt: 1, error: 'broken' })
const deadUnderLease = (leased: LeasedId) => ({ ...leased, attempt: 1, reason: 'too many', error: 'broken' })
const leasedIds = (ids: readonly string[]) => ids.map((id) => ({ id, lease: LEASE.lease }))
// The rows to settle, and to lease, by their ids.
const settling = VERSION < 170_000 ? byCtid : [byId, ...byIds]
const leasing = [...settling, /^Index (Only )?Scan worker_pkey$/]

/** Of leased mode. They leave dead rows behind too. */
export const LEASED_WRITES: readonly Planned[] = [
  {
    name: 'a leased claim of 100',
    send: (execute) => claim(execute, 'busy', bottomOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), 100, LEASE),
    ways: [due, evidence, ...leasing],
    buffers: 3_000,
  },
  {
    name: 'a leased claim of 100 that begins behind 500 others',
    send: (execute) => claimApart(execute, 'busy', bottomOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), 100, 500, LEASE),
    ways: [due, evidence, ...leasing],
    buffers: 4_000,
  },
  {
    name: 'a leased claim of 100 in slots',
    send: (execute) => claimSlots(execute, 'mixed', SLOTS, 100, [], LEASE),
    ways: [slots, redriven, lock, evidence, ...leasing],
    // One message of each slot: 36 to 41 for each, of which eleven say which keys of the slot are closed.
    buffers: 4_400,
  },
  {
    name: 'a leased claim of 100 in free slots',
    send: (execute) => claimFreeSlots(execute, 'mixed', SLOTS, 100, LEASE),
    ways: [slots, redriven, lock, evidence, ...leasing],
    // One message of each slot: 36 to 41 for each, of which eleven say which keys of the slot are closed.
    buffers: 4_400,
  },
  {
    name: 'an ack of 100 leased messages',
    send: (execute, { ids }) => ackLeased(execute, 'busy', leasedIds(ids), VERSION),
    ways: leasing,
    buffers: 1_000,
  },
  {
    name: 'a postponement of 100 leased messages',
    send: (execute, { ids }) => postponeLeased(execute, 'busy', leasedIds(ids).map(laterUnderLease), 0, VERSION),
    ways: settling,
    buffers: 2_000,
  },
  {
    name: 'a burial of 100 leased messages',
    send: (execute, { ids }) => deadLetterLeased(execute, 'busy', leasedIds(ids).map(deadUnderLease), VERSION),
    ways: settling,
    buffers: 2_000,
  },
  {
    name: 'a renewal of 100 leases',
    send: (execute, { ids }) => renewLeases(execute, 'busy', leasedIds(ids), 60_000, VERSION),
    ways: leasing,
    buffers: 1_000,
  },
  {
    name: 'a lock of 100 leased messages',
    send: (execute, { ids }) => lockLeased(execute, 'busy', leasedIds(ids), VERSION),
    ways: leasing,
    buffers: 1_000,
  },
]

/** These leave dead rows behind, although they are rolled back: they come last. */
export const WRITES: readonly Planned[] = [
  {
    name: 'an ack of 100',
    send: (execute, { ids }) => acked(execute, 'busy', ids),
    ways: settling,
    buffers: 1_000,
    free: true,
  },
  {
    name: 'an ack of 100, as before version 17,',
    send: (execute, { ids }) => acked(execute, 'busy', ids, 160_000),
    ways: byCtid,
    buffers: 1_000,
    free: true,
  },
  {
    name: 'a postponement of 100',
    send: (execute, { ids }) => postponed(execute, 'busy', ids),
    ways: settling,
    buffers: 4_000,
    free: true,
  },
  {
    name: 'a burial of 100',
    send: (execute, { ids }) => buried(execute, 'busy', ids),
    ways: settling,
    buffers: 2_000,
    free: true,
  },
  {
    name: 'a record of a batch',
    send: (execute, { ids }) => batchRecorded(execute, 'busy', ids),
    ways: [/^(Bitmap )?Index Scan batch_record_pkey$/, /^Bitmap Heap Scan$/],
    buffers: 40,
    free: true,
  },
  {
    name: 'a hold of a key',
    send: (execute, { hotSlot, ids }) =>
      holdKeys(execute, 'mixed', [{ slot: hotSlot, orderingKey: 'hot', messageId: ids[0]!, untilUs: 1 }], 2),
    // A sort can only be of what it is given.
    ways: [lock, /^Bitmap Index Scan slot_pkey$/, /^Bitmap Heap Scan$/, /^Sort$/],
    buffers: 20,
  },
  {
    name: 'an enqueue of 1,000',
    send: (execute) =>
      insertMessages(
        execute,
        'busy',
        Array.from({ length: 1_000 }, () => insertRow()),
      ),
    // It reads nothing but what it is given.
    ways: [],
    buffers: 15_000,
    free: true,
  },
]

export function expectPlanned(
  { ways, buffers }: Pick<Planned, 'ways' | 'buffers'>,
  explained: Explained,
  how: string,
): void {
  const what = `${how}\n${explained.plan}`
  expect(
    explained.ways.filter((way) => !ways.some((wanted) => wanted.test(way))),
    what,
  ).toEqual([])
  if (ways.length > 0) expect(explained.ways, what).not.toEqual([])
  expect(explained.buffers, what).toBeLessThanOrEqual(buffers)
}
