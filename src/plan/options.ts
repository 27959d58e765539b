import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/duration.ts'
import { integer } from '../basics/options.ts'
import { expected } from '../errors.ts'
import { type RetryOptions, type RetryPolicy, retryPolicy } from './retry-policy.ts'

/** How a pipeline consumes its queue. */
export interface PipelineOptions {
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

/** The options, complete and checked. */
export interface PipelinePlan {
  readonly queue: string
  readonly concurrency: number
  readonly batchSize: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly maxAttempts: number
  readonly ordered: boolean
}

export const PIPELINE_OPTIONS = [
  'concurrency',
  'batchSize',
  'timeout',
  'retry',
  'maxAttempts',
  'ordered',
] as const satisfies readonly (keyof PipelineOptions)[]

const PIPELINE_DEFAULTS = { concurrency: 1, batchSize: 10, maxAttempts: 20 } as const

/** @throws SluiceError OPTION_INVALID */
export function resolvePipeline(queue: string, options: PipelineOptions): PipelinePlan {
  const what = `pipeline(${JSON.stringify(queue)})`
  checkKeys(what, options, PIPELINE_OPTIONS)
  const { ordered = false, timeout = '30s' } = options
  if (typeof ordered !== 'boolean') throw expected('OPTION_INVALID', `${what}.ordered`, 'true or false', ordered)
  const defaults = PIPELINE_DEFAULTS
  return {
    queue,
    concurrency: integer(`${what}.concurrency`, options.concurrency, defaults.concurrency, 1, 1_000),
    batchSize: integer(`${what}.batchSize`, options.batchSize, defaults.batchSize, 1, 1_000),
    timeoutMs: toMsWithin(`${what}.timeout`, timeout, '1ms', '1h'),
    retry: retryPolicy(options.retry, Math.random, `${what}.retry`),
    maxAttempts: integer(`${what}.maxAttempts`, options.maxAttempts, defaults.maxAttempts, 1, 1_000_000),
    ordered,
  }
}
