/**
 * How a mode claims messages, has them handled, and settles them. {@link Demand} decides when; it knows no SQL, and a
 * round knows nothing of places, sleep and backoff.
 */
export interface Round {
  /**
   * Claims and handles batch after batch, until a claim finds nothing, `demand` ends, or the next batch needs the process
   * for itself.
   *
   * @throws if it got no further; {@link failed} is told of it.
   */
  run(demand: RoundDemand, options: RoundOptions): Promise<Ran>
  /**
   * Reports that a round failed.
   *
   * @param retryInMs after which the next one begins; none: there is no next one.
   * @returns what to tell a caller of it
   */
  failed(error: unknown, retryInMs?: number): unknown
  /**
   * Changes how much may be in flight: batches in transactional mode, messages in leased mode.
   *
   * @returns how many places that takes
   */
  resize(concurrency: number): number
  /**
   * Resolves when nothing that a round has claimed is in hand. Returns whether anything was when the last round began to
   * claim: that round may have looked before it was settled.
   */
  settled(): Promise<boolean>
  /** Breaks off what the server has not answered yet. */
  cut(): void
}

export interface RoundOptions {
  /** While the process has nothing else in flight. */
  readonly alone: boolean
  /** A batch is settled. A queue that is never empty has rounds that never end. */
  readonly onCommitted: () => void
}

/** Demand, to a round: what it wants, and what it is to hear. */
export interface RoundDemand {
  /** Aborts when nothing more is to be claimed. */
  readonly draining: AbortSignal
  /** Nothing is to be claimed now; what is in flight goes on. */
  readonly paused: boolean
  /** Aborts when what is in flight is to be given back. */
  readonly stopping: AbortSignal
  /** Whether a round is to end with the batch that it has in hand. */
  readonly isLast: boolean
  /** A claim is on its way: it sees all that was hinted at before. */
  sent(): void
  answered(): void
  /** Something was settled after its round: a message that waited for it may be claimed now. */
  opened(): void
  /** Messages of a settlement are due again in so many milliseconds. */
  due(inMs: readonly number[]): void
  /** A claim has found messages. */
  found(found: Found): void
}

export interface Found {
  /** As many as were asked for: there may be more. */
  readonly full: boolean
  /** For how long the youngest has been due. */
  readonly youngestMs: number
}

/** How a round ended. */
export type Ran =
  | {
      readonly kind: 'nothing'
      /** When something may be due; null: nothing is waiting. */
      readonly nextDueMs: number | null
      /** It has not seen everything: another one may find something now. */
      readonly partial: boolean
    }
  | { readonly kind: 'more' }
  /** The next one must have the process for itself. */
  | { readonly kind: 'alone' }
  /** It was told to end. */
  | { readonly kind: 'ended' }

export const MORE = { kind: 'more' } as const satisfies Ran
export const ALONE = { kind: 'alone' } as const satisfies Ran
export const ENDED = { kind: 'ended' } as const satisfies Ran
