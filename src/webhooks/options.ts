import { checkKeys } from '../basics/checks/check-keys.ts'
import { given } from '../basics/given.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { OUTBOUND_OPTIONS, type OutboundOptions, type OutboundPlan, resolveOutbound } from '../outbound/options.ts'
import type { LeasedPipelineOptions, LeasedPlan } from '../plan/options.ts'
import { resolveLeased } from '../plan/resolve.ts'
import { WEBHOOK_ATTEMPTS, webhookRetry } from './retry-schedule.ts'

/** How a worker sends the webhooks of its queue. */
export interface WebhooksOptions
  extends OutboundOptions,
    Pick<LeasedPipelineOptions, 'batchSize' | 'lease' | 'retry' | 'maxAttempts' | 'throttle' | 'backlog'> {
  /** How many requests are under way at a time in this process, 1 to 10,000. @default 50 */
  readonly concurrency?: number | undefined
  /**
   * When to try failed messages again.
   * @default after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, each up to 20 % shorter by chance
   */
  readonly retry?: LeasedPipelineOptions['retry']
  /** The number of failed attempts after which a message becomes a dead letter, 1 to 1,000,000. @default 10 */
  readonly maxAttempts?: number | undefined
  /**
   * After how long of nothing but failures an endpoint is disabled, 1 h to 366 d; `false`: never. After a fifth of that time
   * `endpoint.failing` is reported. @default '5d'
   */
  readonly disableAfter?: Duration | false | undefined
}

/** The options, complete and checked. */
export interface WebhooksPlan {
  readonly pipeline: LeasedPlan
  readonly outbound: OutboundPlan
  /** Null: never. */
  readonly disableMs: number | null
}

/** @throws SluiceError OPTION_INVALID */
export function resolveWebhooks(queue: string, options: WebhooksOptions): WebhooksPlan {
  const what = `webhooks(${JSON.stringify(queue)})`
  checkKeys(what, options, KNOWN, "As in webhooks('webhooks', { concurrency: 100 })")
  const { timeout, allowHttp, ports, networks, agent, disableAfter = '5d', ...others } = options
  const outbound = resolveOutbound(what, { timeout, allowHttp, ports, networks, agent })
  return {
    pipeline: resolveLeased(what, queue, {
      concurrency: 50,
      maxAttempts: WEBHOOK_ATTEMPTS,
      retry: webhookRetry(Math.random),
      lease: '1m',
      ...given(others),
      mode: 'leased',
      timeout: outbound.timeoutMs + SPARE_MS,
    }),
    outbound,
    disableMs: disableAfter === false ? null : toMsWithin(`${what}.disableAfter`, disableAfter, '1h', '366d'),
  }
}

const KNOWN: readonly (keyof WebhooksOptions)[] = [
  'concurrency',
  ...OUTBOUND_OPTIONS,
  'disableAfter',
  'retry',
  'maxAttempts',
  'lease',
  'batchSize',
  'throttle',
  'backlog',
]

/** For a handler that reads and notes: its own limits come first. */
const SPARE_MS = 60_000
