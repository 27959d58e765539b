import { checkId } from '../basics/check-id.ts'
import { checkKeys } from '../basics/check-keys.ts'
import { integer, LARGEST_INTEGER } from '../basics/options.ts'
import { expected } from '../errors.ts'
import type { QueueDefinitions, QueueName } from '../queues.ts'
import { checkOperatedQueue, type KnownNames } from '../streams.ts'
import {
  type CompletedMessage,
  type HistoryCursor,
  type HistoryPage,
  readCompleted,
  readHistory,
} from '../table/operate/history.ts'
import type { Operations } from './operations.ts'
import { limitOf, microsecondsOf, textOf } from './options.ts'

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
export class History<Definitions extends QueueDefinitions | undefined = undefined> {
  readonly #known: KnownNames
  readonly #operations: Operations

  constructor(known: KnownNames, operations: Operations) {
    this.#known = known
    this.#operations = operations
  }

  /**
   * Reads a page of the messages of a queue that have succeeded, the latest first. Empty unless the queue keeps its
   * history. With a filter other than the times it looks at no more than 10,000 messages, so the page can have fewer
   * messages than `limit`, or none, and still have a `next`.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { messages, next } = await sluice.operate.history.list({ queue: 'orders', type: 'order.paid' })
   */
  async list(options: HistoryOptions<QueueName<Definitions>>): Promise<HistoryPage> {
    const what = 'history.list'
    checkKeys(what, options, KEYS, `As in ${what}({ queue: 'emails' })`)
    const match = {
      queue: checkOperatedQueue(options.queue, this.#known),
      type: textOf(options.type, `${what}.type`) ?? null,
      orderingKey: textOf(options.orderingKey, `${what}.orderingKey`) ?? null,
      tenant: textOf(options.tenant, `${what}.tenant`) ?? null,
      worker: textOf(options.worker, `${what}.worker`) ?? null,
      minAttempts: integer(`${what}.minAttempts`, options.minAttempts, 1, 1, LARGEST_INTEGER),
      completedBeforeUs: microsecondsOf(options.completedBefore, `${what}.completedBefore`),
      completedAfterUs: microsecondsOf(options.completedAfter, `${what}.completedAfter`),
    }
    const page = {
      limit: limitOf(options.limit, `${what}.limit`, 50),
      after: options.after === undefined || options.after === null ? undefined : cursorOf(options.after),
    }
    return this.#operations.read((execute) => readHistory(execute, match, page))
  }

  /** One message that has succeeded; undefined if it is not in the history. @throws SluiceError as {@link Operate} */
  async get(queue: QueueName<Definitions>, id: string): Promise<CompletedMessage | undefined> {
    const name = checkOperatedQueue(queue, this.#known)
    checkId(id, 'id')
    return this.#operations.read((execute) => readCompleted(execute, name, id))
  }
}

const KEYS = [
  'queue',
  'type',
  'orderingKey',
  'tenant',
  'worker',
  'minAttempts',
  'completedBefore',
  'completedAfter',
  'limit',
  'after',
] as const

function cursorOf(after: unknown): HistoryCursor {
  const [, completedUs, id] = (typeof after === 'string' && /^(\d{1,18})\.(\d{1,19})$/.exec(after)) || []
  if (completedUs === undefined || id === undefined) {
    throw expected('OPTION_INVALID', 'history.list.after', 'the next of a page', after)
  }
  return { completedUs, id: checkId(id, 'history.list.after') }
}
