import type { Outcome } from '../../message.ts'
import { dateOf } from '../dates.ts'
import { type Execute, numberOf, statement, textOf, textOrNull } from '../statement.ts'

/** Why a message was not settled: it is not there, nobody has claimed it, or somebody else has. */
export type RefusalReason = 'gone' | 'not_claimed' | 'claimed_by_other'

/** For how long a claim is renewed; null: as given before. */
export interface RenewTerms {
  readonly leaseMs: number | null
  readonly graceMs: number | null
}

/** What became of a message. */
export type ClaimedEnd =
  | { readonly id: string; readonly refused: RefusalReason }
  | { readonly id: string; readonly refused?: undefined; readonly dead: boolean }

/**
 * Settles messages of a claim, all in the same way. `policies`: those that are known by name, as JSON. One answer for each, in
 * the order of the ids.
 */
export async function settleClaimed(
  execute: Execute,
  queue: string,
  claimId: string,
  ids: readonly string[],
  outcome: Outcome,
  policies: string | null = null,
): Promise<readonly ClaimedEnd[]> {
  const none = { afterMs: undefined, atLeastMs: undefined, reason: undefined, error: undefined, dedupeForMs: undefined }
  const { afterMs, atLeastMs, reason, error, dedupeForMs } = { ...none, ...outcome }
  const kind = NAMES[outcome.kind]
  const params = [
    queue,
    claimId,
    ids,
    kind,
    afterMs ?? null,
    reason ?? null,
    error ?? null,
    kind === 'retry' ? policies : null,
    dedupeForMs ?? null,
    afterMs === undefined ? (atLeastMs ?? null) : null,
  ]
  const rows = await execute(SETTLE, params)
  return rows.map((row) => {
    const [id, written] = [textOf(row, 'id'), textOrNull(row, 'written')]
    return written === null
      ? { id, refused: refusalOf(textOf(row, 'result')) }
      : { id, dead: written === 'dead_letter' }
  })
}

/**
 * Makes a claim last for `leaseMs` from now, and its messages live until `graceMs` after that; null: as given before.
 * Resolves with its end.
 */
export async function renewClaim(
  execute: Execute,
  queue: string,
  claimId: string,
  { leaseMs, graceMs }: RenewTerms,
): Promise<Date> {
  const [row] = await execute(RENEW, [queue, claimId, leaseMs, graceMs])
  if (row === undefined) throw new TypeError('expected the end of the claim')
  return dateOf(row, 'expires_us')
}

/** Gives the messages of a claim back. Resolves with their number: 0 if it is unknown or over. */
export async function releaseClaim(execute: Execute, queue: string, claimId: string): Promise<number> {
  const [row] = await execute(RELEASE, [queue, claimId])
  if (row === undefined) throw new TypeError('expected the number of messages')
  return numberOf(row, 'released')
}

/** The outcomes as SQL names them. */
const NAMES = { ack: 'ack', retryLater: 'retry', snooze: 'snooze', deadLetter: 'dead_letter' } as const

function refusalOf(result: string): RefusalReason {
  if (result === 'gone' || result === 'not_claimed' || result === 'claimed_by_other') return result
  throw new TypeError(`result of a settlement: ${result}`)
}

const SETTLE = statement(
  'claim_settle',
  `
SELECT s.id::text AS id, s.result, s.written
FROM sluice.claim_settle(
  $1::text, $2::bigint, $3::bigint[], $4::text, $5::double precision * interval '1 millisecond', $6::text, $7::text,
  $8::text::jsonb, $9::double precision * interval '1 millisecond', $10::double precision * interval '1 millisecond'
) s`,
)

const RENEW = statement(
  'claim_renew',
  `
SELECT (date_part('epoch', r.expires_at) * 1000000::double precision)::bigint AS expires_us
FROM sluice.claim_renew(
  $1::text, $2::bigint, $3::double precision * interval '1 millisecond', $4::double precision * interval '1 millisecond'
) AS r (expires_at)`,
)

const RELEASE = statement('claim_release', 'SELECT sluice.claim_release($1::text, $2::bigint) AS released')
