import { checkId } from '../basics/check-id.ts'
import { checkKeys } from '../basics/check-keys.ts'
import { integer, LARGEST_INTEGER } from '../basics/options.ts'
import { expected } from '../errors.ts'
import { QUEUED_STATES } from '../message.ts'
import { checkOperatedQueue, type KnownNames } from '../streams.ts'
import type { MessageFilter, MessageOrder } from '../table/operate/message-pages.ts'
import type { MessageStatus } from '../table/operate/message-status.ts'
import { booleanOf, limitOf, textOf } from './options.ts'

/** The options of `operate.messages`: a queue, the filters, and which page. */
export interface MessagesOptions<Name extends string = string> {
  /** The queue. */
  readonly queue: Name
  /** Only messages with this ordering key. */
  readonly orderingKey?: string | undefined
  /** Only of this type. */
  readonly type?: string | undefined
  /** Only messages of this tenant. */
  readonly tenant?: string | undefined
  /** Only messages that are in this state now. */
  readonly state?: MessageStatus['state'] | undefined
  /** True: only those that wait for an earlier message with the same ordering key. False: only the others. */
  readonly held?: boolean | undefined
  /** Only messages of which at least this many attempts have failed. */
  readonly minAttempts?: number | undefined
  /** The order of the ids, which is roughly that of enqueueing. @default 'newest' */
  readonly order?: 'newest' | 'oldest' | undefined
  /** The most to return, 1 to 10,000. @default 50 */
  readonly limit?: number | undefined
  /** The `next` of the page before. Without it, or with null, the list begins with the first page. */
  readonly after?: string | null | undefined
}

export interface MessagesQuery {
  readonly filter: MessageFilter
  readonly place: { readonly order: MessageOrder; readonly after: string | null; readonly limit: number }
}

/** @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID */
export function readMessagesOptions(options: MessagesOptions, known: KnownNames): MessagesQuery {
  checkKeys('messages', options, KEYS, "As in messages({ queue: 'emails' })")
  checkNotDead(options.state)
  const { orderingKey, type, tenant, held, minAttempts, limit, after } = options
  return {
    filter: {
      queue: checkOperatedQueue(options.queue, known),
      orderingKey: textOf(orderingKey, 'messages.orderingKey') ?? null,
      type: textOf(type, 'messages.type') ?? null,
      tenant: textOf(tenant, 'messages.tenant') ?? null,
      state: oneOf(options.state, 'messages.state', QUEUED_STATES) ?? null,
      held: booleanOf(held, 'messages.held') ?? null,
      minAttempts: integer('messages.minAttempts', minAttempts, 0, 0, LARGEST_INTEGER),
    },
    place: {
      order: oneOf(options.order, 'messages.order', ORDERS) ?? 'newest',
      limit: limitOf(limit, 'messages.limit', 50),
      after: after === undefined || after === null ? null : checkId(after, 'messages.after'),
    },
  }
}

const KEYS = [
  'queue',
  'orderingKey',
  'type',
  'tenant',
  'state',
  'held',
  'minAttempts',
  'order',
  'limit',
  'after',
] as const
const ORDERS = ['newest', 'oldest'] as const

/** @throws SluiceError OPTION_INVALID */
function checkNotDead(state: unknown): void {
  if (state !== 'dead') return
  const remedy = 'Dead messages have a list of their own: see deadLetters.list'
  throw expected('OPTION_INVALID', 'messages.state', `one of ${QUEUED_STATES.join(', ')}`, state, remedy)
}

function oneOf<Word extends string>(value: unknown, what: string, words: readonly Word[]): Word | undefined {
  const found = words.find((word) => word === value)
  if (value === undefined || found !== undefined) return found
  throw expected('OPTION_INVALID', what, `one of ${words.join(', ')}`, value)
}
