import { type ClaimedRow, claimedUs, toClaimedRow } from '../claim/claim.ts'
import { dateOf } from '../dates.ts'
import { booleanOf, type Execute, numberOf, type Statement, statement, textOf, textsOf } from '../statement.ts'

/** The messages of a claim, and when it ends. */
export interface TakenClaim {
  readonly id: string
  readonly expiresAt: Date
  /** For how long it lasts from now on. */
  readonly leftMs: number
  readonly rows: readonly ClaimedRow[]
}

/** What a claim takes, and for how long. */
export interface ClaimTerms {
  readonly limit: number
  readonly leaseMs: number
  /** How long its messages live on after it, at least. */
  readonly graceMs: number
  readonly maxAttempts: number
}

/** Claims due messages. Undefined: there is none. Run it in a READ COMMITTED transaction. */
export async function takeClaim(execute: Execute, queue: string, terms: ClaimTerms): Promise<TakenClaim | undefined> {
  const rows = await execute(TAKE, [queue, terms.limit, terms.leaseMs, terms.maxAttempts, terms.graceMs])
  return rows[0] && { id: textOf(rows[0], 'claim_id'), ...toTaken(rows) }
}

/** As {@link takeClaim}, for a waiting caller: if there is none, it also tells whether the queue is paused. */
export async function takeOrPaused(
  execute: Execute,
  queue: string,
  terms: ClaimTerms,
): Promise<TakenClaim | 'paused' | undefined> {
  const rows = await execute(TAKE_OR_PAUSED, [queue, terms.limit, terms.leaseMs, terms.maxAttempts, terms.graceMs])
  const [first] = rows
  if (first === undefined || first.claim_id === null)
    return first !== undefined && booleanOf(first, 'paused') ? 'paused' : undefined
  return { id: textOf(first, 'claim_id'), ...toTaken(rows) }
}

/** The messages of a claim that are not settled yet. Undefined: it has none any more. */
export async function readClaim(execute: Execute, queue: string, id: string): Promise<TakenClaim | undefined> {
  const rows = await execute(GET, [queue, id])
  return rows[0] && { id, ...toTaken(rows) }
}

/** A message of a claim, as its retry goes by it. */
export interface ClaimedTry {
  readonly id: string
  /** Which try this is, from 1. */
  readonly attempt: number
  /** The names of retry policies that it has been given, the first one first. */
  readonly policies: readonly string[]
}

/** The messages of a claim that are not settled yet, as their retries go by them. */
export async function readTries(execute: Execute, queue: string, id: string): Promise<readonly ClaimedTry[]> {
  const rows = await execute(TRIES, [queue, id])
  return rows.map((row) => ({
    id: textOf(row, 'id'),
    attempt: numberOf(row, 'attempt'),
    policies: textsOf(row, 'policies'),
  }))
}

/** Removes due messages, and returns them. Run it in a READ COMMITTED transaction. */
export async function popMessages(execute: Execute, queue: string, limit: number): Promise<readonly ClaimedRow[]> {
  return (await execute(POP, [queue, limit])).map(toClaimedRow)
}

function toTaken(rows: Awaited<ReturnType<Execute>>): Omit<TakenClaim, 'id'> {
  const [first] = rows
  const leftMs = first === undefined ? 0 : numberOf(first, 'left_ms')
  return {
    expiresAt: first === undefined ? new Date(Number.NaN) : dateOf(first, 'expires_us'),
    leftMs,
    rows: rows.map(toClaimedRow),
  }
}

const LIVES_UNTIL_US = `CASE WHEN c.lives_until IS NOT NULL THEN ${claimedUs('c.lives_until')} END`

/**
 * The columns of a {@link ClaimedRow}: the functions return which try this is. Of the options they return those that are for
 * whoever has the message. The server knows the others when it settles.
 */
const COLUMNS = `
  c.id::text AS id, c.priority, NULL AS slot, c.ordering_key, c.type, c.schema_version, c.payload::text AS payload,
  c.headers::text AS headers, c.attempt - 1 AS attempt, c.own_max_attempts AS max_attempts,
  ${claimedUs('c.due_at')} AS due_us, ${claimedUs('c.enqueued_at')} AS enqueued_us,
  CASE WHEN c.tenant IS NOT NULL OR c.dedupe_key IS NOT NULL OR c.lives_until IS NOT NULL
       THEN pg_catalog.json_build_object(
         'expiresUs', ${LIVES_UNTIL_US}, 'retryPolicy', NULL, 'leaseMs', NULL, 'dedupeKey', c.dedupe_key, 'dedupeMs', NULL,
         'tenant', c.tenant, 'eventPosition', NULL)::text
  END AS options`

const EXPIRES = `
  (date_part('epoch', c.expires_at) * 1000000::double precision)::bigint AS expires_us,
  (date_part('epoch', c.expires_at - clock_timestamp()) * 1000::double precision)::bigint AS left_ms`

const CLAIM = `sluice.claim(
  $1::text, $2::integer, $3::double precision * interval '1 millisecond', $4::integer,
  $5::double precision * interval '1 millisecond'
)`

const TAKE: Statement = statement(
  'claim_take',
  `
SELECT c.claim_id::text AS claim_id,${EXPIRES},${COLUMNS}
FROM ${CLAIM} c`,
)

const TAKE_OR_PAUSED: Statement = statement(
  'claim_take_or_paused',
  `
SELECT p.paused, c.claim_id::text AS claim_id,${EXPIRES},${COLUMNS}
FROM (SELECT sluice.is_paused($1::text) AS paused OFFSET 0) p LEFT JOIN ${CLAIM} c ON true`,
)

const GET: Statement = statement(
  'claim_get',
  `SELECT${EXPIRES},${COLUMNS}\nFROM sluice.claim_get($1::text, $2::bigint) c`,
)

const TRIES: Statement = statement(
  'claim_tries',
  'SELECT c.id::text AS id, c.attempt, c.retry_policies AS policies FROM sluice.claim_get($1::text, $2::bigint) c',
)

const POP: Statement = statement('claim_pop', `SELECT${COLUMNS}\nFROM sluice.pop($1::text, $2::integer) c`)
