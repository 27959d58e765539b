import type { RowsIn, RowsRuntime } from '../../../settle/send-decisions.ts'
import { leased } from '../../../table/settle/fence.ts'
import type { LeasedMessage } from '../leased-message.ts'

/** Rows that this process may write while it has their leases. @param nowUs the database's clock, or a little earlier */
export function leasedRows(
  { serverVersion, historyBy, alphabet }: RowsRuntime,
  queue: string,
  messages: readonly LeasedMessage[],
  nowUs: number,
): RowsIn {
  let claimed: ReadonlyMap<string, number> | undefined
  return {
    queue,
    fence: leased(messages),
    serverVersion: serverVersion(),
    alphabet,
    nowUs,
    historyBy: historyBy(queue),
    // Made when it is asked for: only where the queue keeps its history.
    claimedUs: ({ message: { id } }) => {
      claimed ??= new Map(messages.map((message) => [message.id, message.claimedUs]))
      return claimed.get(id) ?? nowUs
    },
  }
}
