import type { Message } from '../message.ts'
import { ID } from './forms.ts'
import type { JsonSchema, ValueOf } from './json-schema.ts'

const FINITE_INSTANT = {
  description: 'an instant in ISO 8601; null if it is infinite',
  type: ['string', 'null'],
  format: 'date-time',
} as const satisfies JsonSchema

/** A message as it was claimed or popped. */
export const MESSAGE = {
  description: 'a message',
  type: 'object',
  required: [
    'id',
    'payload',
    'headers',
    'type',
    'schemaVersion',
    'orderingKey',
    'priority',
    'attempt',
    'maxAttempts',
    'enqueuedAt',
    'dueAt',
  ],
  properties: {
    id: ID,
    payload: { description: 'the payload, as the schema of the queue returns it' },
    headers: { description: 'the headers, an object of JSON values', type: 'object' },
    type: { description: 'the type, or null', type: ['string', 'null'] },
    schemaVersion: { description: "the version of the payload's schema", type: 'integer' },
    orderingKey: { description: 'the ordering key, or null', type: ['string', 'null'] },
    priority: { description: 'the priority, from 0 (first) to 9', type: 'integer' },
    attempt: { description: 'which try this is, from 1', type: 'integer' },
    maxAttempts: {
      description: 'after how many failed attempts it becomes a dead letter; null if the number of the claim applies',
      type: ['integer', 'null'],
    },
    enqueuedAt: FINITE_INSTANT,
    dueAt: FINITE_INSTANT,
  },
} as const satisfies JsonSchema

export const MESSAGES = { description: 'messages', type: 'array', items: MESSAGE } as const satisfies JsonSchema

/** Must not throw: a message that was popped would be lost. */
export function toJson(message: Message): Required<ValueOf<typeof MESSAGE>> {
  const { id, payload, headers, type, schemaVersion, orderingKey, priority, attempt, maxAttempts } = message
  const instants = { enqueuedAt: message.enqueuedAt.toJSON(), dueAt: message.dueAt.toJSON() }
  return { id, payload, headers, type, schemaVersion, orderingKey, priority, attempt, maxAttempts, ...instants }
}
