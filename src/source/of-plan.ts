import type { TransactionalPlan } from '../plan/options.ts'
import { LockedSource } from './locked-source.ts'
import { LogSource } from './log/log-source.ts'
import type { SourceRuntime } from './rules-of.ts'
import type { Source } from './source.ts'

/** Where the batches of a pipeline come from. */
export function sourceOf(runtime: SourceRuntime, plan: TransactionalPlan): Source {
  return plan.log === undefined ? new LockedSource(runtime, plan) : new LogSource(runtime, plan, plan.log)
}
