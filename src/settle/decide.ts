import { stackOf } from '../basics/errors/stack-of.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { shownIdOf } from '../claim/handed-message.ts'
import type { Outcome } from '../message.ts'
import type { AttemptRules } from '../settings/attempt-rules.ts'
import type { DropReason } from '../table/settle/drop.ts'
import type { FailureDetails } from '../table/settle/settle.ts'
import { withCause } from '../telemetry/events.ts'
import { traceIdOf } from '../telemetry/trace-context.ts'
import type { Decided, Decision, GivenUp, Gone } from './decision.ts'

/** What decisions go by. */
export interface Rules {
  readonly queue: string
  /** Of a relay: its events name it. */
  readonly destination?: string | undefined
  readonly attempts: Pick<AttemptRules, 'mostOf' | 'retryInMs'>
  readonly clock: DatabaseClock
  /** As the database can hold it. */
  readonly workerName: () => string
  /** In a group that stops at what it gives up: the partition of an event. */
  readonly stopsAt?: ((message: DeliveredMessage) => number) | undefined
}

/** The database's clock as this process knows it, in microseconds since 1970. */
export interface DatabaseClock {
  /** Now, or a little later: it is an estimate. */
  readonly nowUs: () => number
  /** Now, or a little earlier: what is due then is due for every claim that is sent from now on. */
  readonly passedUs: () => number
}

/** Frozen, because all messages whose handlers return nothing have the same one. */
export const ACK: Outcome = Object.freeze({ kind: 'ack' })
/** For a message that can be written neither as decided nor as a failed attempt: it is due again in a minute, and holds up no other. */
export const ASIDE: Outcome = Object.freeze({ kind: 'snooze', afterMs: 60_000 })
const ACKED: Gone = Object.freeze({ kind: 'gone', why: 'acked' })

/**
 * What becomes of a message whose handler has answered. It keeps nothing and writes nothing, so all modes decide alike.
 *
 * @param error what the handler threw: the retry policy gets it
 */
export function decide(message: DeliveredMessage, outcome: Outcome, error: unknown, rules: Rules): Decided {
  switch (outcome.kind) {
    case 'ack':
      return decideAcked(message, outcome.dedupeForMs)
    case 'snooze': {
      const { decision } = later(
        message,
        { attempt: message.row.attempt, error: null, afterMs: outcome.afterMs },
        rules,
      )
      return { message, decision, outcome, event: undefined }
    }
    case 'deadLetter':
      return giveUp(message, { attempt: message.attempt, reason: outcome.reason, error: outcome.error ?? null }, rules)
    case 'retryLater':
      return retry(message, outcome, error, rules)
  }
}

/** A message that has succeeded. */
export function decideAcked(message: DeliveredMessage, dedupeForMs?: number): Decided {
  const outcome = dedupeForMs === undefined ? ACK : { kind: 'ack' as const, dedupeForMs }
  return { message, decision: acked(message, dedupeForMs), outcome, event: undefined }
}

/** A message that may not be tried again, and whose handler has not been called this time. */
export function decideHarmful(message: DeliveredMessage, reason: string, rules: Rules): Decided {
  return giveUp(message, { attempt: message.attempt - 1, reason, error: null }, rules)
}

/** A message that goes without having been handled: its life had ended when it was claimed, or it was cancelled since. */
export function decideDropped(message: DeliveredMessage, why: DropReason, { queue }: Pick<Rules, 'queue'>): Decided {
  const { id, attempt, row } = message
  const { type, options } = row
  const decision = { kind: 'gone', why } as const
  if (why === 'cancelled') {
    const event = { kind: 'message.cancelled', queue, id, type, attempt } as const
    return { message, decision, outcome: undefined, event }
  }
  const expiredAt = new Date((options?.expiresUs ?? Number.NaN) / 1_000)
  const event = { kind: 'message.expired', queue, id, type, attempt: row.attempt, expiredAt } as const
  return { message, decision, outcome: undefined, event }
}

/**
 * A message that nothing was decided about. With its first due time it has its place among the others again. In the order
 * of a key it has its place anyway, and may be due at once: it was due already, also if the clock has been set back since.
 */
export function decideBack(message: DeliveredMessage, { clock }: Pick<Rules, 'clock'>): Decided {
  const { slot, attempt, dueUs: firstDueUs } = message.row
  const passedUs = Math.floor(clock.passedUs())
  const dueUs = slot === null ? firstDueUs : Math.min(firstDueUs, passedUs)
  const decision = { kind: 'back', dueUs, atOnce: dueUs <= passedUs, attempt } as const
  return { message, decision, outcome: undefined, event: undefined }
}

