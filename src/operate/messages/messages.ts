import { checkId } from '../../basics/checks/check-id.ts'
import { checkKeys } from '../../basics/checks/check-keys.ts'
import { dateOf } from '../../basics/checks/options.ts'
import { toMs } from '../../basics/time/duration.ts'
import { pause } from '../../basics/time/pause.ts'
import { keyOf } from '../../enqueue/dedupe.ts'
import type { MessageRules } from '../../enqueue/read-message.ts'
import { expected, SluiceError } from '../../errors.ts'
import type { InputOf, QueueDefinitions, QueueName } from '../../queues.ts'
import { type Explanation, explainMessage } from '../../table/operate/explanations.ts'
import {
  type CancelAnswer,
  type ChangeAnswer,
  cancelMessage,
  changeMessage,
  type FreedKey,
  freeKey,
  type MessageAddress,
  rescheduleMessage,
  runMessageNow,
} from '../../table/operate/messages/change-message.ts'
import { type KnownMessage, readKnownMessage } from '../../table/operate/messages/known-message.ts'
import {
  listMessages,
  listMessagesWithoutPayloads,
  type MessagePage,
} from '../../table/operate/messages/message-pages.ts'
import {
  type ListedMessage,
  type MessageStatus,
  peekMessages,
  readMessageStatus,
} from '../../table/operate/messages/message-status.ts'
import type { Execute } from '../../table/statement.ts'
import type { Operations } from '../operations.ts'
import { limit, readFields } from '../options.ts'
import { type MessageChangeOptions, type MessageChanges, type NewDueTime, readChanges } from './message-changes.ts'
import { MESSAGES_FILTER, type MessagesOptions } from './messages-options.ts'
import { readWhich, type WhichMessage } from './which-message.ts'

