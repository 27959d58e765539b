import type { Message } from '../message.ts'

/** What a message is called outside of the database. */
export interface Identity {
  readonly id: string
  /** The name of the database, a UUID. */
  readonly source: string
}

/**
 * The attributes of a message as a CloudEvent 1.0, without its data. `partitionkey`, `traceparent` and `tracestate` are of the
 * extensions for partitioning and for distributed tracing.
 */
export function attributesOf(message: Message, { id, source }: Identity): Readonly<Record<string, string>> {
  const { type, orderingKey, enqueuedAt, headers } = message
  return {
    specversion: '1.0',
    id,
    source: `urn:uuid:${source}`,
    type: type ?? message.stream ?? message.queue,
    time: enqueuedAt.toISOString(),
    datacontenttype: 'application/json',
    ...(orderingKey === null ? {} : { subject: orderingKey, partitionkey: orderingKey }),
    ...textIn(headers, 'traceparent'),
    ...textIn(headers, 'tracestate'),
  }
}

/** Why a message cannot be a CloudEvent: its type and its key are any text, and attributes are not. Undefined: it can. */
export function wrongAttribute(attributes: Readonly<Record<string, string>>): string | undefined {
  const wrong = Object.keys(attributes).find((name) => FORBIDDEN.test(attributes[name] ?? ''))
  if (wrong === undefined) return undefined
  return `the CloudEvent's ${wrong}: expected text without control characters and noncharacters of Unicode`
}

/** An attribute has a text that is not empty. */
function textIn(headers: Message['headers'], name: string): Readonly<Record<string, string>> {
  const value = headers[name]
  return typeof value === 'string' && value !== '' ? { [name]: value } : {}
}

const FORBIDDEN = /[\p{Cc}\p{Noncharacter_Code_Point}]/u
