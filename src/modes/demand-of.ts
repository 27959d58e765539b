import { Demand } from '../demand/demand.ts'
import type { Round } from '../demand/round.ts'
import type { Consumption } from '../handle/consumption.ts'
import type { PipelinePlan } from '../plan/options.ts'
import { GroupSleepers } from '../wake-up/group-sleepers.ts'
import { type DemandSleepers, wakeNameOf } from '../wake-up/sleepers.ts'
import { LeasedRound } from './leased/leased-round.ts'
import type { Runtime } from './runtime.ts'
import { TransactionalRound } from './transactional/transactional-round.ts'

/** The demand of a pipeline, with the round of its mode. It does not run yet. */
export function demandOf(runtime: Runtime, consumption: Consumption): Demand {
  const { plan } = consumption
  const { settings, report } = runtime
  return new Demand({
    plan,
    round: roundOf(runtime, consumption),
    sleepers: sleepersOf(runtime, plan),
    settings,
    report,
  })
}

function roundOf(runtime: Runtime, consumption: Consumption): Round {
  const { plan } = consumption
  if (plan.mode === 'leased') return new LeasedRound(runtime, { ...consumption, plan })
  return new TransactionalRound(runtime, { ...consumption, plan })
}

/** A group sleeps on its stream as well. */
function sleepersOf({ sleepers }: Runtime, plan: PipelinePlan): DemandSleepers {
  const log = plan.mode === 'transactional' ? plan.log : undefined
  return log === undefined ? sleepers : new GroupSleepers(sleepers, wakeNameOf(log.stream))
}
