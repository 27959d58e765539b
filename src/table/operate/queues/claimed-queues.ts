import { type Execute, statement, textOf } from '../../statement.ts'

/** Those of the queues of which a claim is open. */
export async function readClaimedQueues(execute: Execute, queues: readonly string[]): Promise<ReadonlySet<string>> {
  return new Set((await execute(CLAIMED, [queues])).map((row) => textOf(row, 'queue')))
}

const CLAIMED = statement(
  'operate_claimed_queues',
  'SELECT DISTINCT c.queue FROM sluice.claims c WHERE c.queue = ANY ($1::text[])',
)
