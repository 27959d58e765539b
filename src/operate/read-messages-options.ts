import { checkId } from '../basics/check-id.ts'
import { checkKeys } from '../basics/check-keys.ts'
import { integer, LARGEST_INTEGER } from '../basics/options.ts'
import { expected } from '../errors.ts'
import { QUEUED_STATES } from '../message.ts'
import { checkOperatedQueue, type KnownNames } from '../streams.ts'
import type { MessageFilter, MessageOrder } from '../table/operate/message-pages.ts'
import type { MessageStatus } from '../table/operate/message-status.ts'
import { booleanOf, limitOf, textOf } from './options.ts'

/** The options of `operate.messages.list`: a queue, the filters, and which page. */
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
  /** True: only messages that wait for an earlier one with the same ordering key. False: only the others. */
  readonly held?: boolean | undefined
  /** Only messages with at least this many failed attempts. */
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
  readonly page: { readonly order: MessageOrder; readonly after: string | null; readonly limit: number }
}

/** @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID */
export function readMessagesOptions(options: MessagesOptions, known: KnownNames): MessagesQuery {
  checkKeys('messages.list', options, KEYS, "As in messages.list({ queue: 'emails' })")
  checkNotDead(options.state)
  const { orderingKey, type, tenant, held, minAttempts, limit, after } = options
  return {
    filter: {
      queue: checkOperatedQueue(options.queue, known),
      orderingKey: textOf(orderingKey, 'messages.list.orderingKey') ?? null,
      type: textOf(type, 'messages.list.type') ?? null,
      tenant: textOf(tenant, 'messages.list.tenant') ?? null,
      state: oneOf(options.state, 'messages.list.state', QUEUED_STATES) ?? null,
      held: booleanOf(held, 'messages.list.held') ?? null,
      minAttempts: integer('messages.list.minAttempts', minAttempts, 0, 0, LARGEST_INTEGER),
    },
    page: {
      order: oneOf(options.order, 'messages.list.order', ORDERS) ?? 'newest',
      limit: limitOf(limit, 'messages.list.limit', 50),
      after: after === undefined || after === null ? null : checkId(after, 'messages.list.after'),
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
  const remedy = 'deadLetters.list lists dead messages'
  throw expected('OPTION_INVALID', 'messages.list.state', `one of ${QUEUED_STATES.join(', ')}`, state, remedy)
}

function oneOf<Word extends string>(value: unknown, what: string, words: readonly Word[]): Word | undefined {
  const found = words.find((word) => word === value)
  if (value === undefined || found !== undefined) return found
  throw expected('OPTION_INVALID', what, `one of ${words.join(', ')}`, value)
}