/** `sluice.operate.messages`: messages that are not dead. */
export type Messages<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Reads a page of the messages of a queue, in the order of their ids. With a filter it looks at no more than 10,000
   * messages, so the page can have fewer messages than `limit`, or none, and still have a `next`.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { messages, next } = await sluice.operate.messages.list({ queue: 'orders', state: 'retrying' })
   */
  list(options: MessagesOptions<QueueName<Definitions>>): Promise<MessagePage>

  /**
   * The same as {@link list} without payloads and headers: a page of large messages costs no more than one of small ones.
   *
   * @throws SluiceError as {@link Operate}
   */
  listWithoutPayloads(options: MessagesOptions<QueueName<Definitions>>): Promise<MessagePage<ListedMessage>>

  /** One message; undefined if there is none. @throws SluiceError as {@link Operate} */
  get(queue: QueueName<Definitions>, id: string): Promise<MessageStatus | undefined>

  /**
   * The state of one message, by its id or its dedupe key, also after it has gone. With a dedupe key: the message that
   * has the key. If a transaction handles an earlier one with the key, the earlier one, with `requeuedId`.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`.
   * @throws SluiceError as {@link Operate}
   *
   * @example const { state } = await sluice.operate.messages.status('reports', { dedupeKey: 'report 2030-01' })
   */
  status(queue: QueueName<Definitions>, which: WhichMessage): Promise<KnownMessage>

  /**
   * Explains why a message is not running, by its id or its dedupe key: the main reason and the others, each with the
   * command that changes it. With a dedupe key: who has it, until when, and why that message is not running. It locks
   * nothing, and reads the first thousand of a backlog at most.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`.
   * @throws SluiceError as {@link Operate}
   *
   * @example
   * const { headline } = await sluice.operate.messages.explain('emails', '4711')
   * console.log(headline.explanation, headline.remedy)
   */
  explain(queue: QueueName<Definitions>, which: WhichMessage): Promise<Explanation>

  /**
   * Reads the next messages of a queue by due time, without claiming them. Priorities and keys may
   * change the order in which they are handled; with more than about 25,000 keyed messages it may miss some.
   *
   * @param options.limit 1 to 10,000. @default 10
   * @throws SluiceError as {@link Operate}
   */
  peek(queue: QueueName<Definitions>, options?: { readonly limit?: number }): Promise<readonly MessageStatus[]>

  /**
   * Cancels a message, without waiting for its handler, and returns the state in which it was. A waiting message is
   * removed. So is a leased or claimed one: its handler's signal aborts, and its settlement is refused. If a
   * transaction handles the message, the cancel is requested: the signal of a handler that still runs aborts, its
   * writes through `tx` are rolled back, and the message is removed. With a dedupe key it cancels the message in flight
   * and the next one with the key; the answer is about the first.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`.
   * @throws SluiceError as {@link Operate}, and ROWS_MISSING
   *
   * @example const { result, state } = await sluice.operate.messages.cancel('emails', '4711')
   */
  cancel(queue: QueueName<Definitions>, which: WhichMessage, options?: MessageChangeOptions): Promise<CancelAnswer>

  /**
   * Edits a waiting message: its payload, headers, priority, type, limit of attempts, time to live. What is left out
   * stays as it is.
   *
   * @param which an id, `{ id }` or `{ dedupeKey }`: the newest message with this key.
   * @throws SluiceError as {@link cancel}, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA
   *
   * @example await sluice.operate.messages.change('emails', '4711', { priority: 0 })
   */
  change<Name extends QueueName<Definitions>>(
    queue: Name,
    which: WhichMessage,
    changes: MessageChanges<InputOf<Definitions, Name>>,
    options?: MessageChangeOptions,
  ): Promise<ChangeAnswer>

  /**
   * Reschedules a waiting message: to a delay from now, or to an instant. A message that waits for its retry holds
   * its ordering key until then.
   *
   * @param which as in {@link change}.
   * @throws SluiceError as {@link cancel}
   *
   * @example await sluice.operate.messages.reschedule('emails', '4711', { delay: '1h' })
   */
  reschedule(
    queue: QueueName<Definitions>,
    which: WhichMessage,
    to: NewDueTime,
    options?: MessageChangeOptions,
  ): Promise<ChangeAnswer>

  /**
   * Makes a waiting message due now, including one that waits for a retry.
   *
   * @param which as in {@link change}.
   * @throws SluiceError as {@link cancel}
   */
  runNow(queue: QueueName<Definitions>, which: WhichMessage, options?: MessageChangeOptions): Promise<ChangeAnswer>

  /**
   * Frees a dedupe key that is kept after its message has gone: for the time `for` after success, or by
   * `throttle`. The next enqueue with the key is `added`. Like an enqueue, it waits for a transaction that has just
   * enqueued with the key.
   *
   * @throws SluiceError as {@link cancel}
   *
   * @example
   * const freed = await sluice.operate.messages.freeKey('reports', 'report 2030-01')
   * if (freed === 'taken') console.log('It is not done yet')
   */
  freeKey(queue: QueueName<Definitions>, dedupeKey: string, options?: MessageChangeOptions): Promise<FreedKey>
}

/** Answers the calls of {@link Messages}. */
export class MessagesInDatabase implements Messages {
  readonly #rules: MessageRules
  readonly #operations: Operations

  constructor(rules: MessageRules, operations: Operations) {
    this.#rules = rules
    this.#operations = operations
  }

  async list(options: MessagesOptions): Promise<MessagePage> {
    const search = this.#search('messages.list', options)
    return this.#operations.read((execute) => listMessages(execute, search, search))
  }

  async listWithoutPayloads(options: MessagesOptions): Promise<MessagePage<ListedMessage>> {
    const search = this.#search('messages.listWithoutPayloads', options)
    return this.#operations.read((execute) => listMessagesWithoutPayloads(execute, search, search))
  }

  async get(queue: string, id: string): Promise<MessageStatus | undefined> {
    const name = this.#operations.queue(queue)
    checkId(id, 'id')
    return this.#operations.read((execute) => readMessageStatus(execute, name, id))
  }

  async status(queue: string, which: WhichMessage): Promise<KnownMessage> {
    const name = this.#operations.queue(queue)
    const message = readWhich('messages.status', which)
    return this.#operations.read((execute) => readKnownMessage(execute, name, message))
  }

  async explain(queue: string, which: WhichMessage): Promise<Explanation> {
    const name = this.#operations.queue(queue)
    const message = readWhich('messages.explain', which)
    return this.#operations.read((execute) => explainMessage(execute, name, message))
  }

