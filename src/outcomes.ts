import type { Duration } from './basics/time/duration.ts'
import { errorText } from './errors.ts'
import { ackBy, deadLetterBy, type Outcome, retryBy, snoozeBy } from './message.ts'

/** What an outcome is made of. */
export interface OutcomeFields {
  readonly after?: Duration | undefined
  readonly atLeast?: Duration | undefined
  readonly reason?: string | undefined
  readonly error?: unknown
  readonly dedupeFor?: Duration | undefined
}

export interface OutcomeRow {
  /** The field that it needs. */
  readonly needs?: keyof OutcomeFields
  /** Fields that it may have. */
  readonly takes: readonly (keyof OutcomeFields)[]
  /** Its count among the settled messages. */
  readonly counted: 'acked' | 'retried' | 'snoozed' | 'dead'
  /** Its message is tried again, unless it is cancelled. */
  readonly stays: boolean
  /** @param what stands for the call in errors. @throws SluiceError OPTION_INVALID */
  readonly make: (what: string, fields: OutcomeFields) => Outcome
}

/** All outcomes, each by the name of the function that makes it. One more is a row here, a function in `message.ts`, and a decision in `settle/decide.ts`. */
export const OUTCOMES = {
  ack: {
    takes: ['dedupeFor'],
    counted: 'acked',
    stays: false,
    make: (what, { dedupeFor }) => ackBy(what, dedupeFor === undefined ? {} : { dedupeFor }),
  },
  retryLater: {
    takes: ['after', 'atLeast', 'error'],
    counted: 'retried',
    stays: true,
    make: (what, { after, atLeast, error }) =>
      retryBy(what, {
        ...(after !== undefined && { after }),
        ...(atLeast !== undefined && { atLeast }),
        ...(error !== undefined && { error }),
      }),
  },
  snooze: {
    needs: 'after',
    takes: ['after'],
    counted: 'snoozed',
    stays: true,
    make: (what, { after }) => snoozeBy(what, { after: after as Duration }),
  },
  deadLetter: {
    needs: 'reason',
    takes: ['reason', 'error'],
    counted: 'dead',
    stays: false,
    make: (what, { reason, error }) => deadLetterBy(what, errorText(reason), error),
  },
} as const satisfies Record<Outcome['kind'], OutcomeRow>

/** The kinds of outcomes. */
export const OUTCOME_KINDS = Object.keys(OUTCOMES) as readonly Outcome['kind'][]

export function isOutcomeKind(kind: unknown): kind is Outcome['kind'] {
  return typeof kind === 'string' && Object.hasOwn(OUTCOMES, kind)
}
