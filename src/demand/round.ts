import type { Nothing } from '../claim/admission.ts'

/**
 * How a mode claims, handles and settles messages. {@link Demand} decides when; it knows no SQL, and a round knows
 * nothing of runners, sleep and backoff.
 */
export interface Round {
  /**
   * Claims and handles batch after batch, until a claim finds nothing, `demand` ends, or the next batch needs the process
   * for itself.
   *
   * @param alone while the process has nothing else in flight
   * @param onCommitted a batch is settled: a queue that is never empty has rounds that never end
   * @throws if it got no further; the caller then calls {@link failed}.
   */
  run(demand: RoundDemand, alone: boolean, onCommitted: () => void): Promise<Next>
  /**
   * Reports that a round failed.
   *
   * @param retryInMs when the next one begins; undefined: there is no next one.
   * @returns the error for a caller of `runOnce`
   */
  failed(error: unknown, retryInMs?: number): unknown
  /**
   * Changes how much may be in flight: batches in transactional mode, messages in leased mode.
   *
   * @returns how many runners that takes
   */
  resize(concurrency: number): number
  /** How many connections it may use at a time, at full load. */
  readonly connections: number
  /**
   * Resolves when all messages that rounds have claimed are over. Returns whether some were in flight when the last
   * round began to claim: that round may have looked too early.
   */
  drained(): Promise<boolean>
  /** Breaks off statements that the server has not answered. */
  cut(): void
}

/** The demand, as a round sees it. */
export interface RoundDemand {
  /** Aborts when claims must end. */
  readonly draining: AbortSignal
  /** Claim nothing now; messages in flight go on. */
  readonly paused: boolean
  /** How many hints there have been. The end of a delay does not count: a claim has given that time. */
  readonly hints: number
  /** Aborts when messages in flight must be given back. */
  readonly stopping: AbortSignal
  /** Whether a round must end after its present batch. */
  readonly isLast: boolean
  /** A claim is on its way: it sees the reasons for all hints before. */
  sent(): void
  answered(): void
  /** A message was settled after its round: one that waited for it may be claimed now. */
  opened(): void
  /** Messages of a settlement are due again in these times, in milliseconds. */
  due(inMs: readonly number[]): void
  /** A claim has found messages. */
  found(found: FoundMessages): void
}

export interface FoundMessages {
  /** It took all that it asked for: there may be more. */
  readonly full: boolean
  /** For how long the youngest has been due. */
  readonly youngestMs: number
}

/** What a runner does next, as each round returns it. */
export type Next =
  /** At once; or it ends, or sleeps while paused, if that ended its round. */
  | { readonly kind: 'claim' }
  /** The next batch must have the process for itself. */
  | { readonly kind: 'claim alone' }
  /** A claim has found nothing, or nothing may be claimed for now. */
  | Nothing

export const CLAIM = { kind: 'claim' } as const satisfies Next
export const CLAIM_ALONE = { kind: 'claim alone' } as const satisfies Next
