import { checkId } from '../basics/checks/check-id.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import { MAX_ATTEMPTS } from '../retry-policy.ts'
import type { ClaimTerms } from '../table/pull/take.ts'

/** How `claim` claims. */
export interface ClaimOptions {
  /** The most messages to claim, 1 to 1,000. @default 10 */
  readonly limit?: number | undefined
  /** How long no other process gets the messages, 1 s to 14 days. @default '1m' */
  readonly lease?: Duration | undefined
  /**
   * Messages that would expire before the end of the claim and this long after it live until then, 0 to 14 days. A renewal
   * does the same. @default 0: until the end of the claim
   */
  readonly grace?: Duration | undefined
  /** How long to wait for a message if there is none, up to 5 minutes. @default 0: not at all */
  readonly wait?: Duration | undefined
  /**
   * The number of failed attempts after which a message becomes a dead letter, 1 to 1,000,000. A message's own limit
   * takes precedence. @default 20
   */
  readonly maxAttempts?: number | undefined
  /** Ends the wait: the promise rejects with its reason. */
  readonly signal?: AbortSignal | undefined
}

/** How `pop` takes messages. */
export interface PopOptions {
  /** The most messages to take, 1 to 1,000. @default 1 */
  readonly limit?: number | undefined
}

/** The options of a claim, complete and checked. */
export interface ClaimPlan {
  readonly terms: ClaimTerms
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

/** @throws SluiceError OPTION_INVALID */
export function resolveClaim(options: ClaimOptions): ClaimPlan {
  checkKeys('claim', options, CLAIM_OPTIONS, "As in claim('emails', { limit: 10, lease: '1m' })")
  const { signal } = options
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw expected('OPTION_INVALID', 'claim.signal', 'an AbortSignal', signal, 'Take that of an AbortController')
  }
  return {
    terms: {
      limit: integer('claim.limit', options.limit, 10, 1, MOST),
      leaseMs: leaseOf('claim.lease', options.lease ?? '1m'),
      graceMs: graceOf('claim.grace', options.grace ?? 0),
      maxAttempts: integer('claim.maxAttempts', options.maxAttempts, MAX_ATTEMPTS, 1, 1_000_000),
    },
    waitMs: toMsWithin('claim.wait', options.wait ?? 0, 0, '5m'),
    signal,
  }
}

/** How many messages to pop. @throws SluiceError OPTION_INVALID */
export function resolvePop(options: PopOptions): number {
  checkKeys('pop', options, ['limit'], "As in pop('emails', { limit: 10 })")
  return integer('pop.limit', options.limit, 1, 1, MOST)
}

/** @throws SluiceError OPTION_INVALID */
export function leaseOf(what: string, lease: unknown): number {
  return toMsWithin(what, lease, '1s', '14d')
}

/** @throws SluiceError OPTION_INVALID */
export function graceOf(what: string, grace: unknown): number {
  return toMsWithin(what, grace, 0, '14d')
}

const CLAIM_OPTIONS = ['limit', 'lease', 'grace', 'wait', 'maxAttempts', 'signal'] as const

const MOST = 1_000

/** The ids of a message or of several, given as such or as their ids. @throws SluiceError OPTION_INVALID */
export function idsOf(what: string, which: unknown): readonly string[] {
  if (!Array.isArray(which)) return [idOf(what, which)]
  if (which.length > MOST) throw expected('OPTION_INVALID', what, `at most ${MOST} messages`, which)
  return which.map((one: unknown, at) => idOf(`${what}[${at}]`, one))
}

function idOf(what: string, message: unknown): string {
  const id: unknown = typeof message === 'object' && message !== null && 'id' in message ? message.id : message
  return checkId(id, what)
}
