import { bigint, duration, nullable, number, shape, text } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'

/** The ordering keys of a queue whose messages wait for one that has failed, and the one that has waited longest. */
export interface HeldKeys {
  readonly queue: string
  readonly keys: number
  /** How many messages that are due wait. */
  readonly messages: number
  /** Null: it orders the whole queue. */
  readonly key: string | null
  /** The message that has failed. */
  readonly messageId: string
  readonly failedAgoMs: number
  readonly error: string | null
}

/** Of those of the queues that have some. It reads the messages of these queues. */
export async function readHeldKeys(execute: Execute, queues: readonly string[]): Promise<readonly HeldKeys[]> {
  return (await execute(HELD, [queues])).map(KEYS.read)
}

const KEYS = shape<HeldKeys>({
  queue: text(),
  keys: number(),
  messages: number(),
  key: nullable.text(),
  messageId: bigint(),
  failedAgoMs: duration((of) => `clock_timestamp() - ${of}.failed_at`),
  error: nullable.text(),
})

const HELD = statement(
  'operate_held_keys',
  `
SELECT ${KEYS.columns('k')}
FROM (
  SELECT DISTINCT ON (h.queue) h.queue, count(*) OVER (PARTITION BY h.queue) AS keys,
         sum(h.messages) OVER (PARTITION BY h.queue) AS messages, h.ordering_key AS key, h.message_id, h.failed_at,
         h.last_error AS error
  FROM sluice.held_keys h
  WHERE h.failed_at IS NOT NULL AND h.queue = ANY ($1::text[])
  ORDER BY h.queue, h.failed_at, h.message_id
) k
ORDER BY k.queue`,
)
