import type { SluiceError } from '../../errors.ts'

/** Of a claim, a batch, and what settles messages. */
export type BatchEvent =
  /** A claim failed. The next one follows after `retryInMs`. */
  | { readonly kind: 'claim.failed'; readonly queue: string; readonly error: Error; readonly retryInMs: number }
  /**
   * Retention, or a trim, removed events before a group had read them; the `error` gives the positions. The group reads
   * nothing until it is moved. Each of its pipelines reports it once.
   */
  | { readonly kind: 'group.lostEvents'; readonly queue: string; readonly error: SluiceError }
  /** A batch was claimed. `oldestDueMs`: how long its oldest message had been due. */
  | { readonly kind: 'batch.claimed'; readonly queue: string; readonly messages: number; readonly oldestDueMs: number }
  /** A batch was committed: how many of its messages were settled in which way, and how long it took from its claim. */
  | {
      readonly kind: 'batch.committed'
      readonly queue: string
      readonly acked: number
      readonly retried: number
      readonly snoozed: number
      readonly dead: number
      readonly durationMs: number
    }
  /**
   * The messages of a batch are available again: without an `error`, because the pipeline was stopped before any of
   * them was handled, or a relay's destination took none of them; with an `error`, because the transaction was lost. If the loss counts as the failed attempt of a
   * message that ran alone, `message.failed` or `message.dead` is reported first. If the database or the network may be
   * the reason, the next claim waits for `retryInMs`.
   */
  | {
      readonly kind: 'batch.released'
      readonly queue: string
      readonly messages: number
      readonly error?: Error
      readonly retryInMs?: number
    }
  /**
   * `handleBatch` failed for several messages at once. Each is now handled alone, so that only the one to blame fails.
   * If none fails, only this event tells of the error. `error` and `cause` are as in `message.failed`.
   */
  | {
      readonly kind: 'batch.failed'
      readonly queue: string
      readonly messages: number
      readonly error: string
      readonly cause?: Error
    }
  /** Leased mode: settlements or renewals could not be written, and are tried again after `retryInMs`. */
  | { readonly kind: 'settlement.failed'; readonly queue: string; readonly error: Error; readonly retryInMs: number }
