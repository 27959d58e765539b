import type { Headers } from '../../message.ts'
import { date, jsonText, nullable, number, parsed } from '../shape.ts'

/** What a message says since it was enqueued: of a row of messages, dead letters or the history. */
export const SAID = {
  enqueuedAt: date(),
  type: nullable.text(),
  schemaVersion: number(),
  orderingKey: nullable.text(),
  priority: number(),
  tenant: nullable.text(),
  dedupeKey: nullable.text(),
  headersJson: jsonText('headers'),
  headers: parsed<Headers>('headers_json'),
  payloadJson: jsonText('payload'),
  payload: parsed<unknown>('payload_json'),
}
