import type { PipelinePlan } from '../plan/options.ts'
import { AttemptRules } from '../settings/attempt-rules.ts'
import type { Runtime } from './runtime.ts'

/** How often the messages of a pipeline are tried, and when. */
export function attemptRules({ settings, retryPolicies: policies, report }: Runtime, plan: PipelinePlan): AttemptRules {
  return new AttemptRules(plan, { settings, policies, report })
}
