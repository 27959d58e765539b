import { checkId } from '../basics/check-id.ts'
import { checkKeys } from '../basics/check-keys.ts'
import type { ClaimStore } from '../pull/claim-store.ts'
import { checkQueueName, type QueueDefinitions, type QueueName } from '../queues.ts'
import { readClockUs } from '../table/operate/instants.ts'
import { type MessagePage, readMessagePage } from '../table/operate/message-pages.ts'
import { type MessageStatus, peekMessages, readMessageStatus } from '../table/operate/message-status.ts'
import { type QueueStatus, readQueueNames, readQueues } from '../table/operate/queue-status.ts'
import { type InFlightMessage, readInFlight, readWorkers, type WorkerStatus } from '../table/operate/worker-status.ts'
import { Claims } from './claims.ts'
import { DeadLetters } from './dead-letters.ts'
import { Operations, type OperationsOptions } from './operations.ts'
import { limitOf } from './options.ts'
import { type MessagesOptions, readMessagesOptions } from './read-messages-options.ts'

/** `sluice.operate`: look at queues, messages and workers, and act on claims and dead letters. Starts no worker. */
export class Operate<Definitions extends QueueDefinitions | undefined = undefined> {
  /** Messages that are not tried again: list, show, redrive and delete them. */
  readonly deadLetters: DeadLetters<Definitions>
  /** Claims by their numbers: list, show, renew, release and settle them. */
  readonly claims: Claims<Definitions>
  readonly #definitions: QueueDefinitions | undefined
  readonly #operations: Operations

  constructor(definitions: QueueDefinitions | undefined, options: OperationsOptions, claims: ClaimStore) {
    this.#definitions = definitions
    this.#operations = new Operations(options)
    this.deadLetters = new DeadLetters(definitions, this.#operations)
    this.claims = new Claims(definitions, this.#operations, claims)
  }

  /**
   * What waits, runs and fails in each queue, by name. The counts are exact: about 0.4 s for a million messages and
   * dead letters.
   *
   * @param options.queue only this queue; the list is empty if the queue is.
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID, SCHEMA_MISSING, SCHEMA_TOO_OLD,
   * SCHEMA_TOO_NEW, PRIVILEGE_MISSING, UNREACHABLE, STOPPED
   */
  async queues(options: { readonly queue?: QueueName<Definitions> } = {}): Promise<readonly QueueStatus[]> {
    checkKeys('queues', options, ['queue'], "As in queues({ queue: 'emails' })")
    const queue = this.#nameOrNull(options.queue)
    return this.#operations.count((execute) => readQueues(execute, queue))
  }

  /**
   * The names of all queues that have messages, dead letters or workers. Counts nothing.
   *
   * @throws SluiceError as {@link queues}
   */
  async queueNames(): Promise<readonly string[]> {
    return this.#operations.read(readQueueNames)
  }

  /**
   * A page of the messages of a queue that are not dead, in the order of their ids. With a filter it looks at no more
   * than 10,000 messages, so the page can have fewer messages than `limit`, or none, and still have a `next`.
   *
   * @throws SluiceError as {@link queues}
   *
   * @example const { messages, next } = await sluice.operate.messages({ queue: 'orders', state: 'retrying' })
   */
  async messages(options: MessagesOptions<QueueName<Definitions>>): Promise<MessagePage> {
    const { filter, place } = readMessagesOptions(options, this.#definitions)
    return this.#operations.read((execute) => readMessagePage(execute, filter, place))
  }

  /** One message that is not dead; undefined if there is none. @throws SluiceError as {@link queues} */
  async message(queue: QueueName<Definitions>, id: string): Promise<MessageStatus | undefined> {
    const name = checkQueueName(queue, this.#definitions)
    checkId(id, 'id')
    return this.#operations.read((execute) => readMessageStatus(execute, name, id))
  }

  /**
   * The next messages of a queue in the order in which they fall due, without claiming them. Priorities and keys may
   * change the order in which they are handled; with more than about 25,000 keyed messages it may miss some.
   *
   * @param options.limit 1 to 10,000. @default 10
   * @throws SluiceError as {@link queues}
   */
  async peek(
    queue: QueueName<Definitions>,
    options: { readonly limit?: number } = {},
  ): Promise<readonly MessageStatus[]> {
    const name = checkQueueName(queue, this.#definitions)
    checkKeys('peek', options, ['limit'], "As in peek('emails', { limit: 5 })")
    const limit = limitOf(options.limit, 'peek.limit', 10)
    return this.#operations.read((execute) => peekMessages(execute, name, limit))
  }

  /**
   * What workers and claims have in hand, the longest-running first.
   *
   * @param options.queue only of this queue.
   * @param options.limit 1 to 10,000. @default 100
   * @throws SluiceError as {@link queues}
   */
  async inFlight(
    options: { readonly queue?: QueueName<Definitions>; readonly limit?: number } = {},
  ): Promise<readonly InFlightMessage[]> {
    checkKeys('inFlight', options, ['queue', 'limit'], "As in inFlight({ queue: 'emails' })")
    const queue = this.#nameOrNull(options.queue)
    const limit = limitOf(options.limit, 'inFlight.limit', 100)
    return this.#operations.count((execute) => readInFlight(execute, queue, limit))
  }

  /**
   * Worker processes in the order in which they started. A worker that vanished is listed until another one has
   * noticed.
   *
   * @param options.queue only those that consume this queue.
   * @throws SluiceError as {@link queues}
   */
  async workers(options: { readonly queue?: QueueName<Definitions> } = {}): Promise<readonly WorkerStatus[]> {
    checkKeys('workers', options, ['queue'], "As in workers({ queue: 'emails' })")
    const queue = this.#nameOrNull(options.queue)
    return this.#operations.count((execute) => readWorkers(execute, queue))
  }

  /** The time of the database's clock, in whole milliseconds. @throws SluiceError as {@link queues} */
  async now(): Promise<Date> {
    const us = await this.#operations.read(readClockUs)
    return new Date(Math.floor(us / 1_000))
  }

  #nameOrNull(queue: string | undefined): string | null {
    return queue === undefined ? null : checkQueueName(queue, this.#definitions)
  }
}
