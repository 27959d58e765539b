import { Demand } from '../../demand/demand.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { LeasedRound } from './leased-round.ts'

/**
 * The demand of a pipeline in leased mode: a short transaction claims, handlers run with none open, and a short
 * transaction settles. One place claims for all of them; how many messages may be in hand is the round's business.
 */
export function leased(runtime: Runtime, consumption: Consumption<LeasedPlan>): Demand {
  const { plan, onEnded } = consumption
  const round = new LeasedRound(runtime, consumption)
  return new Demand({ queue: plan.queue, concurrency: 1, scheduler: runtime.scheduler, round, onEnded })
}
