import type { Cell } from '../cell.ts'
import { backlog } from './backlog.ts'
import { drainBatches, drainSingles } from './drain.ts'
import { effectsBatch, effectsEach } from './effects.ts'
import { enqueueMany, enqueueOne } from './enqueue.ts'
import { idle } from './idle.ts'
import { latency } from './latency.ts'
import { memory } from './memory.ts'
import { ordering } from './ordering.ts'
import { pinnedHorizon } from './pinned-horizon.ts'
import { processes, processesKeyed } from './processes.ts'
import { standby } from './standby.ts'

/** All cells, in the order in which they run. */
export const CELLS: readonly Cell[] = [
  drainBatches,
  drainSingles,
  effectsEach,
  effectsBatch,
  enqueueOne,
  enqueueMany,
  standby,
  latency,
  pinnedHorizon,
  backlog,
  ordering,
  processes,
  processesKeyed,
  idle,
  memory,
]
