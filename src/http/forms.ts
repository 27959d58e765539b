import { toMsWithin } from '../basics/time/duration.ts'
import type { JsonSchema, ValueOf } from './json-schema.ts'

// Parts of several bodies and answers.

export const DURATION = {
  description: "milliseconds from 0, or a string such as '250ms', '30s', '5m', '2h', '7d'",
  anyOf: [
    { type: 'integer', minimum: 0 },
    { type: 'string', pattern: '^\\d+(\\.\\d+)?(ms|s|m|h|d)$' },
  ],
} as const satisfies JsonSchema

/** For how long a claim lasts. Checked here, so that an error names what the client has sent. @throws SluiceError OPTION_INVALID */
export function leaseOf(lease: ValueOf<typeof DURATION> | undefined): number | undefined {
  return lease === undefined ? undefined : toMsWithin('lease', lease, '1s', '14d')
}

export function graceOf(grace: ValueOf<typeof DURATION> | undefined): number | undefined {
  return grace === undefined ? undefined : toMsWithin('grace', grace, '0ms', '14d')
}

export const ID = { description: 'an id, which is a string of digits', type: 'string', pattern: '^\\d{1,19}$' } as const

export const INSTANT = { description: 'an instant in ISO 8601', type: 'string', format: 'date-time' } as const

export const COUNT = { description: 'an integer from 0', type: 'integer', minimum: 0 } as const

export const LIMIT = {
  description: 'an integer from 1 to 1,000',
  type: 'integer',
  minimum: 1,
  maximum: 1_000,
} as const satisfies JsonSchema

/** The body of a request about several messages. */
export function messagesBody<const Items extends JsonSchema>(description: string, items: Items) {
  return {
    description: 'an object with messages',
    type: 'object',
    required: ['messages'],
    additionalProperties: false,
    properties: { messages: { description, type: 'array', minItems: 1, maxItems: 1_000, items } },
  } as const
}
