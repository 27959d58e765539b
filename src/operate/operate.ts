import { checkId } from '../basics/check-id.ts'
import { checkKeys } from '../basics/check-keys.ts'
import type { ClaimStore } from '../pull/claim-store.ts'
import type { InputOf, QueueDefinitions } from '../queues.ts'
import { type MaintenanceResult, maintain } from '../services/maintain.ts'
import {
  checkOperatedQueue,
  type KnownNames,
  type OperatedName,
  type StreamDefinitions,
  type WithGroupQueues,
} from '../streams.ts'
import { beginPass } from '../table/maintain/tasks.ts'
import type { CancelAnswer, ChangeAnswer, FreedKey } from '../table/operate/change-message.ts'
import { readClockUs } from '../table/operate/instants.ts'
import { type KnownMessage, readKnownMessage } from '../table/operate/known-message.ts'
import { type LimitStatus, readLimits } from '../table/operate/limit-status.ts'
import { type MessagePage, readMessagePage } from '../table/operate/message-pages.ts'
import { type MessageStatus, peekMessages, readMessageStatus } from '../table/operate/message-status.ts'
import { pauseQueue, resumeQueue } from '../table/operate/queue-settings.ts'
import { type QueueStatus, readQueueNames, readQueues } from '../table/operate/queue-status.ts'
import { type InFlightMessage, readInFlight, readWorkers, type WorkerStatus } from '../table/operate/worker-status.ts'
import { Claims } from './claims.ts'
import { DeadLetters } from './dead-letters.ts'
import { History } from './history.ts'
import {
  type ClearFilter,
  type FreeKeysOptions,
  type MessageChangeOptions,
  MessageChanger,
  type MessageChanges,
  type NewDueTime,
} from './message-changes.ts'
import { Operations, type OperationsOptions } from './operations.ts'
import { limitOf, textOf } from './options.ts'
import { byOf, type QueueChangeOptions, QueueSettings } from './queue-settings.ts'
import { type MessagesOptions, readMessagesOptions } from './read-messages-options.ts'
import { type ScheduleRules, Schedules } from './schedules.ts'
import { StreamOperations } from './streams.ts'
import { readWhich, type WhichMessage } from './which-message.ts'

/** What streams have to keep to. */
interface StreamRules {
  readonly streams: StreamDefinitions | undefined
}

/** `sluice.operate`: look at queues, messages and workers, and act on claims and dead letters. Starts no worker. */
export class Operate<
  Definitions extends QueueDefinitions | undefined = undefined,
  Streams extends StreamDefinitions | undefined = undefined,
