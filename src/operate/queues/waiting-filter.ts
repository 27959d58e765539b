import { checkKeys } from '../../basics/checks/check-keys.ts'
import { expected } from '../../errors.ts'
import { type MessageState, WAITING_STATES } from '../../message.ts'
import type { WaitingMatch } from '../../table/operate/queues/waiting-match.ts'
import { flag, instant, oneOf, readFields, refuseUndefined, text } from '../options.ts'

/**
 * Which messages `operate.queues.clear` removes and `operate.queues.move` moves: those that match everything given and are not
 * in flight. One that is there and undefined is refused, because without it more messages match.
 */
export interface WaitingFilter {
  readonly type?: string
  readonly orderingKey?: string
  readonly tenant?: string
  readonly state?: Exclude<MessageState, 'in_flight' | 'dead'>
  /** Only those that were enqueued before this instant, by the database's clock. */
  readonly enqueuedBefore?: Date
  /** Only those that were enqueued at this instant or later. */
  readonly enqueuedAfter?: Date
  /** Only counts them. @default false */
  readonly dryRun?: boolean | undefined
}

/**
 * @param given the filter, if there is one: an undefined one is refused
 * @throws SluiceError OPTION_INVALID
 */
export function readWaitingFilter(what: string, given: readonly unknown[], remedy: string): WaitingMatch {
  const filter = given.length === 0 ? {} : given[0]
  if (filter === undefined)
    throw expected('OPTION_INVALID', what, 'a filter', undefined, `${remedy}. Leave the filter out to match all`)
  checkKeys(what, filter, Object.keys(FILTER), remedy)
  const { dryRun, ...match } = readFields(what, filter, FILTER, remedy)
  refuseUndefined(what, filter, Object.keys(match))
  return { ...match, dryRun }
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
