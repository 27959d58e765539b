import { checkId } from '../../basics/checks/check-id.ts'
import { LARGEST_INTEGER } from '../../basics/checks/options.ts'
import type { QueueDefinitions, QueueName } from '../../queues.ts'
import {
  type CompletedMessage,
  type HistoryPage,
  readCompleted,
  readHistory,
} from '../../table/operate/messages/history.ts'
import type { Operations } from '../operations.ts'
import { count, cursorByTime, instant, limit, readFields, text } from '../options.ts'

/** What `history.list` takes: a queue, filters, and which page. */
export interface HistoryOptions<Name extends string = string> {
  /** The queue. */
  readonly queue: Name
  /** Only messages of this type. */
  readonly type?: string | undefined
  /** Only messages with this ordering key. */
  readonly orderingKey?: string | undefined
  /** Only messages of this tenant. */
  readonly tenant?: string | undefined
  /** Only messages that the worker with this name has handled. */
  readonly worker?: string | undefined
  /** Only those that took at least this many attempts. @default 1 */
  readonly minAttempts?: number | undefined
  /** Only those that completed before this instant, by the database's clock. */
  readonly completedBefore?: Date | undefined
  /** Only those that completed at this instant or later. */
  readonly completedAfter?: Date | undefined
  /** The most to return, 1 to 10,000. @default 50 */
  readonly limit?: number | undefined
  /** The `next` of the page before. Without it, or with null, the list begins with the latest. */
  readonly after?: string | null | undefined
}

/** `sluice.operate.history` */
export type History<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Reads a page of the messages of a queue that have succeeded, the latest first. Empty unless the queue keeps its
   * history. With a filter other than the times it looks at no more than 10,000 messages, so the page can have fewer
   * messages than `limit`, or none, and still have a `next`.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { messages, next } = await sluice.operate.history.list({ queue: 'orders', type: 'order.paid' })
   */
  list(options: HistoryOptions<QueueName<Definitions>>): Promise<HistoryPage>

  /** One message that has succeeded; undefined if it is not in the history. @throws SluiceError as {@link Operate} */
  get(queue: QueueName<Definitions>, id: string): Promise<CompletedMessage | undefined>
}

/** Answers the calls of {@link History}. */
export class HistoryInDatabase implements History {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async list(options: HistoryOptions): Promise<HistoryPage> {
    const readers = { queue: this.#operations.queue, ...FILTER }
    const search = readFields('history.list', options, readers, "As in history.list({ queue: 'emails' })")
    return this.#operations.read((execute) => readHistory(execute, search, search))
  }

  async get(queue: string, id: string): Promise<CompletedMessage | undefined> {
    const name = this.#operations.queue(queue)
    checkId(id, 'id')
    return this.#operations.read((execute) => readCompleted(execute, name, id))
  }
}

const FILTER = {
  type: text,
  orderingKey: text,
  tenant: text,
  worker: text,
  minAttempts: count(1, 1, LARGEST_INTEGER),
  completedBefore: instant,
  completedAfter: instant,
  limit: limit(50),
  after: cursorByTime(0),
}