> {
  /** Messages that are not tried again: list, show, redrive and delete them. */
  readonly deadLetters: DeadLetters<WithGroupQueues<Definitions, Streams>>
  /** Claims by their numbers: list, show, renew, release and settle them. */
  readonly claims: Claims<WithGroupQueues<Definitions, Streams>>
  /** Messages that have succeeded, of queues that keep their history: list and show them. */
  readonly history: History<WithGroupQueues<Definitions, Streams>>
  /** Schedules: define, list, show, pause, resume, run and remove them. */
  readonly schedules: Schedules<Definitions>
  /** Streams and their groups: make, change, list, read, move, pause, trim and delete them. */
  readonly streams: StreamOperations<Streams>
  /** What queues are told while they run: list, set and unset it. */
  readonly settings: QueueSettings<WithGroupQueues<Definitions, Streams>>
  readonly #known: KnownNames
  readonly #operations: Operations
  readonly #changer: MessageChanger

  constructor(rules: ScheduleRules & StreamRules, options: OperationsOptions, claims: ClaimStore) {
    this.#known = rules
    this.#operations = new Operations(options)
    this.#changer = new MessageChanger(rules, this.#operations)
    this.deadLetters = new DeadLetters(rules, this.#operations)
    this.claims = new Claims(rules, this.#operations, claims)
    this.history = new History(rules, this.#operations)
    this.schedules = new Schedules(rules, this.#operations)
    this.streams = new StreamOperations(rules.streams, this.#operations)
    this.settings = new QueueSettings(rules, this.#operations)
  }

  /**
   * What waits, runs and fails in each queue, by name. The counts are exact: about 0.4 s for a million messages and
   * dead letters.
   *
   * @param options.queue only this queue; the list is empty if the queue is.
   * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID, SCHEMA_MISSING, SCHEMA_TOO_OLD,
   * SCHEMA_TOO_NEW, PRIVILEGE_MISSING, UNREACHABLE, STOPPED
   */
  async queues(options: { readonly queue?: OperatedName<Definitions, Streams> } = {}): Promise<readonly QueueStatus[]> {
    checkKeys('queues', options, ['queue'], "As in queues({ queue: 'emails' })")
    const queue = this.#nameOrNull(options.queue)
    return this.#operations.count((execute) => readQueues(execute, queue))
  }

  /**
   * What limits allow, and what is used of them: of each queue that has limits, and of each tenant of it that has messages. It
   * counts the messages of these queues.
   *
   * @param options.queue only this queue.
   * @throws SluiceError as {@link queues}
   *
   * @example const waiting = (await sluice.operate.limits({ queue: 'emails' })).filter(({ ready }) => ready > 0)
   */
  async limits(options: { readonly queue?: OperatedName<Definitions, Streams> } = {}): Promise<readonly LimitStatus[]> {
    checkKeys('limits', options, ['queue'], "As in limits({ queue: 'emails' })")
    const queue = this.#nameOrNull(options.queue)
    return this.#operations.count((execute) => readLimits(execute, queue))
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
  async messages(options: MessagesOptions<OperatedName<Definitions, Streams>>): Promise<MessagePage> {
    const { filter, place } = readMessagesOptions(options, this.#known)
    return this.#operations.read((execute) => readMessagePage(execute, filter, place))
  }

  /** One message that is not dead; undefined if there is none. @throws SluiceError as {@link queues} */
  async message(queue: OperatedName<Definitions, Streams>, id: string): Promise<MessageStatus | undefined> {
    const name = checkOperatedQueue(queue, this.#known)
    checkId(id, 'id')
    return this.#operations.read((execute) => readMessageStatus(execute, name, id))
  }

  /**
   * What is known of one message, by its id or its dedupe key, also if it is gone. Of a dedupe key, the message that has
   * it; if that comes after one that is in hand, the one in hand, with `requeuedId`.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`.
   * @throws SluiceError as {@link queues}
   *
   * @example const { state } = await sluice.operate.status('reports', { dedupeKey: 'report 2030-01' })
   */
  async status(queue: OperatedName<Definitions, Streams>, which: WhichMessage): Promise<KnownMessage> {
    const name = checkOperatedQueue(queue, this.#known)
    const message = readWhich('status', which)
    return this.#operations.read((execute) => readKnownMessage(execute, name, message))
  }

  /**
   * The next messages of a queue in the order in which they fall due, without claiming them. Priorities and keys may
   * change the order in which they are handled; with more than about 25,000 keyed messages it may miss some.
   *
   * @param options.limit 1 to 10,000. @default 10
   * @throws SluiceError as {@link queues}
   */
  async peek(
    queue: OperatedName<Definitions, Streams>,
    options: { readonly limit?: number } = {},
  ): Promise<readonly MessageStatus[]> {
    const name = checkOperatedQueue(queue, this.#known)
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
    options: { readonly queue?: OperatedName<Definitions, Streams>; readonly limit?: number } = {},
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
  async workers(
    options: { readonly queue?: OperatedName<Definitions, Streams> } = {},
  ): Promise<readonly WorkerStatus[]> {
    checkKeys('workers', options, ['queue'], "As in workers({ queue: 'emails' })")
    const queue = this.#nameOrNull(options.queue)
    return this.#operations.count((execute) => readWorkers(execute, queue))
  }

  /**
   * Pauses a queue: no pipeline, claim or `pop` of any process takes messages from it until {@link resume}. What is in hand
   * goes on, and messages can be enqueued. Workers hear of it at once, or with their next poll.
   *
   * @param options.reason why, for others to see.
   * @param options.by who. @default the database user
   * @param options.tx your open transaction. @default one of its own
   * @returns false if it was paused already: it stays so since then, with the new `by` and `reason`.
   * @throws SluiceError as {@link queues}, COMMIT_FAILED; with `tx` EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION
   *
   * @example await sluice.operate.pause('emails', { by: 'ada', reason: 'the mail provider is down' })
   */
  async pause(
    queue: OperatedName<Definitions, Streams>,
    options: QueueChangeOptions & { readonly reason?: string | undefined } = {},
  ): Promise<boolean> {
    const name = checkOperatedQueue(queue, this.#known)
    const by = byOf('pause', options, ['reason'])
    const reason = textOf(options.reason, 'pause.reason') ?? null
    return this.#operations.change((execute) => pauseQueue(execute, name, by, reason), options.tx)
  }

  /**
   * Ends the pause of a queue, and wakes those who wait.
   *
   * @returns false if it was not paused.
   * @throws SluiceError as {@link pause}
   */
  async resume(queue: OperatedName<Definitions, Streams>, options: QueueChangeOptions = {}): Promise<boolean> {
    const name = checkOperatedQueue(queue, this.#known)
    const by = byOf('resume', options)
    return this.#operations.change((execute) => resumeQueue(execute, name, by), options.tx)
  }

  /** The time of the database's clock, in whole milliseconds. @throws SluiceError as {@link queues} */
  async now(): Promise<Date> {
    const us = await this.#operations.read(readClockUs)
    return new Date(Math.floor(us / 1_000))
  }

  /**
   * Cancels a message, without waiting for anybody, and says in which state it was. One that waits is gone. So is one that is
   * leased or in a claim: its handler's signal aborts, and what it settles is refused. One that a transaction has in hand is
   * asked for: if its handler still runs, its signal aborts, what it has written through `tx` is rolled back, and the message is
   * removed. Of a dedupe key, the message in hand and the one that comes after it; the answer is about the one in hand.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`.
   * @throws SluiceError as {@link queues}, ROWS_MISSING, COMMIT_FAILED; with `tx` EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION
   *
   * @example const { result, state } = await sluice.operate.cancel('emails', '4711')
   */
  async cancel(
    queue: OperatedName<Definitions, Streams>,
    which: WhichMessage,
    options: MessageChangeOptions = {},
  ): Promise<CancelAnswer> {
    return this.#changer.cancel(checkOperatedQueue(queue, this.#known), which, options)
  }

  /**
   * Changes what a message says that waits: its payload, headers, priority, type, limit of attempts, life. What is left out
   * stays as it was.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`: of a dedupe key the newest message.
   * @throws SluiceError as {@link cancel}, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA
   *
   * @example await sluice.operate.change('emails', '4711', { priority: 0 })
   */
  async change<Name extends OperatedName<Definitions, Streams>>(
    queue: Name,
    which: WhichMessage,
    changes: MessageChanges<InputOf<WithGroupQueues<Definitions, Streams>, Name>>,
    options: MessageChangeOptions = {},
  ): Promise<ChangeAnswer> {
    return this.#changer.change(checkOperatedQueue(queue, this.#known), which, changes, options)
  }

  /**
   * Gives a message that waits another due time: after a delay from now, or at an instant. A message that failed and waits for
   * its retry holds its ordering key until then.
   *
   * @param which as in {@link change}.
   * @throws SluiceError as {@link cancel}
   *
   * @example await sluice.operate.reschedule('emails', '4711', { delay: '1h' })
   */
  async reschedule(
    queue: OperatedName<Definitions, Streams>,
    which: WhichMessage,
    to: NewDueTime,
    options: MessageChangeOptions = {},
  ): Promise<ChangeAnswer> {
    return this.#changer.reschedule(checkOperatedQueue(queue, this.#known), which, to, options)
  }

  /**
   * Makes a message that waits due now, also one that waits for its retry.
   *
   * @param which as in {@link change}.
   * @throws SluiceError as {@link cancel}
   */
  async runNow(
    queue: OperatedName<Definitions, Streams>,
    which: WhichMessage,
    options: MessageChangeOptions = {},
  ): Promise<ChangeAnswer> {
    return this.#changer.runNow(checkOperatedQueue(queue, this.#known), which, options)
  }

  /**
   * Frees a dedupe key that is kept although its message has gone: for the time `for` after success, or by `throttle`. The next
   * enqueue with the key is `added`. It waits for a transaction that has just enqueued with the key, as an enqueue does.
   *
   * @throws SluiceError as {@link cancel}
   *
   * @example if ((await sluice.operate.freeKey('reports', 'report 2030-01')) === 'taken') console.log('It is not done yet')
   */
  async freeKey(
    queue: OperatedName<Definitions, Streams>,
    dedupeKey: string,
    options: MessageChangeOptions = {},
  ): Promise<FreedKey> {
    return this.#changer.freeKey(checkOperatedQueue(queue, this.#known), dedupeKey, options)
  }

  /**
   * Frees all dedupe keys of a queue that are kept although no message has them, as {@link freeKey} does one, in steps of at most
   * 1,000: behind {@link clear}, the queue is as if it were new. A key for which a producer asks at that moment stays.
   *
   * @returns how many.
   * @throws SluiceError as {@link cancel}
   *
   * @example const count = await sluice.operate.freeKeys('reports', { dryRun: true })
   */
  async freeKeys(queue: OperatedName<Definitions, Streams>, options: FreeKeysOptions = {}): Promise<number> {
    return this.#changer.freeKeys(checkOperatedQueue(queue, this.#known), options)
  }

  /**
   * Removes the messages of a queue that nobody has in hand, or those that match every filter given, in steps of at most 1,000.
   * What has been removed stays so if it fails.
   *
   * @returns how many.
   * @throws SluiceError as {@link cancel}
   *
   * @example
   * const count = await sluice.operate.clear('emails', { type: 'newsletter', dryRun: true })
   */
  async clear(queue: OperatedName<Definitions, Streams>, filter: ClearFilter = {}): Promise<number> {
    return this.#changer.clear(checkOperatedQueue(queue, this.#known), filter)
  }

  /**
   * Makes one pass of maintenance now, whether or not workers do it: removes expired messages, and dead letters, dedupe keys
   * and history that are older than their queues keep them, in short transactions that keep nobody waiting. For a
   * scheduled job where no worker runs, or with `maintenanceInterval: false`. It ends after 30 s: call it again while its
   * result is not `finished`.
   *
   * @throws SluiceError as {@link queues}, and the server's error of a task that failed; those before it have been done.
   *
   * @example const { expired, deadLetters } = await sluice.operate.maintain()
   */
  async maintain(): Promise<MaintenanceResult> {
    await this.#operations.maintain((execute) => beginPass(execute, 'operate', null))
    return maintain({
      inTransaction: (work) => this.#operations.maintain(work),
      inSession: (work) => this.#operations.inSession(work),
      onFailed: (_, error) => {
        throw error
      },
    })
  }

  #nameOrNull(queue: string | undefined): string | null {
    return queue === undefined ? null : checkOperatedQueue(queue, this.#known)
  }
}
