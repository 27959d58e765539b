import { type Command, InvalidArgumentError } from 'commander'
import { given } from '../../basics/given.ts'
import type { Operate, WaitingFilter } from '../../index.ts'
import { WAITING_STATES } from '../../message.ts'
import { ELSEWHERE } from '../../operate/queues/waiting-filter.ts'
import { parse } from './options.ts'

/** The options that {@link addWaitingFilter} adds, and what {@link waitingFilterOf} reads. */
export interface WaitingFilterOptions {
  readonly type?: string
  readonly orderingKey?: string
  readonly tenant?: string
  readonly state?: NonNullable<WaitingFilter['state']>
  readonly olderThan?: number
  readonly newerThan?: number
}

/** Adds options that choose messages of a queue that are not in flight. */
export function addWaitingFilter(command: Command): Command {
  return command
    .option('-t, --type <type>', 'only messages of this type')
    .option('-k, --ordering-key <key>', 'only messages with this ordering key')
    .option('--tenant <tenant>', 'only messages of this tenant')
    .option('-s, --state <state>', `only messages in this state: ${WAITING_STATES.join(', ')}`, stateOf)
    .option('--older-than <duration>', 'only those that were enqueued longer ago than this', parse.durationMs)
    .option('--newer-than <duration>', 'only those that were enqueued more recently than this', parse.durationMs)
}

/** The filter, without what is enqueued from now on. */
export async function waitingFilterOf(operate: Operate, options: WaitingFilterOptions): Promise<WaitingFilter> {
  const nowMs = (await operate.now()).getTime()
  const { olderThan, newerThan, type, tenant, state, orderingKey } = options
  return given({
    type,
    tenant,
    state,
    orderingKey,
    enqueuedBefore: new Date(nowMs - (olderThan ?? 0)),
    enqueuedAfter: newerThan === undefined ? undefined : new Date(nowMs - newerThan),
  })
}

function stateOf(text: string): NonNullable<WaitingFilterOptions['state']> {
  const state = WAITING_STATES.find((known) => known === text)
  if (state !== undefined) return state
  const elsewhere = Object.hasOwn(ELSEWHERE, text) ? ELSEWHERE[text] : undefined
  throw new InvalidArgumentError(`Expected one of ${WAITING_STATES.join(', ')}.${elsewhere ? ` ${elsewhere}` : ''}`)
}
