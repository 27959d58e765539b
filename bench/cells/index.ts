import type { Cell } from '../cell.ts'
import { drainBatches, drainSingles } from './drain.ts'

/** All cells, in the order in which they run. */
export const CELLS: readonly Cell[] = [drainBatches, drainSingles]
