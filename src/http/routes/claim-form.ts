import type { Message } from '../../message.ts'
import { ID, INSTANT } from '../forms.ts'
import { objectOf, type ValueOf } from '../json-schema.ts'
import { messagesText, TAKEN_MESSAGES } from '../message-form.ts'

export const CLAIM = objectOf('a claim', {
  id: ID,
  queue: { description: "the queue's name", type: 'string' },
  expiresAt: INSTANT,
  messages: TAKEN_MESSAGES,
})

export interface ClaimedMessages {
  readonly id: string
  readonly queue: string
  readonly expiresAt: Date
  readonly messages: readonly Message[]
}

/** The JSON text of a claim. */
export function claimText({ id, queue, expiresAt, messages }: ClaimedMessages): string {
  const plain: Omit<ValueOf<typeof CLAIM>, 'messages'> = { id, queue, expiresAt: expiresAt.toISOString() }
  return `${JSON.stringify(plain).slice(0, -1)},"messages":${messagesText(messages)}}`
}
