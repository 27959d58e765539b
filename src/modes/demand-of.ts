import { Demand } from '../demand/demand.ts'
import type { Consumption } from '../handle/consumption.ts'
import { sourceOf } from '../source/of-plan.ts'
import { GroupSleepers } from '../wake-up/group-sleepers.ts'
import { LeasedRound } from './leased/leased-round.ts'
import type { Runtime } from './runtime.ts'
import { TransactionalRound } from './transactional/transactional-round.ts'

/** The demand of a pipeline, with the round of its mode. It does not run yet. */
export function demandOf(runtime: Runtime, consumption: Consumption): Demand {
  const { plan } = consumption
  const { settings, report, sleepers } = runtime
  if (plan.mode === 'leased') {
    const round = new LeasedRound(runtime, { ...consumption, plan })
    return new Demand(plan, round, sleepers, report, settings)
  }
  const source = sourceOf(runtime, plan)
  const { wokenBy } = source
  const round = new TransactionalRound(runtime, { ...consumption, plan }, source)
  const sleepsIn = wokenBy === undefined ? sleepers : new GroupSleepers(sleepers, wokenBy)
  return new Demand(plan, round, sleepsIn, report, settings)
}
