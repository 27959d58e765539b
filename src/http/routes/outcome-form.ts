import { toMs } from '../../basics/time/duration.ts'
import { expected } from '../../errors.ts'
import type { Outcome } from '../../message.ts'
import { OUTCOME_KINDS, OUTCOMES, type OutcomeFields, type OutcomeRow } from '../../outcomes.ts'
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
      description: `one of ${OUTCOME_KINDS.join(', ')}`,
      type: 'string',
      enum: OUTCOME_KINDS,
      default: 'ack',
    },
    after: DURATION,
    atLeast: {
      ...DURATION,
      description: `how long retry waits at least, where the retry policy says when: ${DURATION.description}`,
    },
    reason: { description: 'a string, which deadLetter needs', type: 'string' },
    error: { description: 'a string, which retryLater and deadLetter take', type: 'string' },
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
  const { id: _, outcome = 'ack', after, atLeast, dedupeFor, ...texts } = end
  const { needs, takes, make }: OutcomeRow = OUTCOMES[outcome]
  const excess = FIELDS.find((name) => end[name] !== undefined && !takes.includes(name))
  if (excess !== undefined) {
    const remedy = 'Leave it out, or choose another outcome'
    throw expected('OPTION_INVALID', `${what}.${excess}`, `nothing beside the outcome ${outcome}`, end[excess], remedy)
  }
  if (needs !== undefined && end[needs] === undefined)
    throw expected('OPTION_INVALID', `${what}.${needs}`, NEEDED[needs], end[needs])
  return make(what, {
    ...texts,
    after: after === undefined ? undefined : toMs(after, `${what}.after`),
    atLeast: atLeast === undefined ? undefined : toMs(atLeast, `${what}.atLeast`),
    dedupeFor: dedupeFor === undefined ? undefined : toMs(dedupeFor, `${what}.dedupeFor`),
  })
}

const FIELDS = ['after', 'atLeast', 'reason', 'error', 'dedupeFor'] as const satisfies readonly (keyof OutcomeFields)[]

const NEEDED = {
  after: DURATION.description,
  atLeast: DURATION.description,
  reason: 'a reason as a string',
  error: 'an error as a string',
  dedupeFor: DURATION.description,
}
