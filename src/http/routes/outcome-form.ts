import { toMs } from '../../basics/duration.ts'
import { expected } from '../../errors.ts'
import { ackBy, deadLetterBy, type Outcome, retryBy, snoozeBy } from '../../message.ts'
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
    reason: { description: 'a string, which deadLetter needs', type: 'string' },
    error: { description: 'a string, which retry and deadLetter take', type: 'string' },
    dedupeFor: {
      ...DURATION,
      description: `for how long the dedupe key stays taken after ack: ${DURATION.description}`,
    },
  },
} as const satisfies JsonSchema

/**
 * The outcome as a handler returns it.
 *
 * @throws SluiceError OPTION_INVALID if something is missing, or not allowed with this outcome
 */
export function outcomeOf(end: ValueOf<typeof END>, what: string): Outcome {
  const { outcome = 'ack', reason, error, dedupeFor } = end
  const after = end.after === undefined ? undefined : toMs(end.after, `${what}.after`)
  const excess = NOT_ALLOWED[outcome].find((name) => end[name] !== undefined)
  if (excess !== undefined) {
    const remedy = 'Leave it out, or choose another outcome'
    throw expected('OPTION_INVALID', `${what}.${excess}`, `nothing beside the outcome ${outcome}`, end[excess], remedy)
  }
  switch (outcome) {
    case 'ack':
      return ackBy(what, dedupeFor === undefined ? {} : { dedupeFor: toMs(dedupeFor, `${what}.dedupeFor`) })
    case 'retry':
      return retryBy(what, { ...(after !== undefined && { after }), ...(error !== undefined && { error }) })
    case 'snooze':
      if (after === undefined) throw expected('OPTION_INVALID', `${what}.after`, DURATION.description, after)
      return snoozeBy(what, { after })
    case 'deadLetter':
      if (reason === undefined) throw expected('OPTION_INVALID', `${what}.reason`, 'a reason as a string', reason)
      return deadLetterBy(what, reason, error)
  }
}

/** What an outcome does not take. */
const NOT_ALLOWED = {
  ack: ['after', 'reason', 'error'],
  retry: ['reason', 'dedupeFor'],
  snooze: ['reason', 'error', 'dedupeFor'],
  deadLetter: ['after', 'dedupeFor'],
} as const
