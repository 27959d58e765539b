import { Demand } from '../../demand/demand.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { TransactionalRound } from './transactional-round.ts'

/** The demand of a pipeline in transactional mode: a batch is claimed, handled and settled in one transaction. */
export function transactional(runtime: Runtime, consumption: Consumption<TransactionalPlan>): Demand {
  const { plan, onEnded } = consumption
  const { queue, concurrency } = plan
  return new Demand({
    queue,
    concurrency,
    scheduler: runtime.scheduler,
    round: new TransactionalRound(runtime, consumption),
    onEnded,
  })
}
