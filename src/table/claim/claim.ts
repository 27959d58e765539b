import { bounded } from '../instant.ts'
import { type ByVersion, byVersion, ofVersion } from '../rows-by-id.ts'
import { SERVER_MEMORY } from '../session/server-memory.ts'
import {
  type Execute,
  type Row,
  type Statement,
  statement,
  textOf,
  toNumber,
  toNumberOrNull,
  toText,
  toTextOrNull,
} from '../statement.ts'
import { type Lease, leaseParams, leasing, REQUIRE_LEASED } from './lease.ts'

/** A claimed row: locked until its transaction ends. Instants are microseconds since 1970, exact in a double. */
export interface ClaimedRow {
  readonly id: string
  readonly priority: number
  readonly dueUs: number
  readonly slot: number | null
  readonly orderingKey: string | null
  readonly type: string | null
  readonly schemaVersion: number
  /** JSON as text, parsed when the handler reads it. */
  readonly payload: string
  readonly headers: string
  /** How many tries have failed. */
  readonly attempt: number
  /** Its last lease has run out: there is evidence about it. */
  readonly expired: boolean
  readonly maxAttempts: number | null
  readonly enqueuedUs: number
  /** What few messages have; null: this one has none of it. */
  readonly options: RareOptions | null
}

/** Options of a message that few have. */
export interface RareOptions {
  /** After this instant it is not handed out; null: it never expires. */
  readonly expiresUs: number | null
  /** The name of its retry policy. */
  readonly retryPolicy: string | null
  /** How long its lease lasts, in leased mode. */
  readonly leaseMs: number | null
  readonly dedupeKey: string | null
  /** For how long the key stays taken after success. */
  readonly dedupeMs: number | null
  readonly tenant: string | null
  /** Of an event that has failed, or waits behind one: its position in its stream. */
  readonly eventPosition: number | null
}

export const NO_OPTIONS: RareOptions = {
  expiresUs: null,
  retryPolicy: null,
  leaseMs: null,
  dedupeKey: null,
  dedupeMs: null,
  tenant: null,
  eventPosition: null,
}

/** A transaction as the server knows it. Behind a pooler the driver does not know which server process it talks to. */
export interface ServerTransaction {
  readonly pid: number
  readonly startedUs: number
}

/** What a claim took, and the database's clock at that time. */
export interface ClaimedRows {
  readonly nowUs: number
  /** The transaction in which the rows are locked. */
  readonly transaction: ServerTransaction
  /**
   * If it differs from before, the server may have lost commits that it showed before. Empty: the server cannot tell.
   */
  readonly memory: string
  /** Whether there is crash evidence about messages of the queue, perhaps about these. */
  readonly evidence: boolean
  readonly rows: readonly ClaimedRow[]
}

/** A priority of a queue, and the position (due time, id) below which this process has nothing left to take. */
export interface PriorityFloor {
  readonly priority: number
  readonly dueUs: number
  readonly id: string
}

/**
 * Locks up to `limit` due messages without an ordering key, the lowest priority number first, then by due time.
 * Writes nothing. Run it in a READ COMMITTED transaction, whose end frees the rows.
 *
 * message_due_idx (queue, priority, due_at, id) serves it with one descent per priority: equality on queue and
 * priority, then a range from the floor to now that is already in order. So nothing is sorted, rows that are due later
 * are not touched, and dead rows below the floor are not visited. The lateral join is a nested loop that pulls one row
 * at a time, so the outer LIMIT stops the locking: never more than `limit` rows are locked. The inner LIMIT does not
 * change the result. It tells the planner that few rows are wanted, and hides how many: without it, stale statistics
 * make the planner read and sort the whole backlog (98 ms instead of 0.5 ms with 200,000 ready). The clock is one row
 * and MATERIALIZED, and everything that locks is joined to it laterally: a locking subquery that the planner runs twice
 * locks twice, and this one can run only once.
 *
 * @param lease the rows are leased as well, and stay so when the transaction has committed
 */
