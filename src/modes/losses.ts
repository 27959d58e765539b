import pg from 'pg'
import { orPrivilegeMissing } from '../connection/privilege.ts'
import { unreachable } from '../connection/unreachable.ts'
import { isSluiceError, SluiceError, toError } from '../errors.ts'
import type { Report } from '../telemetry/events.ts'
import type { TransactionalBatch } from './transactional/transactional-batch.ts'

/** Counts and reports the batches of a pipeline whose transactions were lost, and reports claims that failed. */
export class Losses {
  readonly #queue: string
  readonly #report: Report
  /** Since the last batch that was settled. */
  #count = 0
  /** What the group of the pipeline has lost, as it was reported: until it is moved, each claim fails alike. */
  #lostEvents: string | undefined

  constructor(queue: string, report: Report) {
    this.#queue = queue
    this.#report = report
  }

  settled(): void {
    this.#count = 0
  }

  /** A claim has succeeded, whether or not it found something: a group that had lost events has been moved. */
  claimed(): void {
    this.#lostEvents = undefined
  }

  /**
   * Resolves if it helps to claim again at once: a failed attempt is written, or the messages will run alone. The next
   * claim must see what is written. An odd operator or policy may hide it, so this ends after {@link MOST_LOSSES}.
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
    } else if (isSluiceError(error, 'GROUP_LOST_EVENTS')) {
      if (error.message !== this.#lostEvents) this.#report({ kind: 'group.lostEvents', queue, error })
      this.#lostEvents = error.message
    } else if (retryInMs !== undefined) {
      this.#report({ kind: 'claim.failed', queue, error: toReport(error), retryInMs })
    }
  }
}

/** The error of a failed round for a caller: one of ours or of the server, or that the server was out of reach. */
export function reasonFor(thrown: unknown): unknown {
  const error = thrown instanceof BatchLost ? thrown.cause : thrown
  return error instanceof SluiceError || error instanceof pg.DatabaseError
    ? orPrivilegeMissing(error)
    : unreachable(error)
}

/** The transaction of a batch was lost, and only time helps. */
class BatchLost extends Error {
  readonly messages: number

  constructor(cause: unknown, messages: number) {
    super('The transaction of a batch was lost', { cause })
    this.messages = messages
  }
}

/** As an event says it. */
export function toReport(error: unknown): Error {
  return toError(orPrivilegeMissing(error))
}

const MOST_LOSSES = 8
