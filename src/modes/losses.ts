import type { Report } from '../telemetry/events.ts'
import { BatchLost, toReport } from './session-error.ts'
import type { TransactionalBatch } from './transactional-batch.ts'

/** The batches of a pipeline whose transactions were lost, and what is told of these and of claims that failed. */
export class Losses {
  readonly #queue: string
  readonly #report: Report
  /** Since the last batch that was settled. */
  #count = 0

  constructor(queue: string, report: Report) {
    this.#queue = queue
    this.#report = report
  }

  settled(): void {
    this.#count = 0
  }

  /**
   * Resolves where it helps to claim again at once: a failed attempt is written, or the messages will run alone. What is
   * written must be seen by the next claim, and an odd operator or policy may hide it, so that does not go on for ever.
   *
   * @throws BatchLost
   */
  async lost(batch: Pick<TransactionalBatch, 'lost'>, messages: number, error: unknown): Promise<void> {
    const countedAs = await batch.lost(error)
    this.#count = countedAs === 'failed attempt' ? 0 : this.#count + 1
    const lost = new BatchLost(error, messages)
    if (countedAs === 'nothing' || this.#count > MOST_LOSSES) throw lost
    this.report(lost)
  }

  /** @param retryInMs after which the next round begins; none: at once, or never. */
  report(error: unknown, retryInMs?: number): void {
    const queue = this.#queue
    if (error instanceof BatchLost) {
      const { messages, cause } = error
      const after = retryInMs === undefined ? {} : { retryInMs }
      this.#report({ kind: 'batch.released', queue, messages, error: toReport(cause), ...after })
    } else if (retryInMs !== undefined) this.#report({ kind: 'claim.failed', queue, error: toReport(error), retryInMs })
  }
}

const MOST_LOSSES = 8
