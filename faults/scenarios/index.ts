import type { Scenario } from '../run/scenario.ts'
import { killClaimed, killEffects, killHandling } from './kill-worker.ts'
import { noFault } from './no-fault.ts'

/** All scenarios, in the order of the matrix. */
export const SCENARIOS: readonly Scenario[] = [noFault, killClaimed, killHandling, killEffects]
