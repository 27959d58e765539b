import { nullable, parsed, shape, text, word } from '../shape.ts'
import { type Execute, type Statement, statement } from '../statement.ts'
import { naming } from '../stream/stream-errors.ts'
import type { MessageAddress } from './messages/change-message.ts'

/** One reason why something does not happen, or has ended. */
export interface Reason {
  /** A stable word: see docs/reference/explain.md. */
  readonly reason: ReasonWord
  /** Sentences with names and numbers. Their wording may change. */
  readonly explanation: string
  /** Since when it is so, as far as that is known. */
  readonly since: Date | null
  /** When it ends by itself, if it does. */
  readonly until: Date | null
  /** The names and numbers of the sentences, and what the login may see of a session. Ids are strings. */
  readonly details: Readonly<Record<string, unknown>>
  /** A command or a statement that changes it, or that shows more; null: there is none. */
  readonly remedy: string | null
}

/** Why something does not happen: the main reason, and the others, in the order in which they have to go. */
export interface Explanation {
  readonly headline: Reason
  readonly others: readonly Reason[]
}

/** The words of all reasons: of messages, dedupe keys, queues, events and schedules. */
export type ReasonWord =
  | 'in_flight'
  | 'leased'
  | 'claimed'
  | 'locked'
  | 'table_locked'
  | 'cancel_asked'
  | 'expired'
  | 'scheduled'
  | 'retrying'
  | 'paused'
  | 'no_worker'
  | 'held'
  | 'slot_busy'
  | 'queue_limit'
  | 'tenant_limit'
  | 'queue_rate'
  | 'tenant_rate'
  | 'endpoint_disabled'
  | 'endpoint_closed'
  | 'behind'
  | 'due_now'
  | 'not_visible'
  | 'alone'
  | 'crash_evidence'
  | 'worker_stale'
  | 'destination_unavailable'
  | 'inbox_unavailable'
  | 'worker_gone'
  | 'dead'
  | 'completed'
  | 'not_committed'
  | 'not_found'
  | 'never_existed'
  | 'other_queue'
  | 'key_taken'
  | 'key_kept'
  | 'key_locked'
  | 'key_free'
  | 'empty'
  | 'unknown_queue'
  | 'lost_events'
  | 'partition_stopped'
  | 'partition_retrying'
  | 'partition_busy'
  | 'open_append'
  | 'unread'
  | 'trimmed'
  | 'deferred'
  | 'handled'
  | 'failed'
  | 'overdue'
  | 'not_planned'
  | 'overlap'
  | 'not_due'
  | 'ended'
  | 'enqueued'
  | 'skipped'

/** Why a message is not running. */
export function explainMessage(execute: Execute, queue: string, message: MessageAddress): Promise<Explanation> {
  return explained(execute, MESSAGE, [queue, message.id, message.dedupeKey])
}

/** Why nothing moves in a queue. */
export function explainQueue(execute: Execute, queue: string): Promise<Explanation> {
  return explained(execute, QUEUE, [queue])
}

/** Why a group has not handled an event. @throws SluiceError STREAM_UNKNOWN, GROUP_UNKNOWN */
export function explainEvent(execute: Execute, stream: string, group: string, position: number): Promise<Explanation> {
  return naming(explained(execute, EVENT, [stream, group, position]), stream, group)
}

/** Why a schedule has not enqueued a message. */
export function explainSchedule(execute: Execute, name: string): Promise<Explanation> {
  return explained(execute, SCHEDULE, [name])
}

/** The session that has locked a table of Sluice, or waits to. It reads no table. Undefined: none does any more. */
export async function explainTableLock(execute: Execute): Promise<Reason | undefined> {
  const [first] = (await execute(TABLE_LOCK, [])).map(REASON.read)
  return first?.details.table === undefined ? undefined : first
}

async function explained(execute: Execute, sent: Statement, params: readonly unknown[]): Promise<Explanation> {
  const [headline, ...others] = (await execute(sent, params)).map(REASON.read)
  if (headline === undefined) throw new TypeError('expected a reason at least')
  return { headline, others }
}

const REASON = shape<Reason>({
  reason: word(),
  explanation: text(),
  since: nullable.date(),
  until: nullable.date(),
  details: { ...parsed<Reason['details']>('details'), select: (of) => `${of}.details::text AS details` },
  remedy: nullable.text(),
})

const MESSAGE = statement(
  'explain_message',
  `
SELECT ${REASON.columns('r')}
FROM sluice.explain($1::text, $2::bigint, $3::text) r`,
)

const QUEUE = statement(
  'explain_queue',
  `
SELECT ${REASON.columns('r')}
FROM sluice.explain_queue($1::text) r`,
)

const TABLE_LOCK = statement(
  'explain_table_lock',
  `
SELECT ${REASON.columns('r')}
FROM sluice_private.shown_reasons(NULL::sluice_private.reason[]) r`,
)

const EVENT = statement(
  'explain_event',
  `
SELECT ${REASON.columns('r')}
FROM sluice.explain_event($1::text, $2::text, $3::bigint) r`,
)

const SCHEDULE = statement(
  'explain_schedule',
  `
SELECT ${REASON.columns('r')}
FROM sluice.explain_schedule($1::text) r`,
)
