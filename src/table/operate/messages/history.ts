import { microseconds } from '../../dates.ts'
import { constant, date, duration, nullable, number, shape } from '../../shape.ts'
import { type Execute, statement, textOf, textOrNull } from '../../statement.ts'
import { earlier, type TimeCursor } from '../time-cursor.ts'
import { STORED_MESSAGE, type StoredMessage } from './stored-message.ts'

/** A message that has succeeded, in a queue that keeps its history: a row of `sluice.completed`. */
export interface CompletedMessage extends StoredMessage {
  /** What became of it. */
  readonly state: 'completed'
  /** When it was removed from its queue. */
  readonly completedAt: Date
  /** How long ago that was. */
  readonly ageMs: number
  /** When the attempt that succeeded was claimed. */
  readonly claimedAt: Date
  /** From its claim to its end. */
  readonly tookMs: number
  /** The name of the worker that handled it; null: it was in a claim, or popped. */
  readonly worker: string | null
  /** The claim that settled it; null: a worker did, or it was popped. */
  readonly claim: string | null
  /** Which attempt succeeded, from 1. */
  readonly attempt: number
  /** When its last failed attempt failed; null if none did. */
  readonly failedAt: Date | null
  /** How that attempt failed; null if none did. */
  readonly lastError: string | null
}

/** Messages that have succeeded, the latest first. */
export interface HistoryPage {
  /** At most as many as the limit. */
  readonly messages: readonly CompletedMessage[]
  /** Give it as `after` for the next page, with the same options; null: there is no more. */
  readonly next: string | null
}

/** Which messages: those that match everything given. */
export interface HistoryMatch {
  readonly queue: string
  readonly type: string | null
  readonly orderingKey: string | null
  readonly tenant: string | null
  readonly worker: string | null
  /** Instants in microseconds since 1970, by the database's clock. */
  readonly completedBefore: number | null
  readonly completedAfter: number | null
  readonly minAttempts: number
}

/**
 * One page of a queue's history, the latest first, by the index on (queue, completed_at, id) of each day that is not ruled out
 * by its times. With a filter it looks at no more than 10,000 messages.
 */
export async function readHistory(
  execute: Execute,
  match: HistoryMatch,
  { after, limit }: { readonly after: TimeCursor | null; readonly limit: number },
): Promise<HistoryPage> {
  const { queue, type, orderingKey, tenant, worker, completedAfter, minAttempts } = match
  const filtered = type !== null || orderingKey !== null || tenant !== null || worker !== null || minAttempts > 1
  const { us, id } = earlier(after, match.completedBefore ?? LAST_US)
  const filter = [type, orderingKey, worker, minAttempts, filtered]
  const rows = await execute(PAGE, [queue, completedAfter, us, id, ...filter, limit, tenant])
  const found = rows.filter((row) => row.id !== null)
  const [first] = rows
  if (first === undefined) throw new TypeError('expected at least the row that says how far was looked')
  const last = found.length > limit ? found[limit - 1] : undefined
  const next = last === undefined ? textOrNull(first, 'reach') : `${textOf(last, 'completed_at')}.${textOf(last, 'id')}`
  return { messages: found.slice(0, limit).map(COMPLETED.read), next }
}

/** The latest success of a message; undefined: it is not in the history. */
export async function readCompleted(
  execute: Execute,
  queue: string,
  id: string,
): Promise<CompletedMessage | undefined> {
  const [row] = await execute(ONE, [queue, id])
  return row && COMPLETED.read(row)
}

/** How many messages a page with filters looks at. It bounds the cost of a filter that matches nothing. */
const HISTORY_REACH = 10_000

/** Later than any instant that a Date can hold. */
const LAST_US = 8_640_000_000_000_000_000

const COMPLETED = shape<CompletedMessage>({
  ...STORED_MESSAGE,
  state: constant('completed'),
  completedAt: date(),
  ageMs: duration((of) => `clock_timestamp() - ${of}.completed_at`),
  claimedAt: date(),
  tookMs: duration((of) => `greatest(${of}.took, interval '0')`),
  worker: nullable.text(),
  claim: nullable.bigint(),
  attempt: number(),
  failedAt: nullable.date(),
  lastError: nullable.text(),
})

const instant = (us: string) => `timestamptz 'epoch' + ${us}::bigint::double precision * interval '1 microsecond'`

/** The rows of a page. The bounds of its times rule days out, and the index of each other day begins at the cursor. */
const WITHIN = `
      c.queue = $1::text
  AND ($2::bigint IS NULL OR c.completed_at >= ${instant('$2')})
  AND c.completed_at <= ${instant('$3')}
  AND (c.completed_at, c.id) < (${instant('$3')}, $4::bigint)`

// Planned for its values, so that days are ruled out and what is NULL is gone. The days come together by a merge of their
// indexes, which reads one row of each and then those of the page. With a filter it first looks for the ten-thousandth
// row, which reads an index entry for each.
const PAGE = statement(
  'history_page',
  `
WITH reach AS MATERIALIZED (
  SELECT l.completed_at, l.id
  FROM (SELECT) one LEFT JOIN LATERAL (
    SELECT c.completed_at, c.id FROM sluice.completed c
    WHERE $9::boolean AND ${WITHIN}
    ORDER BY c.completed_at DESC, c.id DESC OFFSET ${HISTORY_REACH - 1} LIMIT 1
  ) l ON true
)
SELECT CASE WHEN r.id IS NOT NULL THEN pg_catalog.concat(${microseconds('r.completed_at')}, '.', r.id) END AS reach, c.*
FROM reach r LEFT JOIN LATERAL (
  SELECT ${COMPLETED.columns('c')}
  FROM sluice.completed c
  WHERE ${WITHIN}
    AND ($5::text IS NULL OR c.type = $5::text)
    AND ($6::text IS NULL OR c.ordering_key = $6::text)
    AND ($7::text IS NULL OR c.worker = $7::text)
    AND ($11::text IS NULL OR c.tenant = $11::text)
    AND c.attempt >= $8::integer
    AND (r.id IS NULL OR (c.completed_at, c.id) >= (r.completed_at, r.id))
  ORDER BY c.completed_at DESC, c.id DESC LIMIT $10::integer + 1
) c ON true`,
)

// By the primary key (queue, id, completed_at) of each day.
const ONE = statement(
  'history_one',
  `
SELECT ${COMPLETED.columns('c')}
FROM sluice.completed c
WHERE c.queue = $1::text AND c.id = $2::bigint
ORDER BY c.completed_at DESC
LIMIT 1`,
)
