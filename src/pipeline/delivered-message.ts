import type { Headers, Message } from '../message.ts'
import type { ClaimedRow } from '../table/claim.ts'
import type { Evidence, LostTry } from '../table/evidence.ts'

const LARGEST_INTEGER = 2_147_483_647

/** A claimed row as a {@link Message}. JSON is parsed when it is read, because many handlers need only a part. */
export class DeliveredMessage implements Message {
  readonly row: ClaimedRow
  readonly queue: string
  readonly attempt: number
  readonly evidence: Evidence | undefined
  #payload: unknown
  #parsed = false
  #headers: Headers | undefined

  /**
   * `evidence`: what is held against it. Processes that died count as attempts; a try whose loss is not yet settled is the
   * one that this is.
   */
  constructor(queue: string, row: ClaimedRow, evidence?: Evidence) {
    this.queue = queue
    this.row = row
    this.evidence = evidence
    // An INSERT by hand may say any number, and one more must fit the columns.
    this.attempt = Math.min(this.lostTry?.attempt ?? row.attempt + (evidence?.crashes ?? 0) + 1, LARGEST_INTEGER)
  }

  /** The try that was lost, and that nobody has settled since. */
  get lostTry(): LostTry | undefined {
    const lost = this.evidence?.lostTry
    return lost !== undefined && lost.attempt > this.row.attempt ? lost : undefined
  }

  get id(): string {
    return this.row.id
  }

  get type(): string | null {
    return this.row.type
  }

  get schemaVersion(): number {
    return this.row.schemaVersion
  }

  get payload(): unknown {
    if (!this.#parsed) this.accept(JSON.parse(this.row.payload))
    return this.#payload
  }

  get headers(): Headers {
    this.#headers ??= JSON.parse(this.row.headers) as Headers
    return this.#headers
  }

  get orderingKey(): string | null {
    return this.row.orderingKey
  }

  get priority(): number {
    return this.row.priority
  }

  get maxAttempts(): number | null {
    return this.row.maxAttempts
  }

  get enqueuedAt(): Date {
    return new Date(this.row.enqueuedUs / 1_000)
  }

  get dueAt(): Date {
    return new Date(this.row.dueUs / 1_000)
  }

  /** Replaces the payload by its schema's output. */
  accept(payload: unknown): void {
    this.#payload = payload
    this.#parsed = true
  }

  toJSON(): Record<string, unknown> {
    const { id, queue, type, schemaVersion, payload, headers, orderingKey, priority, attempt, maxAttempts } = this
    const { enqueuedAt, dueAt } = this
    return {
      id,
      queue,
      type,
      schemaVersion,
      payload,
      headers,
      orderingKey,
      priority,
      attempt,
      maxAttempts,
      enqueuedAt,
      dueAt,
    }
  }
}
