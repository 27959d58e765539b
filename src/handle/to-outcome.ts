import { expected } from '../errors.ts'
import type { Outcome } from '../message.ts'
import { isOutcomeKind, OUTCOMES, type OutcomeFields } from '../outcomes.ts'
import { ACK } from '../settle/decide.ts'
import { RELEASE, type Release } from './release.ts'
import { isUnrunQuery, RUN_IT } from './unrun-query.ts'

/** What a handler returned, as an outcome that can be written. @throws SluiceError OPTION_INVALID for anything else. */
export function toOutcome(
  returned: unknown,
  what = "The handler's result",
  remedy = 'A handler that only awaits its work returns nothing',
): Outcome {
  if (returned === undefined) return ACK
  if (typeof returned === 'object' && returned !== null && 'kind' in returned) {
    // Of the right kind, but perhaps not made by our functions, which check the rest.
    const { kind, afterMs, atLeastMs, reason, error, dedupeForMs } = returned as Record<string, unknown>
    if (kind === 'ack' && dedupeForMs === undefined) return ACK
    const fields = { after: afterMs, atLeast: atLeastMs, reason, error, dedupeFor: dedupeForMs } as OutcomeFields
    if (isOutcomeKind(kind) && (kind !== 'deadLetter' || typeof reason === 'string'))
      return OUTCOMES[kind].make(kind, fields)
  }
  const wanted = 'nothing, ack(), retryLater(), snooze() or deadLetter()'
  throw expected('OPTION_INVALID', what, wanted, returned, isUnrunQuery(returned) ? RUN_IT : remedy)
}

/** What a batch handler returned, as one outcome per message. @throws SluiceError OPTION_INVALID */
export function toOutcomes(returned: unknown, count: number): readonly (Outcome | Release)[] {
  if (returned === undefined) return Array.from({ length: count }, () => ACK)
  if (Array.isArray(returned) && returned.length === count)
    return Array.from(returned, (outcome: unknown, at) =>
      ofOne(outcome, `The batch handler's result[${at}]`, at in returned),
    )
  throw expected('OPTION_INVALID', "The batch handler's result", `nothing, or ${count} outcomes`, returned)
}

/** A hole is not the undefined that stands for an ack: perhaps the handler has not come to that message. */
function ofOne(outcome: unknown, what: string, given: boolean): Outcome | Release {
  if (outcome === RELEASE) return RELEASE
  if (given) return toOutcome(outcome, what, 'A message that is handled has undefined or ack()')
  const remedy = 'The array has a hole there. Return one outcome for each message'
  throw expected('OPTION_INVALID', what, 'ack(), retryLater(), snooze() or deadLetter()', outcome, remedy)
}
