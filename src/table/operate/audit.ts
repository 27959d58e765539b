import { bigint, type Column, date, nullable, number, shape, text } from '../shape.ts'
import { type Execute, numberOf, only, statement, textOf } from '../statement.ts'
import { earlier, type TimeCursor } from './time-cursor.ts'

/** What somebody did: a row of `sluice.audit`. */
export interface AuditEntry {
  /** Its number. */
  readonly id: string
  /** When it was done. */
  readonly at: Date
  /** The name that was given with the call, or by `operate.by`; otherwise the login. */
  readonly actor: string
  /** The database user. */
  readonly login: string
  /** The `application_name` of the session; null: it had none. */
  readonly application: string | null
  /** What was done, for example `message.cancel`. */
  readonly action: string
  /** The queue, or `stream:group`; null: it concerned none. */
  readonly queue: string | null
  /** The dedupe key, the schedule, the stream or the number of the claim; null: none of these. */
  readonly subject: string | null
  /** The ids of the messages, at most 100. */
  readonly messageIds: readonly string[]
  /** How many messages, keys, events or partitions it changed; otherwise 1. */
  readonly count: number
  /** What the call was given and what it did, without payloads. */
  readonly details: Readonly<Record<string, unknown>>
}

/** Actions, the latest first. */
export interface AuditPage {
  /** At most as many as the limit. */
  readonly actions: readonly AuditEntry[]
  /** Give it as `after` for the next page, with the same options; null: there is no more. */
  readonly next: string | null
}

/** Which actions: those that match everything given. */
export interface AuditMatch {
  readonly queue: string | null
  readonly subject: string | null
  readonly id: string | null
  readonly action: string | null
  readonly actor: string | null
  /** Instants in microseconds since 1970, by the database's clock. */
  readonly since: number | null
  readonly before: number | null
}

/** One page of the audit, the latest first. With an id it is sorted: not for a plan by index. */
export async function readAudit(
  execute: Execute,
  { queue, subject, id, action, actor, since, before }: AuditMatch,
  { after, limit }: { readonly after: TimeCursor | null; readonly limit: number },
): Promise<AuditPage> {
  const from = earlier(after, before ?? LAST_US)
  const params = [queue, subject, action, actor, since, from.us, from.id, limit + 1]
  const rows = await (id === null ? execute(PAGE, params) : execute(PAGE_OF_MESSAGE, [...params, id]))
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return {
    actions: rows.slice(0, limit).map(ENTRY.read),
    next: last === undefined ? null : `${textOf(last, 'at')}.${textOf(last, 'id')}`,
  }
}

/** For how long actions are kept. */
export async function readAuditKeep(execute: Execute): Promise<number> {
  return numberOf(only(await execute(KEPT, [])), 'keep_ms')
}

/** Sets for how long actions are kept. */
export async function setAuditKeep(execute: Execute, keepMs: number): Promise<void> {
  await execute(KEEP, [keepMs])
}

/** Later than any instant that a Date can hold. */
const LAST_US = 8_640_000_000_000_000_000

const ENTRY = shape<AuditEntry>({
  id: bigint(),
  at: date(),
  actor: text(),
  login: text(),
  application: nullable.text(),
  action: text(),
  queue: nullable.text(),
  subject: nullable.text(),
  messageIds: json((column) => `pg_catalog.to_json(coalesce(${column}, '{}')::text[])`),
  count: number(),
  details: json(),
})

/** JSON as text, which every driver returns alike, parsed. */
function json<T>(form: (column: string) => string = (column) => column): Column<T> {
  return {
    select: (of, name) => `(${form(`${of}.${name}`)})::text AS ${name}`,
    read: (row, name) => JSON.parse(textOf(row, name)) as T,
  }
}

const instant = (us: string) => `timestamptz 'epoch' + ${us}::bigint::double precision * interval '1 microsecond'`

const MATCHES = `
      ($1::text IS NULL OR a.queue = $1::text)
  AND ($2::text IS NULL OR a.subject = $2::text)
  AND ($3::text IS NULL OR a.action = $3::text OR split_part(a.action, '.', 1) = $3::text)
  AND ($4::text IS NULL OR a.actor = $4::text)
  AND ($5::bigint IS NULL OR a.at >= ${instant('$5')})
  AND (a.at, a.id) < (${instant('$6')}, $7::bigint)
ORDER BY a.at DESC, a.id DESC
LIMIT $8::integer`

// Planned for its values: by the primary key of sluice.action, from the cursor backwards, or with a queue by its index
// on (queue, at, id). Both begin at the cursor and end with the page, or at `since`; other filters pass rows over.
const PAGE = statement('audit_page', `SELECT ${ENTRY.columns('a')}\nFROM sluice.audit a\nWHERE ${MATCHES}`)

// All actions on the message, of which there are few, by the index of their ids. Materialized: the planner would read
// actions in the order of time until there are enough of the message, which is never.
const PAGE_OF_MESSAGE = statement(
  'audit_page_of_message',
  `
WITH found AS MATERIALIZED (
  SELECT a.* FROM sluice.audit a WHERE a.message_ids OPERATOR(pg_catalog.@>) ARRAY[$9::bigint]
)
SELECT ${ENTRY.columns('a')}
FROM found a
WHERE ${MATCHES}`,
)

const KEPT = statement('audit_kept', 'SELECT s.audit_keep_ms AS keep_ms FROM sluice.setting s')

const KEEP = statement('audit_keep', `SELECT sluice.audit_keep($1::double precision * interval '1 millisecond')`)