export async function claim(
  execute: Execute,
  queue: string,
  floors: readonly PriorityFloor[],
  limit: number,
  lease?: Lease,
): Promise<ClaimedRows> {
  const rows = await execute(lease === undefined ? CLAIM : ofVersion(CLAIM_LEASED, lease.serverVersion), [
    queue,
    floors.map((floor) => floor.priority),
    floors.map((floor) => floor.dueUs),
    floors.map((floor) => floor.id),
    limit,
    ...leaseParams(lease),
  ])
  return toClaimedRows(rows)
}

/**
 * An instant that is not null in microseconds since 1970, exact in a double until 2106. `date_part` takes a tenth of the
 * time of `extract`, which computes with `numeric`: a drain is 9 % faster for it. They leave as integers, because a
 * database's extra_float_digits would round double precision, and a floor that is too high loses messages.
 */
export const claimedUs = (instant: string) =>
  `(date_part('epoch', ${bounded(instant)}) * 1000000::double precision)::bigint`

const EXPIRES_US = `CASE WHEN m.expires_at IS NOT NULL THEN ${claimedUs('m.expires_at')} END`

/**
 * The columns of a {@link ClaimedRow} from a row `m` of sluice.message. The options of few are one text, because every
 * further column is read for every message.
 */
export const CLAIMED_COLUMNS = `
    m.id, m.priority, m.due_at, m.slot, m.ordering_key, m.type, m.schema_version,
    m.payload::text AS payload, m.headers::text AS headers, m.attempt, m.max_attempts, m.enqueued_at, m.lease,
    CASE WHEN m.expires_at IS NOT NULL OR m.dedupe_key IS NOT NULL OR m.tenant IS NOT NULL OR m.retry_policy IS NOT NULL
              OR m.lease_ms IS NOT NULL OR m.event_position IS NOT NULL
         THEN pg_catalog.json_build_object(
           'expiresUs', ${EXPIRES_US}, 'retryPolicy', m.retry_policy, 'leaseMs', m.lease_ms, 'dedupeKey', m.dedupe_key,
           'dedupeMs', m.dedupe_ms, 'tenant', m.tenant, 'eventPosition', m.event_position)::text
    END AS options`

/** One line per claimed row, or one with a null id if there is none, so that the clock always comes back. */
export const claimResult = (attempt: string, context = 'clock.context') => `
SELECT c.id::text AS id, c.priority, c.slot, c.ordering_key, c.type, c.schema_version, c.payload, c.headers, ${attempt}, c.max_attempts, c.options,
       ${claimedUs('c.due_at')} AS due_us, ${claimedUs('c.enqueued_at')} AS enqueued_us,
       ${context} AS context`

/**
 * What does not depend on the row, as one text per claim, because every further column is read for every message: of queue $1, at
 * `c.now`. The probe for evidence reads an index that is nearly always empty.
 */
export const CLAIM_CONTEXT = `pg_catalog.concat_ws(' ',
    (date_part('epoch', c.now) * 1000000::double precision)::bigint, EXISTS (SELECT FROM sluice.crash c WHERE c.queue = $1::text),
    pg_backend_pid(), (date_part('epoch', transaction_timestamp()) * 1000000::double precision)::bigint,
    ${SERVER_MEMORY}) AS context`

/** What a claim is made of. */
interface ClaimText {
  readonly name: string
  /** Its first CTE, `clock`, and others. */
  readonly ctes: string
  /** Its text of {@link CLAIM_CONTEXT}, if it says more. */
  readonly context?: string
  /** More columns of its result. */
  readonly columns?: string
  /** What finds and locks the rows. */
  readonly rows: string
}

/** A claim that locks rows and writes nothing. */
export function lockingClaim({ name, ctes, context, columns = '', rows }: ClaimText): Statement {
  return statement(
    name,
    `${ctes}${claimResult('c.attempt', context)}${columns}\nFROM clock LEFT JOIN LATERAL (${rows}\n) c ON true`,
  )
}

