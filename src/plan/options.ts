import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/duration.ts'
import { integer } from '../basics/options.ts'
import { expected, SluiceError } from '../errors.ts'
import type { Message } from '../message.ts'
import { MAX_ATTEMPTS, type RetryOptions, type RetryPolicy, retryPolicy } from '../retry-policy.ts'
import { checkGroupName, groupQueue } from '../streams.ts'
import { type BacklogOptions, type BacklogPlan, resolveBacklog } from './backlog.ts'

/** How a pipeline delivers its messages. */
export type Mode = 'transactional' | 'leased'

/** How a pipeline consumes its queue. */
export interface PipelineOptions {
  /** One transaction claims the messages, has them handled and settles them. @default 'transactional' */
  readonly mode?: 'transactional' | undefined
  /**
   * How many batches are in flight in this process, each on its own connection, 1 to 1,000. The messages of one batch
   * are handled one after another: for handlers that should run side by side, because they wait for other services,
   * take `batchSize: 1`. @default 1
   */
  readonly concurrency?: number | undefined
  /**
   * The most messages in one transaction, 1 to 1,000. Their handlers run one after another. With handlers that write
   * through `tx`, more than 64 make the server's snapshots slower (subtransactions). @default 10
   */
  readonly batchSize?: number | undefined
  /**
   * The longest that one handler may take, 1 ms to 1 h. No handler of a batch starts later than that after the first,
   * so a transaction lasts at most twice as long; the server enforces it. @default '30s'
   */
  readonly timeout?: Duration | undefined
  /** When to try failed messages again. @default exponential: 1 s, 2 s, 4 s, … 1 h, with 20 % jitter */
  readonly retry?: RetryOptions | undefined
  /**
   * After how many failed attempts a message becomes a dead letter, 1 to 1,000,000; a message's own limit takes
   * precedence.
   * @default 20
   */
  readonly maxAttempts?: number | undefined
  /**
   * Handle the messages without an ordering key in order as well, as one sequence across all processes. Messages with
   * a key are always in order of their key. All pipelines of a queue should agree. @default false
   */
  readonly ordered?: boolean | undefined
  /**
   * The least time between two claims of this pipeline, 1 ms to 1 h. In this process alone: with `batchSize: 10` and
   * `throttle: '1s'` it takes 10 messages a second at most. @default none
   */
  readonly throttle?: Duration | undefined
  /**
   * Called after each attempt that failed with an error, before that is written: `'continue'`; `'pause'` calls `pause()`; `'stop'` lets what
   * is in hand end, and ends the pipeline. What it throws is reported as `onError.failed`, and counts as `'continue'`.
   * @default always 'continue'
   */
  readonly onError?: OnError | undefined
  /** Warns when the queue has more messages, or older ones, than it should. @default never */
  readonly backlog?: BacklogOptions | undefined
  /** Of a pipeline that consumes a stream: see {@link GroupPipelineOptions}. */
  readonly group?: undefined
}

/** How a pipeline consumes a stream. Its first argument is the stream's name. */
export interface GroupPipelineOptions extends Omit<PipelineOptions, 'ordered' | 'group'> {
  /** There is no such option: events of one ordering key are handled in order, and so is a stream with one slot. */
  readonly ordered?: undefined
  /**
   * The group, which `sluice.groups.set` has made: every group gets every event, and the members of a group, in any number of
   * processes, share them. Failed events, and the later ones of their keys, are messages of the queue `<stream>:<group>` until
   * they are settled.
   */
  readonly group: string
}

/** Decides what a pipeline does after an attempt that failed: what the handler threw, or why it failed otherwise. */
export type OnError = (error: unknown, message: Message) => 'continue' | 'pause' | 'stop'

