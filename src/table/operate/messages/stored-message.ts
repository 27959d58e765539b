import type { Headers } from '../../../message.ts'
import { bigint, date, jsonText, nullable, number, parsed, text } from '../../shape.ts'

/** What a message has wherever it is: in its queue, among the dead letters, or in the history. */
export interface StoredMessage {
  /** The name of its queue. */
  readonly queue: string
  /** Unique in the database, the same through retries, death and redrive. */
  readonly id: string
  /** When it was enqueued. */
  readonly enqueuedAt: Date
  /** Null if none was given. */
  readonly type: string | null
  /** The version of the payload's schema, from 1. */
  readonly schemaVersion: number
  /** Null if none was given. */
  readonly orderingKey: string | null
  /** 0 (first) to 9. */
  readonly priority: number
  /** The number of failed attempts after which it becomes a dead letter; null: the pipeline's. */
  readonly maxAttempts: number | null
  /** Null if none was given. */
  readonly tenant: string | null
  /** Null if none was given. */
  readonly dedupeKey: string | null
  /** Metadata; an empty object if there is none. */
  readonly headers: Headers
  /** The same as the server writes it. */
  readonly headersJson: string
  /** As JSON gives it back: numbers beyond 2^53 have lost digits. */
  readonly payload: unknown
  /** The same as the server writes it, with every digit. */
  readonly payloadJson: string
}

/** What a list without payloads leaves out. */
export type Content = 'payload' | 'payloadJson' | 'headers' | 'headersJson'

/** The columns of messages in any view that are small: of a row with a large payload the server reads none of its parts. */
export const ENVELOPE = {
  queue: text(),
  id: bigint(),
  enqueuedAt: date(),
  type: nullable.text(),
  schemaVersion: number(),
  orderingKey: nullable.text(),
  priority: number(),
  maxAttempts: nullable.number(),
  tenant: nullable.text(),
  dedupeKey: nullable.text(),
}

/** The columns of the views `sluice.messages`, `sluice.dead_letters` and `sluice.completed`. */
export const STORED_MESSAGE = {
  ...ENVELOPE,
  headersJson: jsonText('headers'),
  headers: parsed<Headers>('headers_json'),
  payloadJson: jsonText('payload'),
  payload: parsed<unknown>('payload_json'),
}
