import type { Headers } from '../../message.ts'
import { numberOf, type Row, textOf, textOrNull } from '../statement.ts'
import { dateOf } from './instants.ts'

/** What a message says since it was enqueued, of a row of dead letters or of the history. */
export function saidOf(row: Row) {
  const payloadJson = textOf(row, 'payload')
  const headersJson = textOf(row, 'headers')
  return {
    enqueuedAt: dateOf(row, 'enqueued_us'),
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    orderingKey: textOrNull(row, 'ordering_key'),
    priority: numberOf(row, 'priority'),
    tenant: textOrNull(row, 'tenant'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    headers: JSON.parse(headersJson) as Headers,
    headersJson,
    payload: JSON.parse(payloadJson) as unknown,
    payloadJson,
  }
}
