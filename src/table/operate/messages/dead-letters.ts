import { date, duration, nullable, number, type Shape, shape, text } from '../../shape.ts'
import { type Execute, numberOf, type Statement, statement, textOf, textOrNull } from '../../statement.ts'
import { earlier, type TimeCursor } from '../time-cursor.ts'
import { FAILURES, type Failure } from './failures.ts'
import { type Content, ENVELOPE, STORED_MESSAGE, type StoredMessage } from './stored-message.ts'

/** Which dead letters: those that match everything given. */
export interface DeadLetterMatch {
  readonly queue: string | null
  readonly ids: readonly string[] | null
  readonly type: string | null
  readonly tenant: string | null
  /** Instants in microseconds since 1970, by the database's clock. */
  readonly diedBefore: number | null
  readonly diedAfter: number | null
  /** Strings that the reason, or the error, contains, in any case. */
  readonly reason: string | null
  readonly error: string | null
}

/** One message that is not tried again: a row of `sluice.dead_letters`. */
export interface DeadLetter extends StoredMessage {
  /** Why it died. */
  readonly reason: string
  /** The error of its last try; null if it had none. */
  readonly error: string | null
  /** Its last failures, the latest last, at most five. Only the latest has a stack. */
  readonly failures: readonly Failure[]
  /** How many attempts it had. */
  readonly attempt: number
  /** When it died. */
  readonly diedAt: Date
  /** How long ago that was. */
  readonly ageMs: number
  /** In the queue of a group: the position in the stream of the event that it is. */
  readonly position: number | null
}

/** A dead letter without its payload and headers. */
export type ListedDeadLetter = Omit<DeadLetter, Content>

/** Dead letters, the latest first. */
export interface DeadLetterPage<Listed extends ListedDeadLetter = DeadLetter> {
  /** At most as many as the limit. */
  readonly deadLetters: readonly Listed[]
  /** Give it as `after` for the next page, with the same options; null: there is no more. */
  readonly next: string | null
}

/** How many dead letters match, and the largest groups of them. */
export interface DeadLetterSummary {
  /** All that match. */
  readonly total: number
  /** The largest first, at most 20. */
  readonly groups: readonly DeadLetterGroup[]
  /** How many groups there are besides those listed. */
  readonly moreGroups: number
}

/** Dead letters with the same queue, type and reason, and errors that differ in digits alone. */
export interface DeadLetterGroup {
  /** The name of their queue. */
  readonly queue: string
  /** Null: they have none. */
  readonly type: string | null
  /** Why they died. */
  readonly reason: string
  /** The beginning of their error, at most 200 characters, with # for each number; null: they have none. */
  readonly error: string | null
  /** How many there are. */
  readonly messages: number
}

/** The condition on `sluice.dead_letter d`. Reads and changes share it, so that both mean the same rows. */
export const MATCHES = `
      ($1::text IS NULL OR d.queue = $1::text)
  AND ($2::bigint[] IS NULL OR d.id = ANY ($2::bigint[]))
  AND ($3::text IS NULL OR d.type = $3::text)
  AND ($4::bigint IS NULL OR d.died_at < timestamptz 'epoch' + $4::bigint::double precision * interval '1 microsecond')
  AND ($5::bigint IS NULL OR d.died_at >= timestamptz 'epoch' + $5::bigint::double precision * interval '1 microsecond')
  AND ($6::text IS NULL OR d.tenant = $6::text)
  AND ($7::text IS NULL OR strpos(lower(d.reason), lower($7::text)) > 0)
  AND ($8::text IS NULL OR strpos(lower(d.error), lower($8::text)) > 0)`

/** The parameters of {@link MATCHES}: $1 to $8. */
export function matchParams(match: DeadLetterMatch): readonly unknown[] {
  const { queue, ids, type, diedBefore, diedAfter, tenant, reason, error } = match
  return [queue, ids, type, diedBefore, diedAfter, tenant, reason, error]
}

export interface DeadLetterSearch {
  readonly after?: TimeCursor | null | undefined
  readonly limit: number
}

interface DeadLetterRows<Listed> {
  readonly deadLetters: readonly Listed[]
  readonly next: TimeCursor | null
}

/** Reads a page of dead letters, the latest first. */
export function listDeadLetters(
  execute: Execute,
  match: DeadLetterMatch,
  search: DeadLetterSearch,
): Promise<DeadLetterRows<DeadLetter>> {
  return readPage(execute, WHOLE, match, search)
}

/** The same without payloads and headers, which may be large. */
export function listDeadLettersWithoutPayloads(
  execute: Execute,
  match: DeadLetterMatch,
  search: DeadLetterSearch,
): Promise<DeadLetterRows<ListedDeadLetter>> {
  return readPage(execute, WITHOUT_PAYLOADS, match, search)
}

/** The statement for dead letters of one shape. */
interface Pages<Listed extends ListedDeadLetter> {
  readonly row: Shape<Listed>
  readonly page: Statement
}

