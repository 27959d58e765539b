import type { MessageState } from '../../../message.ts'
import { msSince, msUntil, nullable, number, shape, word } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'
import { FAILURES, type Failure } from './failures.ts'
import { type Content, ENVELOPE, STORED_MESSAGE, type StoredMessage } from './stored-message.ts'

/** One message that is not dead, as it is now: a row of `sluice.messages`. */
export interface MessageStatus extends StoredMessage {
  /** Due later and never tried, due, in the hands of a worker, failed and due later, or at the end of its life. */
  readonly state: Exclude<MessageState, 'dead'>
  /** How many attempts have failed so far. */
  readonly attempt: number
  /** The name of its own retry policy; null: as the queue or pipeline says. */
  readonly retryPolicy: string | null
  /** Its own lease in leased mode, in milliseconds; null: as the pipeline says. */
  readonly leaseMs: number | null
  /** How long ago that was; null if the instant is infinite. */
  readonly enqueuedAgoMs: number | null
  /** When it may be delivered; null: never. */
  readonly dueAt: Date | null
  /** In how long that is. Negative: it has been due for so long. Null: never. */
  readonly dueInMs: number | null
  /** When its life ends; null: it never expires. */
  readonly expiresAt: Date | null
  /** When its last attempt failed; null if none has. */
  readonly failedAt: Date | null
  /** How its last attempt failed; null if none has. */
  readonly lastError: string | null
  /** Its last failures, the latest last, at most five. Only the latest has a stack. */
  readonly failures: readonly Failure[]
  /** The earlier message with the same ordering key for which it waits. */
  readonly heldBy: string | null
  /** The worker that handles it. */
  readonly worker: string | null
  /** The server process that has locked it: a worker's batch, or any other session. */
  readonly lockedBy: number | null
  /** In leased mode and in a claim: when its lease ends if it is not renewed. */
  readonly leasedUntil: Date | null
  /** The claim that it is in. */
  readonly claim: string | null
  /** In the queue of a group: the position in the stream of the event that it is. */
  readonly position: number | null
}

/** Reads the next messages of a queue by due time, without claiming them. */
export async function peekMessages(execute: Execute, queue: string, limit: number): Promise<readonly MessageStatus[]> {
  const rows = await execute(PEEK, [queue, limit])
  return rows.map(MESSAGE.read)
}

/** One message. */
export async function readMessageStatus(
  execute: Execute,
  queue: string,
  id: string,
): Promise<MessageStatus | undefined> {
  const [row] = await execute(ONE, [queue, id])
  return row && MESSAGE.read(row)
}

/** A message without its payload and headers. */
export type ListedMessage = Omit<MessageStatus, Content>

const STATE = {
  state: word<MessageStatus['state']>(),
  attempt: number(),
  retryPolicy: nullable.text(),
  leaseMs: nullable.duration(),
  enqueuedAgoMs: msSince(),
  dueAt: nullable.date(),
  dueInMs: msUntil(),
  expiresAt: nullable.date(),
  failedAt: nullable.date(),
  lastError: nullable.text(),
  failures: FAILURES,
  heldBy: nullable.bigint(),
  lockedBy: nullable.number(),
  worker: nullable.text(),
  leasedUntil: nullable.date(),
  claim: nullable.bigint(),
  position: nullable.number('event_position'),
}

/** A row of sluice.messages. */
export const MESSAGE = shape<MessageStatus>({ ...STORED_MESSAGE, ...STATE })

/** The same without payload and headers. */
export const LISTED_MESSAGE = shape<ListedMessage>({ ...ENVELOPE, ...STATE })

const PEEK = statement(
  'operate_peek',
  `
SELECT ${MESSAGE.columns('m')}
FROM sluice.peek($1::text, $2::integer) m
ORDER BY m.due_at, m.id`,
)

const ONE = statement(
  'operate_message',
  `
SELECT ${MESSAGE.columns('m')}
FROM sluice.messages m
WHERE m.queue = $1::text AND m.id = $2::bigint`,
)
