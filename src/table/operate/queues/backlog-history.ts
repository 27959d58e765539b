import { date, nullable, number, shape, text } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'

/** What a queue had to do some time ago, as a pass of maintenance has found it: in `sluice.backlog_sample`. */
export interface BacklogSample {
  /** The queue, or `stream:group`. */
  readonly queue: string
  /** When. */
  readonly at: Date
  /** Messages that were due, counted up to 10,000. */
  readonly due: number
  /** How long the oldest of them had been due; null: none was. */
  readonly oldestDueAgeMs: number | null
  /** Events that the group had not read; 0 for a queue. */
  readonly unread: number
  /** How long ago the oldest of them had been appended; null: there was none. */
  readonly oldestUnreadAgeMs: number | null
}

/** By queue and time. With a queue, each sample has a row of it. */
export async function readBacklogHistory(
  execute: Execute,
  queue: string | null,
  sinceMs: number,
): Promise<readonly BacklogSample[]> {
  return (await execute(HISTORY, [queue, sinceMs])).map(SAMPLE.read)
}

const SAMPLE = shape<BacklogSample>({
  queue: text(),
  at: date(),
  due: number(),
  oldestDueAgeMs: nullable.duration(),
  unread: number(),
  oldestUnreadAgeMs: nullable.duration(),
})

const HISTORY = statement(
  'operate_backlog_history',
  `
SELECT ${SAMPLE.columns('h')}
FROM (
  SELECT n.queue, s.at, coalesce((s.queues -> n.queue ->> 0)::bigint, 0::bigint) AS due,
         (s.queues -> n.queue ->> 1)::float8 * interval '1 millisecond' AS oldest_due_age,
         coalesce((s.groups -> n.queue ->> 0)::bigint, 0::bigint) AS unread,
         (s.groups -> n.queue ->> 1)::float8 * interval '1 millisecond' AS oldest_unread_age
  FROM sluice.backlog_sample s CROSS JOIN LATERAL (
    SELECT $1::text AS queue WHERE $1::text IS NOT NULL
    UNION ALL
    SELECT pg_catalog.jsonb_object_keys(s.queues || s.groups) WHERE $1::text IS NULL
  ) n
  WHERE s.at > clock_timestamp() - $2::float8 * interval '1 millisecond'
) h
ORDER BY h.queue, h.at`,
)
