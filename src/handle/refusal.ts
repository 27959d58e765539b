import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { hasExpired } from '../claim/has-expired.ts'
import type { ClaimClock } from '../statistics/meter.ts'

/** Why no handler is to see a message. */
export type Refusal =
  /** Somebody has cancelled it. */
  | { readonly kind: 'cancelled' }
  /** Its life had ended when it was claimed. */
  | { readonly kind: 'expired' }
  /** It killed its process too often. */
  | { readonly kind: 'harmful'; readonly reason: string }
  /** Its last try was lost, and other workers may have taken it before that could be written. */
  | { readonly kind: 'lost try'; readonly error: string }

export interface RefusalRules {
  readonly isCancelled: boolean
  readonly clock: ClaimClock | undefined
  readonly crashLimit: number
}

/** Of what is known without its payload. */
export function refusalOf(
  message: DeliveredMessage,
  { isCancelled, clock, crashLimit }: RefusalRules,
): Refusal | undefined {
  if (isCancelled) return { kind: 'cancelled' }
  if (hasExpired(message.row, clock?.nowUs)) return { kind: 'expired' }
  const { evidence, lostTry } = message
  if (evidence?.crashedAlone && evidence.crashes >= crashLimit) {
    const reason = `crashed: ${evidence.crashes} processes died or hung with this message in hand`
    return { kind: 'harmful', reason }
  }
  return lostTry === undefined ? undefined : { kind: 'lost try', error: lostTry.error }
}