async function readPage<Listed extends ListedDeadLetter>(
  execute: Execute,
  { row, page }: Pages<Listed>,
  match: DeadLetterMatch,
  { after = null, limit }: DeadLetterSearch,
): Promise<DeadLetterRows<Listed>> {
  const from = startOf(match, after)
  // One bound only: with two, the server may begin at the wrong one and read the index from there to the other.
  const rest = matchParams({ ...match, diedBefore: null })
  const params = [...rest, limit + 1, from?.us ?? null, from?.id ?? null]
  const rows = await execute(page, params)
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return {
    deadLetters: rows.slice(0, limit).map(row.read),
    next: last === undefined ? null : { us: textOf(last, 'died_at'), id: textOf(last, 'id') },
  }
}

/** The cursor after which the list begins: the earlier of the two that are asked for. */
function startOf({ diedBefore }: DeadLetterMatch, after: TimeCursor | null): TimeCursor | null {
  return diedBefore === null ? after : earlier(after, diedBefore)
}

/** One dead letter. */
export async function readDeadLetter(execute: Execute, queue: string, id: string): Promise<DeadLetter | undefined> {
  const [row] = await execute(ONE, [queue, id])
  return row && DEAD_LETTER.read(row)
}

/** What {@link DeadLetterMatch} matches, by queue, type, reason and error, the largest groups first. */
export async function summariseDeadLetters(execute: Execute, match: DeadLetterMatch): Promise<DeadLetterSummary> {
  const rows = await execute(SUMMARISE, [...matchParams(match)])
  const groups = rows.map((row) => ({
    queue: textOf(row, 'queue'),
    type: textOrNull(row, 'type'),
    reason: textOf(row, 'reason'),
    error: textOrNull(row, 'error'),
    messages: numberOf(row, 'messages'),
  }))
  const [first] = rows
  return {
    total: first === undefined ? 0 : numberOf(first, 'total'),
    groups,
    moreGroups: first === undefined ? 0 : numberOf(first, 'groups') - groups.length,
  }
}

const DEATH = {
  reason: text(),
  error: nullable.text(),
  failures: FAILURES,
  attempt: number(),
  diedAt: date(),
  ageMs: duration(),
  position: nullable.number('event_position'),
}
const DEAD_LETTER = shape<DeadLetter>({ ...STORED_MESSAGE, ...DEATH })
const LISTED_DEAD_LETTER = shape<ListedDeadLetter>({ ...ENVELOPE, ...DEATH })

// Goes from queue to queue, and takes the latest of each by the index on (queue, died_at, id), because no index has the
// dead letters of all queues in the order in which they died. So it reads a page per queue.
function pagesOf<Listed extends ListedDeadLetter>(name: string, row: Shape<Listed>): Pages<Listed> {
  const page = statement(
    name,
    `
WITH RECURSIVE dead_queue (queue) AS (
  SELECT coalesce($1::text, (SELECT d.queue FROM sluice.dead_letters d ORDER BY d.queue, d.died_at, d.id LIMIT 1))
  UNION ALL
  SELECT (SELECT d.queue FROM sluice.dead_letters d WHERE d.queue > q.queue ORDER BY d.queue, d.died_at, d.id LIMIT 1)
  FROM dead_queue q WHERE $1::text IS NULL AND q.queue IS NOT NULL
)
SELECT ${row.columns('d')}
FROM dead_queue q CROSS JOIN LATERAL (
  SELECT d.* FROM sluice.dead_letters d
  WHERE d.queue = q.queue AND ${MATCHES}
    AND ($10::bigint IS NULL OR
         (d.died_at, d.id) < (timestamptz 'epoch' + $10::bigint::double precision * interval '1 microsecond', $11::bigint))
  ORDER BY d.died_at DESC, d.id DESC LIMIT (SELECT $9::integer)
) d
ORDER BY d.died_at DESC, d.id DESC
LIMIT $9::integer`,
  )
  return { row, page }
}

const WHOLE = pagesOf('dead_list', DEAD_LETTER)
const WITHOUT_PAYLOADS = pagesOf('dead_list_without_payloads', LISTED_DEAD_LETTER)

// A range in the order of the primary key. Otherwise the planner may read the whole queue by the index on died_at.
const ONE = statement(
  'dead_one',
  `
SELECT ${DEAD_LETTER.columns('d')}
FROM sluice.dead_letters d
WHERE d.queue = $1::text AND d.id >= $2::bigint AND d.id <= $2::bigint
ORDER BY d.queue, d.id
LIMIT 1`,
)

const SUMMARISE = statement(
  'dead_summarise',
  `
SELECT d.queue, d.type, d.reason, e.error, count(*) AS messages,
       (sum(count(*)) OVER ())::bigint AS total, count(*) OVER () AS groups
FROM sluice.dead_letters d
CROSS JOIN LATERAL (SELECT regexp_replace("left"(d.error, 200), '[0-9]+', '#', 'g') AS error) e
WHERE ${MATCHES}
GROUP BY d.queue, d.type, d.reason, e.error
ORDER BY messages DESC, d.queue, d.type, d.reason, e.error
LIMIT 20`,
)
