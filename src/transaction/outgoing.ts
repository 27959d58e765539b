import type pg from 'pg'
import { codeOf, stateSays } from '../basics/errors/sql-state.ts'
import { sendUnread } from '../connection/unread-query.ts'

/**
 * What is sent on a batch's connection, and what the server owes in return. Nothing waits for the answers of some queries:
 * if one fails, the transaction is aborted, and the statement that follows fails with that error as its cause.
 */
export class Outgoing {
  readonly #client: pg.ClientBase
  #unanswered = 0
  #waitsSinceMs = 0
  #queries = new Queries()
  #held: string | undefined
  #sendsHeld: NodeJS.Immediate | undefined

  constructor(client: pg.ClientBase) {
    this.#client = client
  }

  /** Since when the server owes an answer, on the clock of `performance`; undefined: it has answered all of ours. */
  get waitsSinceMs(): number | undefined {
    return this.#unanswered > 0 ? this.#waitsSinceMs : undefined
  }

  /** Sends what {@link sendSoon} holds, then whatever `send` sends, which is counted as owed an answer. */
  awaited<T>(send: () => Promise<T>): Promise<T> {
    this.#sendHeld()
    return this.#counted(send())
  }

  /** Sends a query, with what is held before it. */
  send(text: string): void {
    const held = this.dropHeld()
    const queries = this.#queries
    const answered = this.#owed()
    sendUnread(this.#client, held === undefined ? text : `${held}; ${text}`, (error) => {
      answered()
      if (error) queries.failed(error)
    })
  }

  /** Sends a query with the next one, or by itself when the process has nothing else to do at this moment. */
  sendSoon(text: string): void {
    this.#held = this.#held === undefined ? text : `${this.#held}; ${text}`
    this.#sendsHeld ??= setImmediate(() => this.#sendHeld())
  }

  /** Takes back what has not been sent yet. */
  dropHeld(): string | undefined {
    const held = this.#held
    clearImmediate(this.#sendsHeld)
    this.#held = undefined
    this.#sendsHeld = undefined
    return held
  }

  /** A transaction begins. Queries that were sent before are not the reason if something fails in it. */
  begun(): void {
    this.#queries = new Queries()
  }

  /** The queries of the transaction in which the next statement is sent. */
  get queries(): Queries {
    return this.#queries
  }

  #sendHeld(): void {
    const held = this.dropHeld()
    if (held !== undefined) this.send(held)
  }

  #counted<T>(answer: Promise<T>): Promise<T> {
    const answered = this.#owed()
    answer.then(answered, answered)
    return answer
  }

  /** The server owes an answer. Returns what to call when it is there: where a library has wrapped the client, perhaps twice. */
  #owed(): () => void {
    if (this.#unanswered === 0) this.#waitsSinceMs = performance.now()
    this.#unanswered += 1
    let isThere = false
    return () => {
      if (isThere) return
      isThere = true
      this.#unanswered -= 1
      this.#waitsSinceMs = performance.now()
    }
  }
}

/** The queries of one transaction whose answers are not waited for. The next may begin before they are answered. */
class Queries {
  #error: unknown

  /** The first error of one of them. */
  get error(): unknown {
    return this.#error
  }

  failed(error: unknown): void {
    this.#error ??= error
  }

  /** Why a statement failed: a query before it did, if this error says no more than that. */
  causeOf(error: unknown): unknown {
    return stateSays('ofEarlierError', codeOf(error)) ? (this.#error ?? error) : error
  }
}
