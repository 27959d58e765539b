import { type Execute, numberOf, statement, textOf } from '../statement.ts'
import { dateOf, microseconds } from './instants.ts'

/** A claim that has not expired: a row of `sluice.claims`. */
export interface ClaimStatus {
  /** The name of its queue. */
  readonly queue: string
  /** Its number. */
  readonly id: string
  /** When it was made. */
  readonly claimedAt: Date
  /** When it was renewed last; at first, when it was made. */
  readonly renewedAt: Date
  /** How long ago that was. */
  readonly renewedAgoMs: number
  /** When it ends if nobody renews it. */
  readonly expiresAt: Date
  /** In how long that is. */
  readonly expiresInMs: number
  /** For how long it was given. */
  readonly ttlMs: number
  /** How many of its messages are not settled yet. */
  readonly messages: number
}

/** The claims that have not expired, in all queues or in one, the oldest first. */
export async function readClaims(
  execute: Execute,
  queue: string | null,
  limit: number,
): Promise<readonly ClaimStatus[]> {
  const rows = await execute(CLAIMS, [queue, limit])
  return rows.map((row) => ({
    queue: textOf(row, 'queue'),
    id: textOf(row, 'id'),
    claimedAt: dateOf(row, 'claimed_us'),
    renewedAt: dateOf(row, 'renewed_us'),
    renewedAgoMs: Math.round(numberOf(row, 'renewed_ago_ms')),
    expiresAt: dateOf(row, 'expires_us'),
    expiresInMs: Math.round(numberOf(row, 'expires_in_ms')),
    ttlMs: Math.round(numberOf(row, 'ttl_ms')),
    messages: numberOf(row, 'messages'),
  }))
}

const CLAIMS = statement(
  'operate_claims',
  `
SELECT c.queue, c.id::text AS id, c.messages,
       ${microseconds('c.claimed_at')} AS claimed_us, ${microseconds('c.renewed_at')} AS renewed_us,
       ${microseconds('c.expires_at')} AS expires_us,
       (extract(epoch FROM c.age) * 1000.0) AS renewed_ago_ms,
       (extract(epoch FROM c.expires_at - clock_timestamp()) * 1000.0) AS expires_in_ms,
       (extract(epoch FROM c.ttl) * 1000.0) AS ttl_ms
FROM sluice.claims c
WHERE $1::text IS NULL OR c.queue = $1::text
ORDER BY c.queue, c.id
LIMIT $2::integer`,
)