/** How a pipeline consumes its queue in leased mode. */
export interface LeasedPipelineOptions
  extends Pick<PipelineOptions, 'retry' | 'maxAttempts' | 'throttle' | 'onError' | 'backlog'> {
  /** A short transaction claims and a short one settles; the handler runs with none open. */
  readonly mode: 'leased'
  /** Messages in hand in this process at a time, 1 to 10,000: their handlers run side by side. @default 10 */
  readonly concurrency?: number | undefined
  /** The most messages that one claim takes, 1 to 1,000. @default the concurrency, up to 100 */
  readonly batchSize?: number | undefined
  /**
   * How long a message is nobody else's after its worker was last heard of. It is renewed while the handler runs, so it
   * bounds the wait after a death that nobody sees, and not the work. 1 s to 24 h. @default '5m'
   */
  readonly lease?: Duration | undefined
  /** The longest that one handler may take, 1 ms to 7 days. @default '15m' */
  readonly timeout?: Duration | undefined
}

/** The options, complete and checked. */
export type PipelinePlan = TransactionalPlan | LeasedPlan

export interface TransactionalPlan extends CommonPlan {
  readonly mode: 'transactional'
  readonly ordered: boolean
  /** What it consumes is a stream, for this group, and `queue` is the group's. */
  readonly log?: { readonly stream: string; readonly group: string } | undefined
}

export interface LeasedPlan extends CommonPlan {
  readonly mode: 'leased'
  readonly leaseMs: number
}

interface CommonPlan {
  readonly queue: string
  readonly concurrency: number
  readonly batchSize: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly maxAttempts: number
  readonly throttleMs: number | undefined
  readonly onError: OnError | undefined
  readonly backlog: BacklogPlan | undefined
}

/** Whether messages without an ordering key are one sequence. */
export function isOrdered(plan: PipelinePlan): boolean {
  return plan.mode === 'transactional' && plan.ordered
}

export const PIPELINE_OPTIONS = [
  'mode',
  'concurrency',
  'batchSize',
  'timeout',
  'retry',
  'maxAttempts',
  'ordered',
  'throttle',
  'onError',
  'backlog',
  'group',
] as const satisfies readonly (keyof PipelineOptions)[]

/** Of one pipeline: batches, each on a connection, or messages. */
export const MOST_CONCURRENCY = { transactional: 1_000, leased: 10_000 } as const

const PIPELINE_DEFAULTS = { concurrency: 1, batchSize: 10, maxAttempts: MAX_ATTEMPTS } as const

/** @throws SluiceError OPTION_INVALID */
export function resolvePipeline(
  queue: string,
  options: PipelineOptions | GroupPipelineOptions | LeasedPipelineOptions,
): PipelinePlan {
  const what = `pipeline(${JSON.stringify(queue)})`
  if (options?.mode === 'leased') return resolveLeased(what, queue, options)
  checkElsewhere(what, options)
  checkKeys(what, options, PIPELINE_OPTIONS)
  const { mode = 'transactional', ordered = false, timeout = '30s' } = options
  if (mode !== 'transactional') throw expected('OPTION_INVALID', `${what}.mode`, "'transactional' or 'leased'", mode)
  if (typeof ordered !== 'boolean') throw expected('OPTION_INVALID', `${what}.ordered`, 'true or false', ordered)
  const log = logOf(what, queue, options)
  const defaults = PIPELINE_DEFAULTS
  return {
    queue: log === undefined ? queue : groupQueue(log),
    log,
    mode,
    concurrency: integer(
      `${what}.concurrency`,
      options.concurrency,
      defaults.concurrency,
      1,
      MOST_CONCURRENCY.transactional,
    ),
    batchSize: integer(`${what}.batchSize`, options.batchSize, defaults.batchSize, 1, 1_000),
    timeoutMs: toMsWithin(`${what}.timeout`, timeout, '1ms', '1h'),
    retry: retryPolicy(options.retry, Math.random, `${what}.retry`),
    maxAttempts: integer(`${what}.maxAttempts`, options.maxAttempts, defaults.maxAttempts, 1, 1_000_000),
    throttleMs: throttleMs(what, options),
    onError: onErrorIn(what, options),
    backlog: resolveBacklog(`${what}.backlog`, options.backlog),
    ordered,
  }
}

