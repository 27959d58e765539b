import { LARGEST_INTEGER } from '../basics/checks/options.ts'
import type { Headers, Message } from '../message.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import type { Evidence, LostTry } from '../table/worker/evidence.ts'
import { HandedMessage } from './handed-message.ts'

/**
 * A claimed row in a pipeline, with the evidence about it. JSON is parsed when it is read, because many handlers need
 * only a part.
 */
export class DeliveredMessage {
  readonly row: ClaimedRow
  readonly queue: string
  #evidence: Evidence | undefined
  #payload: unknown
  #parsed = false
  #headers: Headers | undefined
  #handed: Message | undefined

  constructor(queue: string, row: ClaimedRow, evidence?: Evidence) {
    this.queue = queue
    this.row = row
    this.#evidence = evidence
  }

  get evidence(): Evidence | undefined {
    return this.#evidence
  }

  /** Evidence about the message, found before its handler begins. */
  suspect(evidence: Evidence): void {
    this.#evidence = evidence
  }

  /**
   * Each process that died with it in flight counts as an attempt. If an attempt was lost and is not settled yet, this is that
   * attempt again.
   */
  get attempt(): number {
    const attempt = this.lostTry?.attempt ?? this.row.attempt + (this.#evidence?.crashes ?? 0) + 1
    // An INSERT by hand may have any number, and one more must fit the column.
    return Math.min(attempt, LARGEST_INTEGER)
  }

  /** What handlers and callers get: a plain object, apart from this. */
  get handed(): Message {
    this.#handed ??= new HandedMessage(this)
    return this.#handed
  }

  /** The attempt that was lost and that has not been settled since. */
  get lostTry(): LostTry | undefined {
    const lost = this.evidence?.lostTry
    return lost !== undefined && lost.attempt > this.row.attempt ? lost : undefined
  }

  get id(): string {
    return this.row.id
  }

  get orderingKey(): string | null {
    return this.row.orderingKey
  }

  /** Its dedupe key stays taken for a time after it has succeeded. */
  get keepsKey(): boolean {
    return this.row.options !== null && this.row.options.dedupeMs !== null
  }

  get maxAttempts(): number | null {
    return this.row.maxAttempts
  }

  get payload(): unknown {
    if (!this.#parsed) this.accept(JSON.parse(this.row.payload))
    return this.#payload
  }

  get headers(): Headers {
    this.#headers ??= JSON.parse(this.row.headers) as Headers
    return this.#headers
  }

  /** Makes it new, as if no handler had had it: it is handed out and parsed anew, and not validated. */
  reset(): void {
    this.#parsed = false
    this.#headers = undefined
    this.#handed = undefined
  }

  /** Replaces the payload by its schema's output. */
  accept(payload: unknown): void {
    this.#payload = payload
    this.#parsed = true
  }
}
