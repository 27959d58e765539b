import { type Execute, numberOf, type Row, statement, textOf, textOrNull } from './statement.ts'

/** Which dead letters: those that match everything given. */
export interface DeadLetterFilter {
  readonly queue: string | null
  readonly ids: readonly string[] | null
  readonly type: string | null
  /** Instants in microseconds since 1970, by the database's clock. */
  readonly diedBeforeUs: number | null
  readonly diedAfterUs: number | null
}

/** One dead letter. Payload and headers are JSON texts, as the server wrote them. */
export interface DeadLetter {
  readonly queue: string
  readonly id: string
  readonly reason: string
  readonly error: string | null
  readonly attempt: number
  readonly maxAttempts: number | null
  readonly diedAt: string
  readonly ageMs: number
  readonly enqueuedAt: string
  readonly type: string | null
  readonly schemaVersion: number
  readonly orderingKey: string | null
  readonly priority: number
  readonly headers: string
  readonly payload: string
}

/** How many dead letters match, and the largest groups of them. */
export interface DeadLetterSummary {
  readonly total: number
  readonly groups: readonly DeadLetterGroup[]
  /** How many groups there are besides those listed. */
  readonly moreGroups: number
}

/** Dead letters alike in queue, type and reason. */
export interface DeadLetterGroup {
  readonly queue: string
  readonly type: string | null
  readonly reason: string
  readonly messages: number
}

/** The condition on `sluice.dead_letter d`, one for looking and for changing, so that both mean the same rows. */
export const MATCHES = `
      ($1::text IS NULL OR d.queue = $1::text)
  AND ($2::bigint[] IS NULL OR d.id = ANY ($2::bigint[]))
  AND ($3::text IS NULL OR d.type = $3::text)
  AND ($4::bigint IS NULL OR d.died_at < timestamptz 'epoch' + $4::bigint::double precision * interval '1 microsecond')
  AND ($5::bigint IS NULL OR d.died_at >= timestamptz 'epoch' + $5::bigint::double precision * interval '1 microsecond')`

/** The parameters of {@link MATCHES}: $1 to $5. */
export function matchParams(filter: DeadLetterFilter): readonly unknown[] {
  return [filter.queue, filter.ids, filter.type, filter.diedBeforeUs, filter.diedAfterUs]
}

/** Dead letters, the latest first; with `reason` only those whose reason holds that text, in any case. */
export async function listDeadLetters(
  execute: Execute,
  filter: DeadLetterFilter,
  options: { readonly reason?: string | undefined; readonly limit: number },
): Promise<readonly DeadLetter[]> {
  const rows = await execute(LIST, [...matchParams(filter), options.reason ?? null, options.limit])
  return rows.map(toDeadLetter)
}

/** What {@link DeadLetterFilter} matches, by queue, type and reason, the largest groups first. */
export async function summariseDeadLetters(execute: Execute, filter: DeadLetterFilter): Promise<DeadLetterSummary> {
  const rows = await execute(SUMMARISE, [...matchParams(filter)])
  const groups = rows.map((row) => ({
    queue: textOf(row, 'queue'),
    type: textOrNull(row, 'type'),
    reason: textOf(row, 'reason'),
    messages: numberOf(row, 'messages'),
  }))
  const [first] = rows
  return {
    total: first === undefined ? 0 : numberOf(first, 'total'),
    groups,
    moreGroups: first === undefined ? 0 : numberOf(first, 'groups') - groups.length,
  }
}

function toDeadLetter(row: Row): DeadLetter {
  return {
    queue: textOf(row, 'queue'),
    id: textOf(row, 'id'),
    reason: textOf(row, 'reason'),
    error: textOrNull(row, 'error'),
    attempt: numberOf(row, 'attempt'),
    maxAttempts: row.max_attempts === null ? null : numberOf(row, 'max_attempts'),
    diedAt: textOf(row, 'died_at'),
    ageMs: Math.round(numberOf(row, 'age_ms')),
    enqueuedAt: textOf(row, 'enqueued_at'),
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    orderingKey: textOrNull(row, 'ordering_key'),
    priority: numberOf(row, 'priority'),
    headers: textOf(row, 'headers'),
    payload: textOf(row, 'payload'),
  }
}

// From queue to queue, and from each its latest, by the index on (queue, died_at, id): no index has those of all queues in
// the order in which they died.
const LIST = statement(
  'dead_list',
  `
WITH RECURSIVE dead_queue (queue) AS (
  SELECT coalesce($1::text, (SELECT d.queue FROM sluice.dead_letters d ORDER BY d.queue, d.died_at, d.id LIMIT 1))
  UNION ALL
  SELECT (SELECT d.queue FROM sluice.dead_letters d WHERE d.queue > q.queue ORDER BY d.queue, d.died_at, d.id LIMIT 1)
  FROM dead_queue q WHERE $1::text IS NULL AND q.queue IS NOT NULL
)
SELECT d.queue, d.id::text AS id, d.reason, d.error, d.attempt, d.max_attempts, d.type, d.schema_version, d.ordering_key,
       d.priority, d.headers::text AS headers, d.payload::text AS payload,
       to_char(d.died_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS died_at,
       (extract(epoch FROM d.age) * 1000.0) AS age_ms,
       coalesce(to_char(d.enqueued_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), d.enqueued_at::text) AS enqueued_at
FROM dead_queue q CROSS JOIN LATERAL (
  SELECT d.* FROM sluice.dead_letters d
  WHERE d.queue = q.queue AND ${MATCHES}
    AND ($6::text IS NULL OR strpos(lower(d.reason), lower($6::text)) > 0)
  ORDER BY d.died_at DESC, d.id DESC LIMIT (SELECT $7::integer)
) d
ORDER BY d.died_at DESC, d.id DESC
LIMIT $7::integer`,
)

const SUMMARISE = statement(
  'dead_summarise',
  `
SELECT d.queue, d.type, d.reason, count(*) AS messages,
       (sum(count(*)) OVER ())::bigint AS total, count(*) OVER () AS groups
FROM sluice.dead_letters d
WHERE ${MATCHES}
GROUP BY d.queue, d.type, d.reason
ORDER BY messages DESC, d.queue, d.type, d.reason
LIMIT 20`,
)
