import { kindOf } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer, LARGEST_INTEGER } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected, SluiceError } from '../errors.ts'
import type { PipelineOptions, TransactionalPlan } from '../plan/options.ts'
import { resolveTransactional } from '../plan/resolve.ts'
import { groupQueue, type StreamGroup } from '../streams.ts'
import type { Destination } from './destination.ts'
import { type FormatPlan, type RelayFormat, resolveFormat } from './format.ts'

/** How a relay publishes the messages of its queue, or the events of its group. */
export interface RelayOptions
  extends Pick<PipelineOptions, 'concurrency' | 'retry' | 'maxAttempts' | 'throttle' | 'backlog'> {
  /** Where the messages go, such as `nats({ … })` of `sluice/nats`. */
  readonly to: Destination
  /** What is published of a message: see {@link RelayFormat}. @default 'plain' */
  readonly format?: RelayFormat | undefined
  /** How many batches are in flight in this process, each on its own connection, 1 to 1,000. @default 2 */
  readonly concurrency?: number | undefined
  /** The most messages in one transaction, 1 to 1,000. @default 100 */
  readonly batchSize?: number | undefined
  /**
   * How long the messages of a batch may wait for their confirms, all together, 100 ms to 1 min. What has no confirm by then
   * is published again. Their transaction is open for as long. @default '5s'
   */
  readonly confirmTimeout?: Duration | undefined
  /**
   * The most bytes of payload that a batch has under way without a confirm, 1 to 2 GiB. A larger message goes alone.
   * @default 8 MiB
   */
  readonly maxInFlightBytes?: number | undefined
  /**
   * How long to wait before a destination that is out of reach is tried again, by one message: `delay` the first time, then
   * twice as long each time up to `maxDelay`, with jitter; each from 10 ms to 1 h.
   * @default { delay: '1s', maxDelay: '2m' }
   */
  readonly breaker?: { readonly delay?: Duration | undefined; readonly maxDelay?: Duration | undefined } | undefined
}

/** The options, complete and checked. */
export interface RelayPlan {
  readonly pipeline: TransactionalPlan
  readonly to: Destination
  readonly format: FormatPlan
  /** See {@link Destination.keepsOrder}. */
  readonly keepsOrder: boolean
  readonly confirmMs: number
  readonly mostBytes: number
  readonly breaker: BreakerPlan
}

export interface BreakerPlan {
  readonly delayMs: number
  readonly maxDelayMs: number
}

/** @throws SluiceError OPTION_INVALID */
export function resolveRelay(source: string | StreamGroup, options: RelayOptions): RelayPlan {
  const what = `relay(${JSON.stringify(typeof source === 'string' ? source : groupQueue(source))})`
  checkKeys(what, options, KNOWN, "As in relay('orders', { to: nats({ servers, subject }) })")
  const { to, format, confirmTimeout, maxInFlightBytes, breaker, concurrency = 2, batchSize = 100, ...others } = options
  const destination = checkDestination(what, to)
  const confirmMs = toMsWithin(`${what}.confirmTimeout`, confirmTimeout ?? '5s', '100ms', '1m')
  const timeout = confirmMs + SPARE_MS
  return {
    pipeline: {
      ...pipelineOf(what, source, { ...others, concurrency, batchSize, timeout }),
      destination: destination.system,
    },
    to: destination,
    format: resolveFormat(`${what}.format`, format, destination),
    keepsOrder: destination.keepsOrder === true,
    confirmMs,
    mostBytes: integer(`${what}.maxInFlightBytes`, maxInFlightBytes, 8 * 2 ** 20, 1, LARGEST_INTEGER),
    breaker: resolveBreaker(`${what}.breaker`, breaker ?? {}),
  }
}

/** Of a group, whatever it has published may be published again. */
function pipelineOf(what: string, source: string | StreamGroup, options: PipelineOptions): TransactionalPlan {
  if (typeof source === 'string')
    return { ...resolveTransactional(what, source, options), slotsPerClaim: SLOTS_PER_CLAIM }
  const { stream, group } = source
  const plan = resolveTransactional(what, stream, { ...options, group, ordered: undefined })
  return { ...plan, log: { stream, group, mayRepeat: true } }
}

const KNOWN: readonly (keyof RelayOptions)[] = [
  'to',
  'format',
  'concurrency',
  'batchSize',
  'confirmTimeout',
  'maxInFlightBytes',
  'breaker',
  'retry',
  'maxAttempts',
  'throttle',
  'backlog',
]

/** Keys are published side by side. In a batch of 100 each has four messages then, which are four round trips one after another. */
const SLOTS_PER_CLAIM = 25

/** A handler that is late has failed with all of its messages, and a relay never is: its own limit comes first. */
const SPARE_MS = 10_000

function checkDestination(what: string, to: unknown): Destination {
  const remedy = "As in { to: nats({ servers, subject: 'orders' }) }"
  if (kindOf(to) === 'receiver')
    throw new SluiceError('OPTION_INVALID', `${what}.to: expected a destination, received a receiver. ${remedy}`)
  if (typeof to === 'object' && to !== null && 'open' in to && typeof to.open === 'function') return to as Destination
  throw expected('OPTION_INVALID', `${what}.to`, 'a destination', to, remedy)
}

/** @throws SluiceError OPTION_INVALID */
export function resolveBreaker(what: string, breaker: NonNullable<RelayOptions['breaker']>): BreakerPlan {
  checkKeys(what, breaker, ['delay', 'maxDelay'], "As in { delay: '1s', maxDelay: '2m' }")
  const delayMs = toMsWithin(`${what}.delay`, breaker.delay ?? '1s', '10ms', '1h')
  const maxDelayMs = toMsWithin(`${what}.maxDelay`, breaker.maxDelay ?? Math.max(delayMs, 120_000), '10ms', '1h')
  if (maxDelayMs >= delayMs) return { delayMs, maxDelayMs }
  throw expected('OPTION_INVALID', `${what}.maxDelay`, `at least the delay, ${delayMs} ms`, maxDelayMs)
}
