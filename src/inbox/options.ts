import { kindOf } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected, SluiceError } from '../errors.ts'
import { type BreakerPlan, resolveBreaker } from '../relay/options.ts'
import type { ReceivedMessage, Receiver } from './receiver.ts'

/** What a received message says of itself. What is undefined stays as the inbox has found it. */
export interface ReadMessage {
  /** Its id, unique among the messages of its source and the same in each copy, 1 to 1,000 bytes. */
  readonly id?: string | undefined
  /** Whose id it is, 1 to 255 bytes. */
  readonly source?: string | undefined
  readonly type?: string | undefined
  readonly orderingKey?: string | undefined
  /** The payload, a value that JSON can hold. @default the body, as JSON */
  readonly payload?: unknown
}

/** How an inbox receives messages and enqueues them. */
export interface InboxOptions {
  /** Where the messages come from, such as `fromNats({ … })` of `sluice/nats`. */
  readonly from: Receiver
  /**
   * Whose ids the messages have that no relay has published, 1 to 255 bytes. The source of a relay's messages is the name of
   * its database.
   *
   * @default the kind of the receiver, such as 'nats'
   */
  readonly source?: string | undefined
  /**
   * Reads what a message says of itself, where its headers do not. What it throws is the reason of a dead letter.
   *
   * @example ({ headers }) => ({ id: headers['event-id'], type: headers['event-type'] })
   */
  readonly read?: ((message: ReceivedMessage) => ReadMessage) | undefined
  /** The most messages in one transaction, 1 to 1,000. @default 100 */
  readonly batchSize?: number | undefined
  /** For how long a copy of a message is known as one, at least, 1 s to 100 years. @default '7d' */
  readonly retention?: Duration | undefined
  /**
   * How long to wait before the broker, or the database, is tried again: `delay` the first time, then twice as long each time
   * up to `maxDelay`, with jitter; each from 10 ms to 1 h.
   *
   * @default { delay: '1s', maxDelay: '2m' }
   */
  readonly breaker?: { readonly delay?: Duration | undefined; readonly maxDelay?: Duration | undefined } | undefined
}

/** The options, complete and checked. */
export interface InboxPlan {
  readonly queue: string
  readonly from: Receiver
  readonly source: string
  readonly read: ((message: ReceivedMessage) => unknown) | undefined
  readonly batchSize: number
  readonly retentionMs: number
  readonly breaker: BreakerPlan
}

/** @throws SluiceError OPTION_INVALID */
export function resolveInbox(queue: string, options: InboxOptions): InboxPlan {
  const what = `inbox(${JSON.stringify(queue)})`
  checkKeys(what, options, KNOWN, REMEDY)
  const from = checkReceiver(what, options.from)
  return {
    queue,
    from,
    source: checkSource(what, options.source ?? from.system),
    read: checkRead(what, options.read),
    batchSize: integer(`${what}.batchSize`, options.batchSize, 100, 1, 1_000),
    retentionMs: toMsWithin(`${what}.retention`, options.retention ?? '7d', '1s'),
    breaker: resolveBreaker(`${what}.breaker`, options.breaker ?? {}),
  }
}

const KNOWN: readonly (keyof InboxOptions)[] = ['from', 'source', 'read', 'batchSize', 'retention', 'breaker']
const REMEDY = "As in inbox('orders-in', { from: fromNats({ servers, stream, consumer }) })"

function checkReceiver(what: string, from: unknown): Receiver {
  if (kindOf(from) === 'destination')
    throw new SluiceError('OPTION_INVALID', `${what}.from: expected a receiver, received a destination. ${REMEDY}`)
  if (typeof from === 'object' && from !== null && 'open' in from && typeof from.open === 'function')
    return from as Receiver
  throw expected('OPTION_INVALID', `${what}.from`, 'a receiver', from, REMEDY)
}

function checkSource(what: string, source: unknown): string {
  if (typeof source === 'string' && source !== '' && Buffer.byteLength(source) <= 255) return source
  throw expected('OPTION_INVALID', `${what}.source`, '1 to 255 bytes of text', source)
}

function checkRead(what: string, read: unknown): InboxPlan['read'] {
  if (read === undefined || typeof read === 'function') return read as InboxPlan['read']
  throw expected('OPTION_INVALID', `${what}.read`, 'a function', read, 'As in ({ headers }) => ({ id: headers.id })')
}
