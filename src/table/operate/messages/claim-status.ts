import { bigint, date, duration, number, shape, text } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'

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
  /** When it expires unless renewed. */
  readonly expiresAt: Date
  /** In how long that is. */
  readonly expiresInMs: number
  /** The duration that was asked for. */
  readonly leaseMs: number
  /** How many of its messages are not settled yet. */
  readonly messages: number
}

/** The claims that have not expired, in all queues or in one, the oldest first. */
export async function readClaims(
  execute: Execute,
  queue: string | null,
  limit: number,
): Promise<readonly ClaimStatus[]> {
  return (await execute(CLAIMS, [queue, limit])).map(CLAIM.read)
}

const CLAIM = shape<ClaimStatus>({
  queue: text(),
  id: bigint(),
  claimedAt: date(),
  renewedAt: date(),
  renewedAgoMs: duration('age'),
  expiresAt: date(),
  expiresInMs: duration((of) => `${of}.expires_at - clock_timestamp()`),
  leaseMs: duration(),
  messages: number(),
})

const CLAIMS = statement(
  'operate_claims',
  `
SELECT ${CLAIM.columns('c')}
FROM sluice.claims c
WHERE $1::text IS NULL OR c.queue = $1::text
ORDER BY c.queue, c.id
LIMIT $2::integer`,
)
