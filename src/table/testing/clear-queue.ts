import { type Execute, statement } from '../statement.ts'

/** Messages first: the locks of batches in flight are waited for there. */
const TABLES = [
  ...['message', 'dead_letter', 'completed_message', 'dedupe', 'kept_key', 'receipt'],
  ...['claim', 'cancel_request', 'crash', 'bucket', 'turn'],
]

const DELETES = TABLES.map((table) =>
  statement(`clear_${table}`, `DELETE FROM sluice.${table} t WHERE t.queue = $1::text`),
)

/** Workers lock these rows and expect them to stay. */
const FREE_KEYS = statement(
  'clear_slot',
  "UPDATE sluice.slot t SET held = '{}'::jsonb WHERE t.queue = $1::text AND t.held <> '{}'::jsonb",
)

/** Removes what a queue has and has had, except for its settings, schedules and endpoints. For tests. */
export async function clearQueueWholly(execute: Execute, queue: string): Promise<void> {
  for (const one of [...DELETES, FREE_KEYS]) await execute(one, [queue])
}
