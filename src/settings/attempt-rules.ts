import { toError } from '../errors.ts'
import { type RetryOptions, type RetryPolicies, type RetryPolicy, retryPolicy } from '../retry-policy.ts'
import type { Report } from '../telemetry/events.ts'
import { retryInMs } from './retry-in-ms.ts'
import type { Settings } from './settings.ts'

/** What a pipeline says of attempts. */
export interface AttemptPlan {
  readonly queue: string
  readonly maxAttempts: number
  readonly retry: RetryPolicy
}

export interface AttemptRulesOptions {
  readonly settings?: Settings | undefined
  /** Those that have names. */
  readonly policies?: RetryPolicies | undefined
  readonly report: Report
}

/** What a message itself says of attempts. */
interface Tried {
  readonly id: string
  readonly attempt: number
  readonly maxAttempts: number | null
  readonly row: { readonly options: { readonly retryPolicy: string | null } | null }
}

/**
 * How often a message is tried, and when: by its own options, its queue's settings, or its pipeline. Looked at
 * when it has failed, so a change is in force for messages that are in flight.
 */
export class AttemptRules {
  readonly #plan: AttemptPlan
  readonly #options: AttemptRulesOptions

  constructor(plan: AttemptPlan, options: AttemptRulesOptions) {
    this.#plan = plan
    this.#options = options
  }

  /** After how many failed attempts it becomes a dead letter. */
  mostOf({ maxAttempts }: Pick<Tried, 'maxAttempts'>): number {
    return maxAttempts ?? this.#options.settings?.of(this.#plan.queue).maxAttempts ?? this.#plan.maxAttempts
  }

  /** In how many milliseconds a message is tried again that has failed. */
  retryInMs(message: Tried, error: unknown): number {
    const { queue } = this.#plan
    const failed = (thrown: unknown) =>
      this.#options.report({ kind: 'retryPolicy.failed', queue, id: message.id, error: toError(thrown) })
    // A setting that was written by hand may be no policy.
    const policy: RetryPolicy = (attempt, given) => this.#policyOf(message)(attempt, given)
    return retryInMs(policy, message.attempt, error, failed)
  }

  #policyOf(message: Tried): RetryPolicy {
    const setting = this.#options.settings?.of(this.#plan.queue).retry
    return this.#named(message, message.row.options?.retryPolicy) ?? this.#ofQueue(message, setting) ?? this.#plan.retry
  }

  #ofQueue(message: Tried, setting: unknown): RetryPolicy | undefined {
    if (typeof setting === 'string') return this.#named(message, setting)
    // Checked when it was set; one written by hand fails, and is reported.
    return setting === null || setting === undefined ? undefined : retryPolicy(setting as RetryOptions)
  }

  #named({ id }: Tried, name: string | null | undefined): RetryPolicy | undefined {
    if (name === null || name === undefined) return undefined
    const policy = this.#options.policies?.get(name)
    if (policy === undefined) this.#options.report({ kind: 'retryPolicy.unknown', queue: this.#plan.queue, id, name })
    return policy
  }
}
