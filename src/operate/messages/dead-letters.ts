import { checkId } from '../../basics/checks/check-id.ts'
import { checkKeys } from '../../basics/checks/check-keys.ts'
import type { Given } from '../../basics/given.ts'
import type { OpenTransaction } from '../../enqueue/open-transaction.ts'
import { SluiceError } from '../../errors.ts'
import type { QueueDefinitions, QueueName } from '../../queues.ts'
import { deleteDeadLetters, redriveDeadLetters } from '../../table/operate/messages/change-dead-letters.ts'
import {
  type DeadLetter,
  type DeadLetterMatch,
  type DeadLetterPage,
  type DeadLetterSummary,
  type ListedDeadLetter,
  listDeadLetters,
  listDeadLettersWithoutPayloads,
  readDeadLetter,
  summariseDeadLetters,
} from '../../table/operate/messages/dead-letters.ts'
import type { Operations } from '../operations.ts'
import { cursorByTime, ids, instant, limit, readFields, refuseUndefined, text, unchecked } from '../options.ts'

/** Chooses dead letters: those that match everything given. */
export interface DeadLetterFilter<Name extends string = string> {
  /** Only of this queue. Default: of all. */
  readonly queue?: Name | undefined
  /** Only these messages. */
  readonly ids?: readonly string[] | undefined
  /** Only of this type. */
  readonly type?: string | undefined
  /** Only of this tenant. */
  readonly tenant?: string | undefined
  /** Only those that died before this instant, by the database's clock. */
  readonly diedBefore?: Date | undefined
  /** Only those that died at this instant or later. */
  readonly diedAfter?: Date | undefined
  /** Only those whose reason contains this string, in any case. */
  readonly reason?: string | undefined
  /** Only those whose error contains this string, in any case: 'PaymentError', for example. */
  readonly error?: string | undefined
}

/** What `deadLetters.list` takes. */
export interface DeadLettersOptions<Name extends string = string> extends DeadLetterFilter<Name> {
  /** How many, 1 to 10,000. @default 50 */
  readonly limit?: number | undefined
  /** The `next` of the page before. Without it, or with null, the list begins with the latest. */
  readonly after?: string | null | undefined
}

/**
 * Which dead letters to change: those of one queue, or, with `allQueues: true`, of all. A filter that is there and undefined is
 * refused, because without it more of them match.
 */
export type DeadLetterChoice<Name extends string = string> =
  | (Given<Omit<DeadLetterFilter, 'queue'>> & { readonly queue: Name; readonly allQueues?: undefined })
  | (Given<Omit<DeadLetterFilter, 'queue'>> & { readonly queue?: undefined; readonly allQueues: true })

/** How to change dead letters. */
export interface DeadLetterChangeOptions {
  /** Your open transaction, of any client that `enqueue` takes. Default: one of Sluice's own. */
  readonly tx?: OpenTransaction | undefined
}

/** `sluice.operate.deadLetters` */
export type DeadLetters<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Reads a page of dead letters, the latest first.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { deadLetters, next } = await sluice.operate.deadLetters.list({ queue: 'orders', error: 'Timeout' })
   */
  list(options?: DeadLettersOptions<QueueName<Definitions>>): Promise<DeadLetterPage>

  /**
   * The same as {@link list} without payloads and headers: a page of large messages costs no more than one of small ones.
   *
   * @throws SluiceError as {@link Operate}
   */
  listWithoutPayloads(options?: DeadLettersOptions<QueueName<Definitions>>): Promise<DeadLetterPage<ListedDeadLetter>>

  /** One dead letter; undefined if there is none. @throws SluiceError as {@link Operate} */
  get(queue: QueueName<Definitions>, id: string): Promise<DeadLetter | undefined>

  /**
   * Counts the dead letters that match, and the largest groups with the same queue, type, reason and error. The counts
   * are exact. Errors that differ only in digits, such as ids, count as one.
   *
   * @throws SluiceError as {@link Operate}
   */
  summarise(filter?: DeadLetterFilter<QueueName<Definitions>>): Promise<DeadLetterSummary>

  /**
   * Puts dead letters back into their queues: due now, with the same ids, their attempts counted from zero.
   *
   * @returns how many.
   * @throws SluiceError as {@link Operate}, and ROWS_MISSING
   *
   * @example await sluice.operate.deadLetters.redrive({ queue: 'orders', error: 'ECONNREFUSED' })
   */
  redrive(choice: DeadLetterChoice<QueueName<Definitions>>, options?: DeadLetterChangeOptions): Promise<number>

  /**
   * Deletes dead letters for good.
   *
   * @returns how many.
   * @throws SluiceError as {@link redrive}
   *
   * @example await sluice.operate.deadLetters.delete({ allQueues: true, diedBefore: new Date('2026-01-01') })
   */
  delete(choice: DeadLetterChoice<QueueName<Definitions>>, options?: DeadLetterChangeOptions): Promise<number>
}

