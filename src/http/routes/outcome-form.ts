import { toMs } from '../../basics/duration.ts'
import { expected } from '../../errors.ts'
import { ack, deadLetterBy, type Outcome, retryBy, snoozeBy } from '../../message.ts'
import { DURATION, ID } from '../forms.ts'
import type { JsonSchema, ValueOf } from '../json-schema.ts'

/** A message and its outcome. */
export const END = {
  description: 'an object with an id and an outcome',
  type: 'object',
  required: ['id'],
  additionalProperties: false,
  properties: {
    id: ID,
    outcome: {
      description: 'one of ack, retry, snooze, deadLetter',
      type: 'string',
      enum: ['ack', 'retry', 'snooze', 'deadLetter'],
      default: 'ack',
    },
    after: DURATION,
    reason: { description: 'a text, which deadLetter needs', type: 'string' },
    error: { description: 'a text, which retry and deadLetter take', type: 'string' },
  },
} as const satisfies JsonSchema

/**
 * The outcome as a handler returns it.
 *
 * @throws SluiceError OPTION_INVALID if something is missing or in vain
 */
export function outcomeOf(end: ValueOf<typeof END>, what: string): Outcome {
  const { outcome = 'ack', reason, error } = end
  const after = end.after === undefined ? undefined : toMs(end.after, `${what}.after`)
  const vain = VAIN[outcome].find((name) => end[name] !== undefined)
  if (vain !== undefined) {
    const remedy = 'Leave it out, or choose another outcome'
    throw expected('OPTION_INVALID', `${what}.${vain}`, `nothing beside the outcome ${outcome}`, end[vain], remedy)
  }
  switch (outcome) {
    case 'ack':
      return ack()
    case 'retry':
      return retryBy(what, { ...(after !== undefined && { after }), ...(error !== undefined && { error }) })
    case 'snooze':
      if (after === undefined) throw expected('OPTION_INVALID', `${what}.after`, DURATION.description, after)
      return snoozeBy(what, { after })
    case 'deadLetter':
      if (reason === undefined) throw expected('OPTION_INVALID', `${what}.reason`, 'a reason as text', reason)
      return deadLetterBy(what, reason, error)
  }
}

/** What an outcome does not take. */
const VAIN = {
  ack: ['after', 'reason', 'error'],
  retry: ['reason'],
  snooze: ['reason', 'error'],
  deadLetter: ['after'],
} as const
