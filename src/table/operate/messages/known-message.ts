import type { MessageState } from '../../../message.ts'
import { nullable, shape, word } from '../../shape.ts'
import { type Execute, only, statement } from '../../statement.ts'
import type { MessageAddress } from './change-message.ts'

/** What is known of a message: the answer of `sluice.operate.messages.status`. */
export interface KnownMessage {
  /** Null if there is no message with this dedupe key. */
  readonly id: string | null
  /**
   * `completed`: it has succeeded, and its dedupe key is kept, or its queue keeps its history. `unknown`: it was never
   * there, or nothing is left of it.
   */
  readonly state: MessageState | 'completed' | 'unknown'
  /** The message that was enqueued with the same dedupe key while this one was in flight, and follows it. */
  readonly requeuedId: string | null
  /** How many attempts have failed; null if it is neither there nor dead. */
  readonly attempt: number | null
  /** When it may be delivered, or until when it is leased; null if it is not there. */
  readonly dueAt: Date | null
  /** Until then its dedupe key stays taken, although the message may be gone; null if it does not. */
  readonly takenUntil: Date | null
  /** The server process that has locked the message: a worker's batch, or any other session. */
  readonly lockedBy: number | null
}

/** What is known of one message, by its id or its dedupe key. */
export async function readKnownMessage(
  execute: Execute,
  queue: string,
  { id, dedupeKey }: MessageAddress,
): Promise<KnownMessage> {
  const row = only(await execute(KNOWN, [queue, id, dedupeKey]))
  return MESSAGE.read(row)
}

const MESSAGE = shape<KnownMessage>({
  id: nullable.bigint('message_id'),
  state: word(),
  requeuedId: nullable.bigint(),
  attempt: nullable.number(),
  dueAt: nullable.date(),
  takenUntil: nullable.date(),
  lockedBy: nullable.number(),
})

const KNOWN = statement(
  'operate_status',
  `
SELECT ${MESSAGE.columns('s')}
FROM sluice.status($1::text, $2::bigint, $3::text) s`,
)
