import type { Nothing } from '../claim/admission.ts'

/**
 * How a mode claims messages, has them handled, and settles them. {@link Demand} decides when; it knows no SQL, and a
 * round knows nothing of runners, sleep and backoff.
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
   * @param retryInMs after which the next one begins; none: there is no next one.
   * @returns the error for a caller of `runOnce`
   */
  failed(error: unknown, retryInMs?: number): unknown
  /**
   * Changes how much may be in flight: batches in transactional mode, messages in leased mode.
   *
   * @returns how many runners that takes
   */
  resize(concurrency: number): number
  /**
   * Resolves when everything that a round has claimed is over. Returns whether anything was not when the last round began to
   * claim: that round may have looked before it was over.
   */
  drained(): Promise<boolean>
  /** Breaks off what the server has not answered yet. */
  cut(): void
}

/** Demand, to a round: what it wants, and what it is to hear. */
export interface RoundDemand {
  /** Aborts when nothing more is to be claimed. */
  readonly draining: AbortSignal
  /** Nothing is to be claimed now; what is in flight goes on. */
  readonly paused: boolean
  /** Aborts when what is in flight is to be given back. */
  readonly stopping: AbortSignal
  /** Whether a round is to end with the batch that it has in flight. */
  readonly isLast: boolean
  /** A claim is on its way: it sees all that was hinted at before. */
  sent(): void
  answered(): void
  /** Something was settled after its round: a message that waited for it may be claimed now. */
  opened(): void
  /** Messages of a settlement are due again in these times, in milliseconds. */
  due(inMs: readonly number[]): void
  /** A claim has found messages. */
  found(found: FoundMessages): void
}

export interface FoundMessages {
  /** As many as were asked for: there may be more. */
  readonly full: boolean
  /** For how long the youngest has been due. */
  readonly youngestMs: number
}

/** What a runner does next: each round says so when it ends. */
export type Next =
  /** At once; or it ends, or sleeps while it is paused, if that is why its round has ended. */
  | { readonly kind: 'claim' }
  /** The next batch must have the process for itself. */
  | { readonly kind: 'claim alone' }
  /** A claim has found nothing, or nothing may be claimed for now. */
  | Nothing

export const CLAIM = { kind: 'claim' } as const satisfies Next
export const CLAIM_ALONE = { kind: 'claim alone' } as const satisfies Next