/**
 * The same, and the rows are leased.
 *
 * @param at the number of its first parameter for that, see {@link leasing}
 */
export function leasingClaim({ name, ctes, context, columns = '', rows }: ClaimText, at: number): ByVersion {
  const picked = `, picked AS MATERIALIZED (\n  SELECT c.* FROM clock CROSS JOIN LATERAL (${rows}\n) c\n)`
  const result = `${claimResult('c.attempt, c.lease > 0 AS expired', context)}${columns}${REQUIRE_LEASED}`
  return byVersion(
    `${name}_leased`,
    (found) => `${ctes}${picked}${leasing(at, found)}${result}\nFROM clock LEFT JOIN picked c ON true`,
  )
}

/** The database's clock, read once for the whole claim. */
export const CLAIM_CLOCK = `
WITH clock AS MATERIALIZED (
  SELECT c.now, ${CLAIM_CONTEXT}
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c
)`

const TEXT: ClaimText = {
  name: 'claim',
  ctes: CLAIM_CLOCK,
  rows: `
  SELECT m.*
  FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS floor (priority, due_us, id)
  CROSS JOIN LATERAL (
    SELECT ${CLAIMED_COLUMNS}
    FROM sluice.message m
    WHERE m.queue = $1::text AND m.slot IS NULL AND m.priority = floor.priority
      AND (m.due_at, m.id) > (timestamptz 'epoch' + floor.due_us::double precision * interval '1 microsecond', floor.id)
      AND m.due_at <= clock.now
    ORDER BY m.due_at, m.id
    LIMIT (SELECT $5::integer)
    FOR UPDATE OF m SKIP LOCKED
  ) m
  LIMIT $5::integer`,
}
const CLAIM = lockingClaim(TEXT)
const CLAIM_LEASED = leasingClaim(TEXT, 6)

/** The driver's rows as a {@link ClaimedRows}. */
export function toClaimedRows(rows: readonly Row[]): ClaimedRows {
  const first = rows[0]
  if (first === undefined) throw new TypeError('claim: expected at least the row with the clock')
  return { ...claimContextOf(first), rows: first.id === null ? [] : rows.map(toClaimedRow) }
}

/** The same of a claim that has taken none of its rows. */
export function toNothing(rows: readonly Row[]): ClaimedRows {
  const { rows: _, ...context } = toClaimedRows(rows.slice(0, 1))
  return { ...context, rows: [] }
}

/** What a claim says beside its rows. */
export type ClaimContext = Omit<ClaimedRows, 'rows'>

/** The column `context` of {@link CLAIM_CONTEXT}. */
export function claimContextOf(row: Row): ClaimContext {
  const [now, evidence, pid, started, memory = ''] = textOf(row, 'context').split(' ')
  return {
    nowUs: Number(now),
    evidence: evidence === 't',
    transaction: { pid: Number(pid), startedUs: Number(started) },
    memory,
  }
}

/** A row of a claim, or of a function that claims. */
export function toClaimedRow(row: Row): ClaimedRow {
  return {
    id: toText(row.id, 'id'),
    priority: toNumber(row.priority, 'priority'),
    dueUs: toNumber(row.due_us, 'due_us'),
    slot: toNumberOrNull(row.slot, 'slot'),
    orderingKey: toTextOrNull(row.ordering_key, 'ordering_key'),
    type: toTextOrNull(row.type, 'type'),
    schemaVersion: toNumber(row.schema_version, 'schema_version'),
    payload: toText(row.payload, 'payload'),
    headers: toText(row.headers, 'headers'),
    attempt: toNumber(row.attempt, 'attempt'),
    expired: row.expired === true,
    maxAttempts: toNumberOrNull(row.max_attempts, 'max_attempts'),
    enqueuedUs: toNumber(row.enqueued_us, 'enqueued_us'),
    options: row.options === null || row.options === undefined ? null : JSON.parse(toText(row.options, 'options')),
  }
}