/** Why a message dies that has no attempt left, as `sluice_private.spent_reason` says it. */
export function spentReason(attempt: number, most: number): string {
  // The limit may have been lowered, and the death of a process counts as well.
  const more = `failed ${attempt} attempts, and ${most} ${most === 1 ? 'is' : 'are'} allowed`
  return attempt > most ? more : `failed ${attempt} of ${most} attempts`
}

/** Its dedupe key stays taken for as long as its handler says, or else as it asks for itself. */
function acked({ row, keepsKey }: DeliveredMessage, forMs: number | undefined): Decision {
  const keeps = forMs === undefined ? keepsKey : forMs > 0 && row.options?.dedupeKey != null
  return keeps ? { kind: 'gone', why: 'acked', keepKeyMs: forMs ?? null } : ACKED
}

function retry(
  message: DeliveredMessage,
  { afterMs, atLeastMs = 0, error = 'The handler asked for a retry' }: Extract<Outcome, { kind: 'retryLater' }>,
  thrown: unknown,
  rules: Rules,
): Decided {
  const { attempt } = message
  const most = rules.attempts.mostOf(message)
  if (attempt >= most) {
    return giveUp(message, { attempt, reason: spentReason(attempt, most), error }, rules, thrown)
  }
  const wantedMs = Math.round(afterMs ?? Math.max(atLeastMs, rules.attempts.retryInMs(message, thrown)))
  const details = detailsOf(thrown, rules)
  const { decision, inMs: retryInMs } = later(message, { attempt, error, details, afterMs: wantedMs }, rules)
  const event = { kind: 'message.failed', ...namesOf(message, rules), attempt, error, retryInMs } as const
  return {
    message,
    decision,
    outcome: { kind: 'retryLater', afterMs: retryInMs, error },
    event: withCause(event, thrown),
  }
}

/** What an event names, with the trace that enqueued the message, if that is known. */
function namesOf(message: DeliveredMessage, rules: Rules) {
  const { type, headers } = message.row
  const traceId = traceIdOf(headers)
  return { ...whereOf(rules), id: shownIdOf(message), type, ...(traceId !== undefined && { traceId }) }
}

function whereOf({ queue, destination }: Rules) {
  return { queue, ...(destination !== undefined && { destination }) }
}

interface LaterTerms {
  readonly attempt: number
  readonly error: string | null
  readonly details?: FailureDetails
  readonly afterMs: number
}

/**
 * Until its next attempt or until it expires: an expired message that waits would keep its key from the later ones. With
 * in how many milliseconds that is.
 */
function later(message: DeliveredMessage, { attempt, error, details, afterMs }: LaterTerms, { clock }: Rules) {
  const nowUs = clock.nowUs()
  const atOnce = afterMs === 0
  const triedUs = atOnce ? Math.floor(clock.passedUs()) : Math.ceil(nowUs + afterMs * 1_000)
  const dueUs = Math.min(triedUs, message.row.options?.expiresUs ?? triedUs)
  const decision: Decision = { kind: 'later', dueUs, atOnce, attempt, error, details }
  return { decision, inMs: dueUs === triedUs ? afterMs : Math.max(0, Math.round((dueUs - nowUs) / 1_000)) }
}

function giveUp(message: DeliveredMessage, given: GivenUp, rules: Rules, thrown?: unknown): Decided {
  const { stopsAt } = rules
  const { reason, error } = given
  if (stopsAt !== undefined) return block(message, given, stopsAt(message), rules, thrown)
  const outcome = { kind: 'deadLetter', reason, ...(error === null ? {} : { error }) } as const
  const event = { kind: 'message.dead', ...namesOf(message, rules), ...given } as const
  const decision = { kind: 'dead', ...given, details: detailsOf(thrown, rules) } as const
  return { message, decision, outcome, event: withCause(event, thrown) }
}

/** It stays, and is not tried again by itself. */
function block(message: DeliveredMessage, given: GivenUp, partition: number, rules: Rules, thrown: unknown): Decided {
  const { attempt, reason, error } = given
  const { type, options } = message.row
  const text = error === null ? reason : `${reason}: ${error}`
  const event = {
    kind: 'partition.stopped',
    ...whereOf(rules),
    partition,
    position: options?.eventPosition ?? 0,
    type,
    ...given,
  } as const
  return {
    message,
    decision: { kind: 'blocked', attempt, error: text, details: detailsOf(thrown, rules) },
    outcome: { kind: 'retryLater', error: text },
    event: withCause(event, thrown),
  }
}

function detailsOf(thrown: unknown, { workerName }: Rules): FailureDetails {
  return { worker: workerName(), stack: stackOf(thrown) }
}
