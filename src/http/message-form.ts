import type { Message } from '../message.ts'
import { storedOf } from '../process/internals.ts'
import { ID, INSTANT } from './forms.ts'
import { arrayOf, type JsonSchema, objectOf } from './json-schema.ts'

/** A message as it was claimed or popped: all but its content. */
const PLAIN = {
  id: ID,
  type: { description: 'the type, or null', type: ['string', 'null'] },
  schemaVersion: { description: "the version of the payload's schema", type: 'integer' },
  orderingKey: { description: 'the ordering key, or null', type: ['string', 'null'] },
  priority: { description: 'the priority, from 0 (first) to 9', type: 'integer' },
  attempt: { description: 'which try this is, from 1', type: 'integer' },
  maxAttempts: {
    description: 'after how many failed attempts it becomes a dead letter; null if the limit of the claim applies',
    type: ['integer', 'null'],
  },
  tenant: { description: 'the tenant, or null', type: ['string', 'null'] },
  dedupeKey: { description: 'the dedupe key, or null', type: ['string', 'null'] },
  enqueuedAt: INSTANT,
  dueAt: INSTANT,
  expiresAt: {
    description: 'the end of its life, an instant in ISO 8601; null: it never expires',
    type: ['string', 'null'],
    format: 'date-time',
  },
} as const satisfies { readonly [Name in keyof Message]?: JsonSchema }

const PLAIN_NAMES = Object.keys(PLAIN)

export const TAKEN_MESSAGES = arrayOf(
  'messages',
  objectOf('a message', {
    ...PLAIN,
    payload: { description: 'the payload, as it was enqueued' },
    headers: { description: 'the headers, an object of JSON values', type: 'object' },
  }),
)

/**
 * The JSON text of messages, with payloads and headers as they are stored. A schema may turn a payload into a value that
 * JSON cannot hold, and JSON may hold a number that `JSON.parse` cannot: a failing answer would lose popped messages.
 */
export function messagesText(messages: readonly Message[]): string {
  return `[${messages.map(textOf).join()}]`
}

function textOf(message: Message): string {
  const { payload, headers } = storedOf(message)
  return `${JSON.stringify(message, PLAIN_NAMES).slice(0, -1)},"payload":${payload},"headers":${headers}}`
}
