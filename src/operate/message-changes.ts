import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMs } from '../basics/duration.ts'
import { dateOf } from '../basics/options.ts'
import { pause } from '../basics/pause.ts'
import { keyOf } from '../enqueue/dedupe.ts'
import type { OpenTransaction } from '../enqueue/open-transaction.ts'
import { readOptions } from '../enqueue/options.ts'
import { type MessageRules, readMessage } from '../enqueue/read-message.ts'
import { expected, SluiceError } from '../errors.ts'
import { type Headers, type MessageState, WAITING_STATES } from '../message.ts'
import type { InsertRow, ReadOptions } from '../table/enqueue/insert-row.ts'
import {
  type CancelAnswer,
  type ChangeAnswer,
  type ClearMatch,
  cancelMessage,
  changeMessage,
  clearSome,
  type FreedKey,
  freeKey,
  freeSomeKeys,
  type MessageAddress,
  type MessageChange,
  rescheduleMessage,
} from '../table/operate/change-message.ts'
import type { Operations } from './operations.ts'
import { booleanOf, microsecondsOf, textOf } from './options.ts'
import { readWhich, type WhichMessage } from './which-message.ts'

/** In which transaction a message is changed. */
export interface MessageChangeOptions {
  /** Your open transaction, of any client that `enqueue` takes. Default: one of Sluice's own. */
  readonly tx?: OpenTransaction | undefined
}

/** What `operate.change` changes: what is left out stays as it was. */
export interface MessageChanges<Payload = unknown> {
  /** The whole payload. A queue with a schema checks it. */
  readonly payload?: Payload | undefined
  /** All headers. */
  readonly headers?: Headers | undefined
  /** 0 (first) to 9. */
  readonly priority?: number | undefined
  readonly type?: string | undefined
  readonly schemaVersion?: number | undefined
  readonly maxAttempts?: number | undefined
  /** For how long after it is due it may be delivered. */
  readonly ttl?: Duration | undefined
}

/** When `operate.reschedule` makes a message due: one of the two. */
export type NewDueTime =
  | { readonly delay: Duration; readonly dueAt?: undefined }
  | { readonly dueAt: Date; readonly delay?: undefined }

/** Which messages `operate.clear` removes: those that match everything given and that nobody has in hand. */
export interface ClearFilter {
  readonly type?: string | undefined
  readonly orderingKey?: string | undefined
  readonly tenant?: string | undefined
  readonly state?: Exclude<MessageState, 'in_flight' | 'dead'> | undefined
  /** Only those that were enqueued before this instant, by the database's clock. */
  readonly enqueuedBefore?: Date | undefined
  /** Only those that were enqueued at this instant or later. */
  readonly enqueuedAfter?: Date | undefined
  /** Only counts them. @default false */
  readonly dryRun?: boolean | undefined
}

/** What `operate.freeKeys` does. */
export interface FreeKeysOptions {
  /** Only counts the keys. @default false */
  readonly dryRun?: boolean | undefined
}

/** Changes to messages that wait, each in a short transaction, or in the caller's. */
export class MessageChanger {
  readonly #rules: MessageRules
  readonly #operations: Operations

  constructor(rules: MessageRules, operations: Operations) {
    this.#rules = rules
    this.#operations = operations
  }

  async cancel(queue: string, which: WhichMessage, options: MessageChangeOptions): Promise<CancelAnswer> {
    const message = readWhich('cancel', which)
    checkOptions('cancel', options)
    return this.#operations.change((execute) => cancelMessage(execute, queue, message), options.tx)
  }

  async change(
    queue: string,
    which: WhichMessage,
    changes: MessageChanges,
    options: MessageChangeOptions,
  ): Promise<ChangeAnswer> {
    const message = readWhich('change', which)
    checkOptions('change', options)
    const change = await this.#read(queue, changes)
    return this.#operations.administer((execute) => changeMessage(execute, queue, message, change), options.tx)
  }

  async reschedule(
    queue: string,
    which: WhichMessage,
    to: NewDueTime,
    options: MessageChangeOptions,
  ): Promise<ChangeAnswer> {
    const message = readWhich('reschedule', which)
    checkOptions('reschedule', options)
    if ((to as unknown) instanceof Date)
      throw expected('OPTION_INVALID', 'reschedule', 'delay or dueAt', to, 'As in { dueAt: date }')
    checkKeys('reschedule', to, ['delay', 'dueAt'], "As in reschedule('emails', id, { delay: '1h' })")
    if ((to.delay === undefined) === (to.dueAt === undefined)) {
      const received = to.delay === undefined ? 'none' : 'both'
      throw new SluiceError('OPTION_INVALID', `reschedule: expected delay or dueAt, received ${received}`)
    }
    const delayMs = to.delay === undefined ? null : toMs(to.delay, 'reschedule.delay')
    const dueAt = to.dueAt === undefined ? null : dateOf('reschedule.dueAt', to.dueAt).toISOString()
    return this.#patiently(queue, message, { delayMs, dueAt }, options)
  }

  async runNow(queue: string, which: WhichMessage, options: MessageChangeOptions): Promise<ChangeAnswer> {
    const message = readWhich('runNow', which)
    checkOptions('runNow', options)
    return this.#patiently(queue, message, { delayMs: 0, dueAt: null }, options)
  }

