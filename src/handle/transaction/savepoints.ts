import { SluiceError } from '../../errors.ts'

/** How a library begins and ends a transaction. */
export type Verb = 'begin' | 'commit' | 'rollback'

/** What is sent in place of a verb, and what is called with its answer, or its error. */
export interface Step {
  readonly text: string
  readonly answered: (error?: unknown) => void
}

/** The savepoints of a handler's pool, by the client that has set each. They end in the opposite order. */
export class Savepoints {
  readonly #onViolation: (error: SluiceError) => void
  readonly #set = new Set<Savepoint>()
  #count = 0

  constructor(onViolation: (error: SluiceError) => void) {
    this.#onViolation = onViolation
  }

  /** @throws SluiceError TRANSACTION_CONTROL if it ends a transaction that is not the last one that has begun */
  stepFor(verb: Verb, of: object): Step {
    if (verb === 'begin') return this.#begin(of)
    const open = this.#open
    const last = open.at(-1)
    // The client refuses what ends no transaction of the pool's.
    if (!open.some((savepoint) => savepoint.of === of)) return { text: verb, answered: () => undefined }
    if (last?.of !== of) throw this.#overlap(`${verb.toUpperCase()} of an earlier one`)
    return verb === 'commit' ? this.#commit(last) : this.#rollBack(last)
  }

  /**
   * A statement of a client runs in the transaction that began last, and ends with it.
   *
   * @throws SluiceError TRANSACTION_CONTROL if that one is of another client
   */
  requireLast(of: object): void {
    const last = this.#open.at(-1)
    if (last !== undefined && last.of !== of) throw this.#overlap('a statement beside it')
  }

  /** @throws SluiceError TRANSACTION_CONTROL if a transaction has begun and not ended: half of it would be kept */
  requireEnded(): void {
    if (this.#open.length === 0) return
    const what = 'tx.pool: expected each transaction to have ended with the handler, received one that has not'
    throw new SluiceError('TRANSACTION_CONTROL', `${what}. Await it, and end it by COMMIT or ROLLBACK`)
  }

  get #open(): readonly Savepoint[] {
    return [...this.#set].filter(({ isEnding }) => !isEnding)
  }

  #begin(of: object): Step {
    this.#count += 1
    const savepoint = { name: `sluice_pool_${this.#count}`, of, isEnding: false }
    this.#set.add(savepoint)
    const answered = (error?: unknown) => {
      if (error) this.#set.delete(savepoint)
    }
    return { text: `SAVEPOINT ${savepoint.name}`, answered }
  }

  /** After an error that was swallowed the server refuses RELEASE, and the library rolls back: it is there until then. */
  #commit(savepoint: Savepoint): Step {
    savepoint.isEnding = true
    const answered = (error?: unknown) => {
      savepoint.isEnding = false
      if (!error) this.#set.delete(savepoint)
    }
    return { text: `RELEASE SAVEPOINT ${savepoint.name}`, answered }
  }

  #rollBack(savepoint: Savepoint): Step {
    this.#set.delete(savepoint)
    const { name } = savepoint
    return { text: `ROLLBACK TO SAVEPOINT ${name}; RELEASE SAVEPOINT ${name}`, answered: () => undefined }
  }

  #overlap(received: string): SluiceError {
    const what =
      'tx.pool: expected the transaction that began last to end first, ' +
      `received ${received}. It is one connection: run its transactions one after another`
    const error = new SluiceError('TRANSACTION_CONTROL', what)
    this.#onViolation(error)
    return error
  }
}

interface Savepoint {
  readonly name: string
  readonly of: object
  /** Its end has been sent, and not been answered. */
  isEnding: boolean
}
