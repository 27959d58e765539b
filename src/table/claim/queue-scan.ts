import { bounded } from '../instant.ts'
import { type Execute, numberOf, statement } from '../statement.ts'
import { isDue } from './is-due.ts'

/** What a queue holds, read without floors: its priorities, its slots, and when the next message is due. */
export interface QueueScan {
  readonly priorities: readonly number[]
  readonly slots: readonly number[]
  /** Whether there are any messages without a key. */
  readonly unkeyed: boolean
  /** Whether there is a due message. It may be in flight. */
  readonly ready: boolean
  /** Milliseconds until the next message is due; null: none is waiting. */
  readonly nextDueMs: number | null
  /** How many workers consume the queue, by the registry; zero if there is nothing at all. */
  readonly workers: number
  /** How long the scan took, in milliseconds; zero if there is nothing at all. */
  readonly tookMs: number
}

/**
 * Scans the whole queue: which priorities and slots it has, and when the next message is due. Locks nothing.
 *
 * One index leads with (queue, priority), the other with (queue, slot), so a recursive descent from each to the next
 * visits one entry of each, and no messages. The next due time of a priority is one more descent. A slot with due
 * messages changes next when one of its keys is free again, which the slot's row tells. A slot without due messages is
 * read whole, because no index orders it by due time: very many scheduled messages with ordering keys make this
 * statement slow, and the sweep, which runs it, rare. It has no floor, so it walks dead entries at the head of each
 * priority and slot; that is why sweeps have an interval.
 */
export async function scanQueue(execute: Execute, queue: string): Promise<QueueScan> {
  const rows = await execute(QUEUE_SCAN, [queue])
  const priorities: number[] = []
  const slots: number[] = []
  let nextDueMs: number | null = null
  let ready = false
  let tookMs = 0
  let workers = 0
  for (const row of rows) {
    if (row.priority !== null) priorities.push(numberOf(row, 'priority'))
    if (row.slot !== null) slots.push(numberOf(row, 'slot'))
    if (row.ready === true) ready = true
    workers = numberOf(row, 'workers')
    tookMs = Math.max(tookMs, numberOf(row, 'took_ms'))
    if (row.next_due_us !== null) nextDueMs = Math.min(nextDueMs ?? Infinity, numberOf(row, 'next_due_us') / 1_000)
  }
  return { priorities, slots, unkeyed: priorities.length > 0, ready, nextDueMs, workers, tookMs }
}

/**
 * Inserts the rows of `sluice.slot` that ordered claims lock. Idempotent. Runs outside of batches, so it waits for
 * none.
 */
export async function ensureSlots(execute: Execute, queue: string, slots: readonly number[]): Promise<void> {
  await execute(ENSURE_SLOTS, [queue, slots])
}

// Only one index can serve each ORDER BY, whatever the statistics say. With EXISTS, with slot = … (and so an order by
// id, which the primary key has too), or with slot > … instead of the row comparison, this took ten seconds after an
// ANALYZE on a nearly empty queue.
const QUEUE_SCAN = statement(
  'queue_scan',
  `
WITH RECURSIVE clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now,
         (SELECT count(*) FROM sluice.worker w WHERE $1::text = ANY (w.queues))::integer AS workers,
         (SELECT m.id FROM sluice.message m WHERE m.queue = $1::text AND m.slot IS NOT NULL AND m.lease IS NOT NULL
          ORDER BY m.slot, m.id, m.lease LIMIT 1) IS NOT NULL AS leases
), priority (priority, first_due_at) AS (
  (SELECT m.priority, m.due_at FROM sluice.message m
   WHERE m.queue = $1::text AND m.slot IS NULL ORDER BY m.priority, m.due_at, m.id LIMIT 1)
  UNION ALL
  SELECT next.priority, next.due_at FROM priority CROSS JOIN LATERAL (
    SELECT m.priority, m.due_at FROM sluice.message m
    WHERE m.queue = $1::text AND m.slot IS NULL AND (m.priority, m.due_at) > (priority.priority, timestamptz 'infinity')
    ORDER BY m.priority, m.due_at, m.id LIMIT 1
  ) next
), slot (slot) AS (
  (SELECT m.slot FROM sluice.message m WHERE m.queue = $1::text AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 1)
  UNION ALL
  SELECT next.slot FROM slot CROSS JOIN LATERAL (
    SELECT m.slot FROM sluice.message m
    WHERE m.queue = $1::text AND m.slot IS NOT NULL AND (m.slot, m.id) > (slot.slot, 9223372036854775807)
    ORDER BY m.slot, m.id LIMIT 1
  ) next
)
SELECT found.priority, found.slot, found.ready, clock.workers,
       CASE WHEN found.next_due_at IS NOT NULL THEN
         (date_part('epoch', ${bounded('found.next_due_at')} - clock.now) * 1000000::double precision)::bigint END AS next_due_us,
       date_part('epoch', clock_timestamp() - clock.now) * 1000::double precision AS took_ms
FROM clock CROSS JOIN LATERAL (
  SELECT p.priority, NULL::smallint AS slot, p.first_due_at <= clock.now AS ready,
         (SELECT m.due_at FROM sluice.message m
          WHERE m.queue = $1::text AND m.slot IS NULL AND m.priority = p.priority AND m.due_at > clock.now
          ORDER BY m.priority, m.due_at, m.id LIMIT 1) AS next_due_at
  FROM priority p
  UNION ALL
  SELECT NULL, s.slot, due.id IS NOT NULL,
         CASE WHEN due.id IS NOT NULL
           -- Its key may be held until then, or closed by a message that is leased until then, or to be tried then.
           THEN least((SELECT timestamptz 'epoch' + min((key.value ->> 1)::bigint)::double precision * interval '1 microsecond'
                 FROM sluice.slot held CROSS JOIN LATERAL jsonb_each(held.held) key
                 WHERE held.queue = $1::text AND held.slot = s.slot
                   AND timestamptz 'epoch' + (key.value ->> 1)::bigint::double precision * interval '1 microsecond' > clock.now),
                (SELECT min(closing.due_at)
                 FROM (SELECT m.due_at FROM sluice.message m
                       WHERE clock.leases AND m.queue = $1::text AND m.slot IS NOT NULL AND m.lease IS NOT NULL AND m.slot >= s.slot AND m.slot <= s.slot
                       ORDER BY m.slot, m.id, m.lease OFFSET 0) closing
                 WHERE closing.due_at > clock.now))
           ELSE (SELECT min(waiting.due_at)
                 FROM (SELECT m.due_at FROM sluice.message m
                       WHERE m.queue = $1::text AND m.slot >= s.slot AND m.slot <= s.slot
                       ORDER BY m.slot, m.id OFFSET 0) waiting)
         END AS next_due_at
  FROM slot s LEFT JOIN LATERAL (
    SELECT m.id FROM sluice.message m
    WHERE m.queue = $1::text AND m.slot >= s.slot AND m.slot <= s.slot AND ${isDue('m')}
    ORDER BY m.slot, m.id LIMIT 1
  ) due ON true
) found`,
)

const ENSURE_SLOTS = statement(
  'ensure_slots',
  `
INSERT INTO sluice.slot (queue, slot)
SELECT $1::text, pg_catalog.unnest($2::smallint[])
ON CONFLICT (queue, slot) DO NOTHING`,
)