  async freeKey(queue: string, dedupeKey: string, options: MessageChangeOptions): Promise<FreedKey> {
    const key = keyOf(dedupeKey, 'freeKey.dedupeKey')
    checkOptions('freeKey', options)
    return this.#operations.change((execute) => freeKey(execute, queue, key), options.tx)
  }

  /** Clears step by step, each in a transaction of its own, so that none has many rows locked. */
  async clear(queue: string, filter: ClearFilter): Promise<number> {
    const match = readFilter(filter)
    let messages = 0
    let after: string | null = null
    for (;;) {
      const from: string | null = after
      const step: Step = await this.#operations.administer((execute) => clearSome(execute, queue, from, match))
      messages += step.messages
      if (step.nextId === null) return messages
      after = step.nextId
    }
  }

  /** As {@link clear}. */
  async freeKeys(queue: string, options: FreeKeysOptions): Promise<number> {
    checkKeys('freeKeys', options, ['dryRun'], "As in freeKeys('reports', { dryRun: true })")
    const dryRun = booleanOf(options.dryRun, 'freeKeys.dryRun') ?? false
    let keys = 0
    let after: string | null = null
    for (;;) {
      const from: string | null = after
      const step: KeysStep = await this.#operations.administer((execute) => freeSomeKeys(execute, queue, from, dryRun))
      keys += step.keys
      if (step.nextKey === null) return keys
      after = step.nextKey
    }
  }

  /** A batch has the slot of the message for as long as its handlers run: it is asked for a few times, and not waited for. */
  async #patiently(
    queue: string,
    message: MessageAddress,
    to: Parameters<typeof rescheduleMessage>[3],
    { tx }: MessageChangeOptions,
  ): Promise<ChangeAnswer> {
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#operations.change((execute) => rescheduleMessage(execute, queue, message, to), tx)
      if (answer.result !== 'busy' || tx !== undefined || tries >= MOST_TRIES) return answer
      await pause(PAUSE_MS)
    }
  }

  async #read(queue: string, changes: MessageChanges): Promise<MessageChange> {
    checkKeys('change', changes, CHANGES, "As in change('emails', id, { priority: 0 })")
    const given = Object.entries(changes).filter(([, value]) => value !== undefined)
    if (given.length === 0) throw expected('OPTION_INVALID', 'change', 'something to change', changes)
    const { payload, ...options } = changes
    const names = { payload: 'change.payload', options: 'change' }
    const row: Partial<InsertRow> & ReadOptions =
      payload === undefined
        ? readOptions(options, 'change')
        : await readMessage(this.#rules, queue, { payload, options }, names)
    return {
      payload: row.payload,
      headers: options.headers === undefined ? undefined : row.headers,
      priority: options.priority === undefined ? undefined : row.priority,
      type: row.type ?? undefined,
      schemaVersion: options.schemaVersion === undefined ? undefined : row.schemaVersion,
      maxAttempts: row.maxAttempts ?? undefined,
      ttlMs: row.ttlMs ?? undefined,
    }
  }
}

type Step = Awaited<ReturnType<typeof clearSome>>
type KeysStep = Awaited<ReturnType<typeof freeSomeKeys>>

const CHANGES = ['payload', 'headers', 'priority', 'type', 'schemaVersion', 'maxAttempts', 'ttl'] as const
const OTHER_STATES: ReadonlyMap<unknown, string> = new Map([
  ['dead', 'Dead letters are removed by operate.deadLetters.delete'],
  ['in_flight', 'What somebody has in hand stays; operate.cancel stops a message'],
  ['completed', 'The history goes by the setting history of the queue'],
])
const FILTERS = ['type', 'orderingKey', 'tenant', 'state', 'enqueuedBefore', 'enqueuedAfter', 'dryRun'] as const

const MOST_TRIES = 10
const PAUSE_MS = 50

/** @throws SluiceError OPTION_INVALID */
function checkOptions(what: string, options: unknown): void {
  checkKeys(what, options, ['tx'], `As in ${what}('emails', id, …, { tx })`)
}

/** @throws SluiceError OPTION_INVALID */
function readFilter(filter: ClearFilter): ClearMatch {
  checkKeys('clear', filter, FILTERS, "As in clear('emails', { type: 'order.paid' })")
  const { state } = filter
  if (state !== undefined && !WAITING_STATES.includes(state))
    throw expected('OPTION_INVALID', 'clear.state', WAITING_STATES.join(', '), state, OTHER_STATES.get(state))
  return {
    type: textOf(filter.type, 'clear.type') ?? null,
    orderingKey: textOf(filter.orderingKey, 'clear.orderingKey') ?? null,
    tenant: textOf(filter.tenant, 'clear.tenant') ?? null,
    enqueuedBeforeUs: microsecondsOf(filter.enqueuedBefore, 'clear.enqueuedBefore'),
    enqueuedAfterUs: microsecondsOf(filter.enqueuedAfter, 'clear.enqueuedAfter'),
    state: state ?? null,
    dryRun: booleanOf(filter.dryRun, 'clear.dryRun') ?? false,
  }
}
