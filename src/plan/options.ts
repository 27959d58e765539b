import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/duration.ts'
import { integer } from '../basics/options.ts'
import { expected } from '../errors.ts'
import { MAX_ATTEMPTS, type RetryOptions, type RetryPolicy, retryPolicy } from './retry-policy.ts'

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
}

/** How a pipeline consumes its queue in leased mode. */
export interface LeasedPipelineOptions extends Pick<PipelineOptions, 'retry' | 'maxAttempts'> {
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
] as const satisfies readonly (keyof PipelineOptions)[]

const PIPELINE_DEFAULTS = { concurrency: 1, batchSize: 10, maxAttempts: MAX_ATTEMPTS } as const

/** @throws SluiceError OPTION_INVALID */
export function resolvePipeline(queue: string, options: PipelineOptions | LeasedPipelineOptions): PipelinePlan {
  const what = `pipeline(${JSON.stringify(queue)})`
  if (options?.mode === 'leased') return resolveLeased(what, queue, options)
  checkKeys(what, options, PIPELINE_OPTIONS)
  const { mode = 'transactional', ordered = false, timeout = '30s' } = options
  if (mode !== 'transactional') throw expected('OPTION_INVALID', `${what}.mode`, "'transactional' or 'leased'", mode)
  if (typeof ordered !== 'boolean') throw expected('OPTION_INVALID', `${what}.ordered`, 'true or false', ordered)
  const defaults = PIPELINE_DEFAULTS
  return {
    queue,
    mode,
    concurrency: integer(`${what}.concurrency`, options.concurrency, defaults.concurrency, 1, 1_000),
    batchSize: integer(`${what}.batchSize`, options.batchSize, defaults.batchSize, 1, 1_000),
    timeoutMs: toMsWithin(`${what}.timeout`, timeout, '1ms', '1h'),
    retry: retryPolicy(options.retry, Math.random, `${what}.retry`),
    maxAttempts: integer(`${what}.maxAttempts`, options.maxAttempts, defaults.maxAttempts, 1, 1_000_000),
    ordered,
  }
}

export const LEASED_OPTIONS = [
  'mode',
  'concurrency',
  'batchSize',
  'lease',
  'timeout',
  'retry',
  'maxAttempts',
] as const satisfies readonly (keyof LeasedPipelineOptions)[]

/** @throws SluiceError OPTION_INVALID, in which `what` stands for the call */
export function resolveLeased(what: string, queue: string, options: LeasedPipelineOptions): LeasedPlan {
  if ('ordered' in options && options.ordered) {
    const remedy = 'Give the messages an orderingKey: those of one key are handled in order in both modes'
    throw expected('OPTION_INVALID', `${what}.ordered`, 'no such option in leased mode', options.ordered, remedy)
  }
  checkKeys(what, options, LEASED_OPTIONS)
  const concurrency = integer(`${what}.concurrency`, options.concurrency, 10, 1, 10_000)
  return {
    queue,
    mode: 'leased',
    leaseMs: toMsWithin(`${what}.lease`, options.lease ?? '5m', '1s', '24h'),
    concurrency,
    batchSize: integer(`${what}.batchSize`, options.batchSize, Math.min(concurrency, 100), 1, 1_000),
    timeoutMs: toMsWithin(`${what}.timeout`, options.timeout ?? '15m', '1ms', '7d'),
    retry: retryPolicy(options.retry, Math.random, `${what}.retry`),
    maxAttempts: integer(`${what}.maxAttempts`, options.maxAttempts, PIPELINE_DEFAULTS.maxAttempts, 1, 1_000_000),
  }
}
