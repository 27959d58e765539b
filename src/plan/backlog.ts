import { checkKeys } from '../basics/checks/check-keys.ts'
import { integerWithin } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'

/** When a pipeline warns of what its queue has, by the event `queue.backlog` and a line in the log. */
export interface BacklogOptions {
  /** When there are more messages than this, whether due or not: 1 to 1,000,000. */
  readonly messages?: number | undefined
  /** When the oldest due message has been due for longer than this: 1 s to 100 days. */
  readonly age?: Duration | undefined
  /** How often to look, 1 s to 24 h. @default '1m' */
  readonly every?: Duration | undefined
  /** The least time between two warnings, 1 s to 100 days. @default '6h' */
  readonly again?: Duration | undefined
}

/** The options, complete and checked. */
export interface BacklogPlan {
  readonly messages: number | undefined
  readonly ageMs: number | undefined
  readonly everyMs: number
  readonly againMs: number
}

/** @throws SluiceError OPTION_INVALID */
export function resolveBacklog(what: string, options: BacklogOptions | undefined): BacklogPlan | undefined {
  if (options === undefined) return undefined
  checkKeys(what, options, ['messages', 'age', 'every', 'again'], "As in { messages: 1_000, age: '10m' }")
  const { messages, age, every = '1m', again = '6h' } = options
  if (messages === undefined && age === undefined) {
    throw expected('OPTION_INVALID', what, 'messages or age', options, "As in { messages: 1_000, age: '10m' }")
  }
  return {
    messages: messages === undefined ? undefined : integerWithin(`${what}.messages`, messages, 1, 1_000_000),
    ageMs: age === undefined ? undefined : toMsWithin(`${what}.age`, age, '1s', '100d'),
    everyMs: toMsWithin(`${what}.every`, every, '1s', '24h'),
    againMs: toMsWithin(`${what}.again`, again, '1s', '100d'),
  }
}