/** What a pipeline with a group consumes. @throws SluiceError OPTION_INVALID */
function logOf(
  what: string,
  stream: string,
  { group, ordered }: { readonly group?: string | undefined; readonly ordered?: boolean | undefined },
): TransactionalPlan['log'] {
  if (group === undefined) return undefined
  if (ordered === true) {
    const remedy = 'Events of one ordering key are handled in order; a stream with one slot is in order as a whole'
    throw new SluiceError('OPTION_INVALID', `${what}.ordered is no option with a group. ${remedy}`)
  }
  return { stream, group: checkGroupName(`${what}.group`, group) }
}

/** Options that are there, but not here. @throws SluiceError OPTION_INVALID */
function checkElsewhere(what: string, options: object | undefined): void {
  if (typeof options !== 'object' || options === null) return
  const { mode, lease }: { readonly mode?: unknown; readonly lease?: unknown } = options
  if (mode !== 'leased' && lease !== undefined) {
    const remedy = "Add mode: 'leased'; in transactional mode the transaction holds the messages"
    throw new SluiceError('OPTION_INVALID', `${what}.lease is no option of transactional mode. ${remedy}`)
  }
  const ofQueue = OF_THE_QUEUE.find((name) => Object.hasOwn(options, name))
  if (ofQueue === undefined) return
  const remedy = `It is a setting of the queue: operate.queues.settings.set(queue, { ${ofQueue} })`
  throw expected('OPTION_INVALID', what, 'the options of a pipeline', ofQueue, remedy)
}

const OF_THE_QUEUE = ['rate', 'tenantRate', 'tenantConcurrency'] as const

export const LEASED_OPTIONS = [
  'mode',
  'concurrency',
  'batchSize',
  'lease',
  'timeout',
  'retry',
  'maxAttempts',
  'throttle',
  'onError',
  'backlog',
] as const satisfies readonly (keyof LeasedPipelineOptions)[]

/** @throws SluiceError OPTION_INVALID, in which `what` stands for the call */
export function resolveLeased(what: string, queue: string, options: LeasedPipelineOptions): LeasedPlan {
  if ('group' in options && options.group !== undefined) {
    const remedy = "Leave out mode: 'leased': a group's progress moves in the transaction that handles its events"
    throw new SluiceError('OPTION_INVALID', `${what}.group is no option of leased mode. ${remedy}`)
  }
  if ('ordered' in options && options.ordered) {
    const remedy = 'Give the messages an orderingKey: those of one key are handled in order in both modes'
    throw new SluiceError('OPTION_INVALID', `${what}.ordered is no option of leased mode. ${remedy}`)
  }
  checkElsewhere(what, options)
  checkKeys(what, options, LEASED_OPTIONS)
  const concurrency = integer(`${what}.concurrency`, options.concurrency, 10, 1, MOST_CONCURRENCY.leased)
  return {
    queue,
    mode: 'leased',
    leaseMs: toMsWithin(`${what}.lease`, options.lease ?? '5m', '1s', '24h'),
    concurrency,
    batchSize: integer(`${what}.batchSize`, options.batchSize, Math.min(concurrency, 100), 1, 1_000),
    timeoutMs: toMsWithin(`${what}.timeout`, options.timeout ?? '15m', '1ms', '7d'),
    retry: retryPolicy(options.retry, Math.random, `${what}.retry`),
    maxAttempts: integer(`${what}.maxAttempts`, options.maxAttempts, PIPELINE_DEFAULTS.maxAttempts, 1, 1_000_000),
    throttleMs: throttleMs(what, options),
    onError: onErrorIn(what, options),
    backlog: resolveBacklog(`${what}.backlog`, options.backlog),
  }
}

function onErrorIn(what: string, { onError }: Pick<PipelineOptions, 'onError'>): OnError | undefined {
  if (onError === undefined || typeof onError === 'function') return onError
  const wanted = "a function that returns 'continue', 'pause' or 'stop'"
  throw expected('OPTION_INVALID', `${what}.onError`, wanted, onError)
}

function throttleMs(what: string, { throttle }: Pick<PipelineOptions, 'throttle'>): number | undefined {
  return throttle === undefined ? undefined : toMsWithin(`${what}.throttle`, throttle, '1ms', '1h')
}
