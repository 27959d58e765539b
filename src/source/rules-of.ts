import type { Control } from '../connection/control.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { RetryPolicies } from '../retry-policy.ts'
import { AttemptRules } from '../settings/attempt-rules.ts'
import type { Settings } from '../settings/settings.ts'
import type { DatabaseClock, Rules } from '../settle/decide.ts'
import type { RowsRuntime } from '../settle/send-decisions.ts'
import type { Report } from '../telemetry/events.ts'

/** What sources need of a process. */
export interface SourceRuntime extends RowsRuntime {
  readonly control: Control
  /** The settings of queues. */
  readonly settings: Settings
  /** Those that have names. */
  readonly retryPolicies: RetryPolicies | undefined
  /** As the database can hold it. */
  readonly workerName: () => string
  readonly report: Report
}

/** The database's clock in an answer, and this process's before the question was sent and when it was answered. */
export interface ClockAnswer {
  readonly nowUs: number
  readonly sentAtMs: number
  readonly answeredAtMs: number
}

/** One clock may run faster than the other by less than a thousandth: servers that set theirs do so by half of that. */
const SLOWEST = 0.999

/** What decisions about messages go by that a claim has answered. */
export function rulesOf(runtime: SourceRuntime, plan: PipelinePlan, answer: ClockAnswer): Rules {
  const { workerName } = runtime
  const { queue, destination } = plan
  return { queue, destination, attempts: attemptRules(runtime, plan), clock: clockOf(answer), workerName }
}

/** How often the messages of a pipeline are tried, and when. */
export function attemptRules(
  { settings, retryPolicies: policies, report }: SourceRuntime,
  plan: PipelinePlan,
): AttemptRules {
  return new AttemptRules(plan, { settings, policies, report })
}

function clockOf({ nowUs, sentAtMs, answeredAtMs }: ClockAnswer): DatabaseClock {
  return {
    nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000,
    passedUs: () => nowUs + (performance.now() - answeredAtMs) * 1_000 * SLOWEST,
  }
}
