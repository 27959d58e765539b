import { type Execute, numberOf, type Row, statement, textOf } from '../statement.ts'

/** A message was cancelled in flight. */
export interface CancelRequest {
  readonly queue: string
  readonly id: string
  /** The database's clock at that time: later claims of the message do not count. */
  readonly askedUs: number
}

/** The requests for what a worker has in flight, by its records of batches. */
export async function readCancelRequests(execute: Execute, workerId: number): Promise<readonly CancelRequest[]> {
  return (await execute(CANCEL_REQUESTS, [workerId])).map(toCancelRequest)
}

export function toCancelRequest(row: Row): CancelRequest {
  return { queue: textOf(row, 'queue'), id: textOf(row, 'id'), askedUs: numberOf(row, 'asked_us') }
}

/**
 * The whole table is read, because it is nearly always empty: a row is written only for a message that was cancelled while
 * it was in flight, and is removed after an hour. For each row, batch_record_pkey gives the records of this worker. OFFSET 0
 * keeps it from becoming a join, whose plan could begin with all messages in flight.
 */
export const cancelRequests = (workerId: string) => `
SELECT c.queue, c.message_id::text AS id, (extract(epoch FROM c.asked_at) * 1000000.0)::bigint AS asked_us
FROM sluice.cancel_request c
WHERE EXISTS (
  SELECT FROM sluice.batch_record b
  WHERE b.worker_id = ${workerId}::integer AND b.queue = c.queue AND c.message_id = ANY (b.message_ids) OFFSET 0
)`

const CANCEL_REQUESTS = statement('cancel_requests', cancelRequests('$1'))
