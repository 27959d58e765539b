import { checkId } from '../../basics/checks/check-id.ts'
import { LARGEST_INTEGER } from '../../basics/checks/options.ts'
import { QUEUED_STATES } from '../../message.ts'
import type { MessageStatus } from '../../table/operate/messages/message-status.ts'
import { boolean, count, cursor, limit, oneOf, text } from '../options.ts'

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

/** The readers of the filters and of the page. */
export const MESSAGES_FILTER = {
  orderingKey: text,
  type: text,
  tenant: text,
  state: oneOf(QUEUED_STATES, undefined, { dead: 'deadLetters.list lists dead messages' }),
  held: boolean,
  minAttempts: count(0, 0, LARGEST_INTEGER),
  order: oneOf(['newest', 'oldest']),
  limit: limit(50),
  after: cursor(checkId),
}
