import { type Execute, statement, textsOf } from '../statement.ts'
import type { LeasedId } from './settle-leased.ts'

/** Why a message ends that no handler has handled. */
export type DropReason = 'expired' | 'cancelled'

/**
 * Removes messages of a batch; of expired ones it makes dead letters if `sluice.queue` says so when it is done. It is sent only
 * where there is such a message, so it is a function and not one statement: it reads the setting, and then looks each message
 * up in the primary key.
 */
export async function dropMessages(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  reason: DropReason,
): Promise<void> {
  await execute(DROP, [queue, ids, null, reason === 'expired'])
}

/** The same for leased messages, if they still have their leases. Resolves with the ids of those that had. */
export async function dropLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  reason: DropReason,
): Promise<readonly string[]> {
  const [ids, leases] = [messages.map(({ id }) => id), messages.map(({ lease }) => lease)]
  const rows = await execute(DROP, [queue, ids, leases, reason === 'expired'])
  return rows.flatMap((row) => textsOf(row, 'ids'))
}

const DROP = statement(
  'drop',
  'SELECT sluice_private.drop_in_hand($1::text, $2::bigint[], $3::bigint[], $4::boolean)::text[] AS ids',
)
