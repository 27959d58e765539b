import { type Execute, statement, textsOf } from '../statement.ts'
import type { SettleIn } from './settle.ts'

/** Why a message ends that no handler has handled. */
export type DropReason = 'expired' | 'cancelled'

/**
 * Removes messages; of expired ones it makes dead letters if `sluice.queue` says so when it is done. It is sent only
 * where there is such a message, so it is a function and not one statement: it reads the setting, and then looks each message
 * up in the primary key. Resolves with the ids of those that it found.
 */
export async function dropRows(
  execute: Execute,
  { queue, fence }: Pick<SettleIn, 'queue' | 'fence'>,
  ids: readonly string[],
  reason: DropReason,
): Promise<readonly string[]> {
  const [leases = null] = fence.params(ids)
  const rows = await execute(DROP, [queue, ids, leases, reason === 'expired'])
  return rows.flatMap((row) => textsOf(row, 'ids'))
}

const DROP = statement(
  'drop',
  'SELECT sluice_private.drop_in_hand($1::text, $2::bigint[], $3::bigint[], $4::boolean)::text[] AS ids',
)
