import { type MessageState, WAITING_STATES } from '../message.ts'
import type { WaitingMatch } from '../table/operate/waiting-match.ts'
import { flag, instant, oneOf, readFields, text } from './options.ts'

/**
 * Which messages `operate.queues.clear` removes and `operate.queues.move` moves: those that match everything given and are not
 * in flight.
 */
export interface WaitingFilter {
  readonly type?: string | undefined
  readonly orderingKey?: string | undefined
  readonly tenant?: string | undefined
  readonly state?: Exclude<MessageState, 'in_flight' | 'dead'> | undefined
  /** Only those that were enqueued before this instant, by the database's clock. */
  readonly enqueuedBefore?: Date | undefined
  /** Only those that were enqueued at this instant or later. */
  readonly enqueuedAfter?: Date | undefined
  /** Only counts them. @default false */
  readonly dryRun?: boolean | undefined
}

/** @throws SluiceError OPTION_INVALID */
export function readWaitingFilter(what: string, filter: WaitingFilter, remedy: string): WaitingMatch {
  return readFields(what, filter, FILTER, remedy)
}

/** For the states of messages that do not wait: what acts on them. */
export const ELSEWHERE: Readonly<Record<string, string>> = {
  dead: 'operate.deadLetters redrives and deletes dead letters, as do sluice dead redrive and sluice dead delete',
  in_flight: 'operate.messages.cancel stops a message in flight, as does sluice message cancel',
  completed: 'The setting history of the queue says how long completed messages are kept',
}

const FILTER = {
  type: text,
  orderingKey: text,
  tenant: text,
  state: oneOf(WAITING_STATES, WAITING_STATES.join(', '), ELSEWHERE),
  enqueuedBefore: instant,
  enqueuedAfter: instant,
  dryRun: flag,
}
