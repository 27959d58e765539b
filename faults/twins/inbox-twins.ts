import type { Twin } from './twins.ts'

export const ACKS_FIRST = {
  name: 'acks-first',
  title: 'an inbox that acks a batch before it stores it',
  edits: [
    {
      file: 'inbox/intake.ts',
      from: '(await this.#store(messages, idleMs !== undefined)) && this.#ack(messages)',
      to: '(await this.#ack(messages)) && this.#store(messages, idleMs !== undefined)',
    },
  ],
  caught: ['lost'],
} as const satisfies Twin

export const ACKS_WHAT_FAILED = {
  name: 'acks-what-failed',
  title: 'an inbox that acks a batch that could not be stored',
  edits: [{ file: 'inbox/intake.ts', from: 'if (once) return false', to: 'return true' }],
  caught: ['lost'],
} as const satisfies Twin

export const RECEIPTS_NOT_UNIQUE = {
  name: 'receipts-not-unique',
  title: 'receipts of which there may be two of one message',
  sql: 'ALTER TABLE sluice.receipt DROP CONSTRAINT receipt_pkey',
  caught: ['repeated'],
} as const satisfies Twin
