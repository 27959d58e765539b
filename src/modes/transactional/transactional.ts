import { Demand } from '../../demand/demand.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import { sourceOf } from '../../source/of-plan.ts'
import { GroupParking } from '../../wake-up/group-parking.ts'
import { pausing } from '../pausing.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { TransactionalRound } from './transactional-round.ts'

/** The demand of a pipeline in transactional mode: a batch is claimed, handled and settled in one transaction. */
export function transactional(runtime: Runtime, consumption: Consumption<TransactionalPlan>): Demand {
  const { plan, onEnded } = consumption
  const { queue, concurrency, throttleMs } = plan
  const source = sourceOf(runtime, plan)
  const { wokenBy } = source
  return new Demand({
    queue,
    concurrency,
    throttleMs,
    scheduler: wokenBy === undefined ? runtime.scheduler : new GroupParking(runtime.scheduler, wokenBy),
    round: new TransactionalRound(runtime, consumption, source),
    ...pausing(runtime, queue),
    onEnded,
  })
}
