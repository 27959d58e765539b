import type { ClaimedRow } from '../table/claim/claim.ts'

/**
 * Whether a message had expired when it was claimed. In flight it does not expire.
 *
 * @param claimedUs undefined: no claim has taken it
 */
export function hasExpired({ options }: ClaimedRow, claimedUs = Number.NEGATIVE_INFINITY): boolean {
  return options !== null && options.expiresUs !== null && options.expiresUs <= claimedUs
}
