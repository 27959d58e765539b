import { type Execute, statement, textOf } from '../statement.ts'

/**
 * The id of the message that a failed event is in its group's queue, or as a dead letter of it; undefined: it is neither. An
 * event that died before its group was moved back may be several: the newest is meant.
 */
export async function readEventMessage(execute: Execute, queue: string, position: number): Promise<string | undefined> {
  const [row] = await execute(EVENT_MESSAGE, [queue, position])
  return row && textOf(row, 'id')
}

/**
 * Reads the messages and dead letters of the queue by its indexes: there is none on positions, which no hot statement needs.
 */
const EVENT_MESSAGE = statement(
  'event_message',
  `
SELECT e.id::text AS id
FROM (
  SELECT m.id FROM sluice.messages m WHERE m.queue = $1::text AND m.event_position = $2::bigint
  UNION ALL
  SELECT d.id FROM sluice.dead_letters d WHERE d.queue = $1::text AND d.event_position = $2::bigint
) e
ORDER BY e.id DESC LIMIT 1`,
)
