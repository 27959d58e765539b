import type { Message } from '../../message.ts'
import { ID, INSTANT } from '../forms.ts'
import type { JsonSchema, ValueOf } from '../json-schema.ts'
import { MESSAGES, toJson } from '../message-form.ts'

export const CLAIM = {
  description: 'a claim',
  type: 'object',
  required: ['id', 'queue', 'expiresAt', 'messages'],
  properties: {
    id: ID,
    queue: { description: "the queue's name", type: 'string' },
    expiresAt: INSTANT,
    messages: MESSAGES,
  },
} as const satisfies JsonSchema

export interface ClaimedMessages {
  readonly id: string
  readonly queue: string
  readonly expiresAt: Date
  readonly messages: readonly Message[]
}

export function claimToJson({ id, queue, expiresAt, messages }: ClaimedMessages): ValueOf<typeof CLAIM> {
  return { id, queue, expiresAt: expiresAt.toISOString(), messages: messages.map(toJson) }
}
