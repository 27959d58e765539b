import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Outcome } from '../message.ts'
import type { DropReason } from '../table/settle/drop.ts'
import type { FailureDetails } from '../table/settle/settle.ts'
import type { SluiceEvent } from '../telemetry/events.ts'

/** What is to become of a message that was claimed: plain data, the same for every source. Only a log has `blocked`. */
export type Decision = Gone | Later | Dead | Blocked | Back

/** It has succeeded, or its life is over: its row is removed. */
export interface Gone {
  readonly kind: 'gone'
  readonly why: 'acked' | DropReason
  /** For how long its dedupe key stays taken; null: for as long as it asks for; undefined: not at all. */
  readonly keepKeyMs?: number | null | undefined
}

/** It is due again at an instant, by the database's clock in microseconds since 1970. */
export interface Later {
  readonly kind: 'later'
  readonly dueUs: number
  /** It is due as soon as this is written: sleeping workers are woken. */
  readonly atOnce: boolean
  /** How many attempts have failed. */
  readonly attempt: number
  /** Null for a snooze, where nothing failed. */
  readonly error: string | null
  readonly details: FailureDetails | undefined
}

/** It becomes a dead letter. */
export interface Dead extends GivenUp {
  readonly kind: 'dead'
  readonly details: FailureDetails | undefined
}

/** It stays, and all of its partition behind it: a group that stops at what it gives up. */
export interface Blocked {
  readonly kind: 'blocked'
  readonly attempt: number
  readonly error: string
  readonly details: FailureDetails | undefined
}

/** It goes back as it was, with the due time that it had: nothing was decided about it. */
export interface Back {
  readonly kind: 'back'
  readonly dueUs: number
  /** It is due as soon as this is written: sleeping workers are woken. */
  readonly atOnce: boolean
  readonly attempt: number
}

/** Why a message is not tried again, after how many attempts. */
export interface GivenUp {
  readonly attempt: number
  readonly reason: string
  /** Of its last attempt. */
  readonly error: string | null
}

/** A message with what was decided about it. */
export interface Decided {
  readonly message: DeliveredMessage
  readonly decision: Decision
  /** As subscribers and counts get it; undefined: no handler has handled it. */
  readonly outcome: Outcome | undefined
  /** Reported when it has been written. */
  readonly event: SluiceEvent | undefined
}

/** Whether it is due again as soon as it is written, also where it was decided some time ago. @param nowUs the database's clock */
export function isDue({ decision }: Decided, nowUs: number): boolean {
  return (decision.kind === 'later' || decision.kind === 'back') && (decision.atOnce || decision.dueUs <= nowUs)
}

/** The milliseconds until it is due again; undefined: it is not retried. @param nowUs the database's clock */
export function dueInMs({ decision }: Decided, nowUs: number): number | undefined {
  return decision.kind === 'later' ? Math.max(0, (decision.dueUs - nowUs) / 1_000) : undefined
}

/** Whether later messages of its key wait for it. */
export function holdsBack({ decision: { kind } }: Decided): boolean {
  return kind === 'later' || kind === 'blocked'
}
