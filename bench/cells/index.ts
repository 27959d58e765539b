import type { Cell } from '../cell.ts'
import { drainBatches, drainSingles } from './drain.ts'
import { effectsBatch, effectsEach } from './effects.ts'
import { enqueueMany, enqueueOne } from './enqueue.ts'
import { latency } from './latency.ts'

/** All cells, in the order in which they run. */
export const CELLS: readonly Cell[] = [
  drainBatches,
  drainSingles,
  effectsEach,
  effectsBatch,
  enqueueOne,
  enqueueMany,
  latency,
]
