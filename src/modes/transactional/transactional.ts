import { Demand } from '../../demand/demand.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import { GroupParking } from '../../wake-up/group-parking.ts'
import { wakeNameOf } from '../../wake-up/scheduler.ts'
import { pausing } from '../pausing.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { TransactionalRound } from './transactional-round.ts'

/** The demand of a pipeline in transactional mode: a batch is claimed, handled and settled in one transaction. */
export function transactional(runtime: Runtime, consumption: Consumption<TransactionalPlan>): Demand {
  const { plan, onEnded } = consumption
  const { queue, concurrency, throttleMs, log } = plan
  return new Demand({
    queue,
    concurrency,
    throttleMs,
    scheduler: log === undefined ? runtime.scheduler : new GroupParking(runtime.scheduler, wakeNameOf(log.stream)),
    round: new TransactionalRound(runtime, consumption),
    ...pausing(runtime, queue),
    onEnded,
  })
}