/** Answers the calls of {@link DeadLetters}. */
export class DeadLettersInDatabase implements DeadLetters {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async list(options: DeadLettersOptions = {}): Promise<DeadLetterPage> {
    const search = this.#search('deadLetters.list', options)
    const { deadLetters, next } = await this.#operations.read((execute) => listDeadLetters(execute, search, search))
    return { deadLetters, next: next && `${next.us}.${next.id}` }
  }

  async listWithoutPayloads(options: DeadLettersOptions = {}): Promise<DeadLetterPage<ListedDeadLetter>> {
    const search = this.#search('deadLetters.listWithoutPayloads', options)
    const { deadLetters, next } = await this.#operations.read((execute) =>
      listDeadLettersWithoutPayloads(execute, search, search),
    )
    return { deadLetters, next: next && `${next.us}.${next.id}` }
  }

  async get(queue: string, id: string): Promise<DeadLetter | undefined> {
    const name = this.#operations.queue(queue)
    checkId(id, 'id')
    return this.#operations.read((execute) => readDeadLetter(execute, name, id))
  }

  async summarise(filter: DeadLetterFilter = {}): Promise<DeadLetterSummary> {
    const what = 'deadLetters.summarise'
    const match = readFields(what, filter, this.#filter, `As in ${what}({ queue: 'emails' })`)
    return this.#operations.count((execute) => summariseDeadLetters(execute, match))
  }

  async redrive(choice: DeadLetterChoice, options: DeadLetterChangeOptions = {}): Promise<number> {
    const match = this.#choice(choice, options, 'deadLetters.redrive')
    return this.#operations.change((execute) => redriveDeadLetters(execute, match), options.tx)
  }

  async delete(choice: DeadLetterChoice, options: DeadLetterChangeOptions = {}): Promise<number> {
    const match = this.#choice(choice, options, 'deadLetters.delete')
    return this.#operations.administer((execute) => deleteDeadLetters(execute, match), options.tx)
  }

  get #filter() {
    return { queue: this.#operations.queueOrNull, ...FILTER }
  }

  #search(what: string, options: DeadLettersOptions) {
    const readers = { ...this.#filter, limit: limit(50), after: cursorByTime(EARLIEST_US) }
    return readFields(what, options, readers, `As in ${what}({ queue: 'emails' })`)
  }

  #choice(choice: DeadLetterChoice, options: DeadLetterChangeOptions, what: string): DeadLetterMatch {
    const readers = { ...this.#filter, allQueues: unchecked }
    const { allQueues, ...match } = readFields(what, choice, readers, `As in ${what}({ queue: 'emails' })`)
    refuseUndefined(what, choice, Object.keys(FILTER))
    checkKeys(what, options, ['tx'])
    if ((match.queue === null) === (allQueues === true)) return match
    const received = match.queue === null ? 'neither' : 'both'
    throw new SluiceError('OPTION_INVALID', `${what}: expected either a queue or allQueues: true, received ${received}`)
  }
}

const FILTER = {
  ids,
  type: text,
  tenant: text,
  diedBefore: instant,
  diedAfter: instant,
  reason: text,
  error: text,
}

/** The server has no time before the year 4714 BC. */
const EARLIEST_US = -210_866_803_200_000_000
