import { checkKeys } from '../basics/check-keys.ts'
import { expected } from '../errors.ts'
import { type MessageState, WAITING_STATES } from '../message.ts'
import type { ClearMatch } from '../table/operate/change-message.ts'
import { booleanOf, microsecondsOf, textOf } from './options.ts'

/** Which messages `operate.queues.clear` removes: those that match everything given and are not in flight. */
export interface ClearFilter {
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
export function readClearFilter(filter: ClearFilter): ClearMatch {
  const what = 'queues.clear'
  checkKeys(what, filter, FILTERS, `As in ${what}('emails', { type: 'order.paid' })`)
  const { state } = filter
  if (state !== undefined && !WAITING_STATES.includes(state))
    throw expected('OPTION_INVALID', `${what}.state`, WAITING_STATES.join(', '), state, OTHER_STATES.get(state))
  return {
    type: textOf(filter.type, `${what}.type`) ?? null,
    orderingKey: textOf(filter.orderingKey, `${what}.orderingKey`) ?? null,
    tenant: textOf(filter.tenant, `${what}.tenant`) ?? null,
    enqueuedBeforeUs: microsecondsOf(filter.enqueuedBefore, `${what}.enqueuedBefore`),
    enqueuedAfterUs: microsecondsOf(filter.enqueuedAfter, `${what}.enqueuedAfter`),
    state: state ?? null,
    dryRun: booleanOf(filter.dryRun, `${what}.dryRun`) ?? false,
  }
}

const OTHER_STATES: ReadonlyMap<unknown, string> = new Map([
  ['dead', 'operate.deadLetters.delete removes dead letters'],
  ['in_flight', 'operate.messages.cancel stops a message in flight'],
  ['completed', 'The setting history of the queue says how long completed messages are kept'],
])
const FILTERS = ['type', 'orderingKey', 'tenant', 'state', 'enqueuedBefore', 'enqueuedAfter', 'dryRun'] as const