  async peek(queue: string, options: { readonly limit?: number } = {}): Promise<readonly MessageStatus[]> {
    const name = this.#operations.queue(queue)
    const remedy = "As in messages.peek('emails', { limit: 5 })"
    const { limit: most } = readFields('messages.peek', options, { limit: limit(10) }, remedy)
    return this.#operations.read((execute) => peekMessages(execute, name, most))
  }

  async cancel(queue: string, which: WhichMessage, options: MessageChangeOptions = {}): Promise<CancelAnswer> {
    const [name, message] = this.#address('messages.cancel', queue, which, options)
    return this.#operations.change((execute) => cancelMessage(execute, name, message), options.tx)
  }

  async change(
    queue: string,
    which: WhichMessage,
    changes: MessageChanges,
    options: MessageChangeOptions = {},
  ): Promise<ChangeAnswer> {
    const [name, message] = this.#address('messages.change', queue, which, options)
    const change = await readChanges(this.#rules, name, changes)
    return this.#operations.administer((execute) => changeMessage(execute, name, message, change), options.tx)
  }

  async reschedule(
    queue: string,
    which: WhichMessage,
    to: NewDueTime,
    options: MessageChangeOptions = {},
  ): Promise<ChangeAnswer> {
    const [name, message] = this.#address('messages.reschedule', queue, which, options)
    const dueTime = dueTimeOf(to)
    return this.#patiently((execute) => rescheduleMessage(execute, name, message, dueTime), options)
  }

  async runNow(queue: string, which: WhichMessage, options: MessageChangeOptions = {}): Promise<ChangeAnswer> {
    const [name, message] = this.#address('messages.runNow', queue, which, options)
    return this.#patiently((execute) => runMessageNow(execute, name, message), options)
  }

  async freeKey(queue: string, dedupeKey: string, options: MessageChangeOptions = {}): Promise<FreedKey> {
    const name = this.#operations.queue(queue)
    const key = keyOf(dedupeKey, 'messages.freeKey.dedupeKey')
    checkOptions('messages.freeKey', options)
    return this.#operations.change((execute) => freeKey(execute, name, key), options.tx)
  }

  #search(what: string, options: MessagesOptions) {
    const readers = { queue: this.#operations.queue, ...MESSAGES_FILTER }
    return readFields(what, options, readers, `As in ${what}({ queue: 'emails' })`)
  }

  #address(what: string, queue: unknown, which: WhichMessage, options: unknown): readonly [string, MessageAddress] {
    const address = [this.#operations.queue(queue), readWhich(what, which)] as const
    checkOptions(what, options)
    return address
  }

  /** A batch locks the message's slot while its handlers run: a few tries, without waiting for the lock. */
  async #patiently(
    change: (execute: Execute) => Promise<ChangeAnswer>,
    { tx }: MessageChangeOptions,
  ): Promise<ChangeAnswer> {
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#operations.change(change, tx)
      if (answer.result !== 'busy' || tx !== undefined || tries >= MOST_TRIES) return answer
      await pause(PAUSE_MS)
    }
  }
}

type DueTime = Parameters<typeof rescheduleMessage>[3]

const MOST_TRIES = 10
const PAUSE_MS = 50

/** @throws SluiceError OPTION_INVALID */
function dueTimeOf(to: NewDueTime): DueTime {
  const what = 'messages.reschedule'
  if ((to as unknown) instanceof Date)
    throw expected('OPTION_INVALID', what, 'delay or dueAt', to, 'As in { dueAt: date }')
  checkKeys(what, to, ['delay', 'dueAt'], `As in ${what}('emails', id, { delay: '1h' })`)
  if ((to.delay === undefined) === (to.dueAt === undefined)) {
    const received = to.delay === undefined ? 'none' : 'both'
    throw new SluiceError('OPTION_INVALID', `${what}: expected delay or dueAt, received ${received}`)
  }
  return {
    delayMs: to.delay === undefined ? null : toMs(to.delay, `${what}.delay`),
    dueAt: to.dueAt === undefined ? null : dateOf(`${what}.dueAt`, to.dueAt).toISOString(),
  }
}

/** @throws SluiceError OPTION_INVALID */
function checkOptions(what: string, options: unknown): void {
  checkKeys(what, options, ['tx'], `As in ${what}('emails', id, …, { tx })`)
}
