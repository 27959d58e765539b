import { Demand } from '../../demand/demand.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import { pausing } from '../pausing.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { LeasedRound } from './leased-round.ts'

/**
 * The demand of a pipeline in leased mode: a short transaction claims, handlers run with none open, and a short
 * transaction settles. A few places claim for all of them; how many messages may be in hand is the round's business.
 */
export function leased(runtime: Runtime, consumption: Consumption<LeasedPlan>): Demand {
  const { plan, onEnded } = consumption
  const { queue, throttleMs } = plan
  return new Demand({
    queue,
    concurrency: 1,
    throttleMs,
    scheduler: runtime.scheduler,
    round: new LeasedRound(runtime, consumption),
    ...pausing(runtime, queue),
    onEnded,
  })
}
