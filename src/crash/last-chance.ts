import type { Evidence } from '../table/worker/evidence.ts'

/** Whether the next death with this message in flight may be its last. */
export function isLastChance(evidence: Evidence | undefined, crashLimit: number): boolean {
  return evidence !== undefined && evidence.crashes >= Math.max(1, crashLimit - 1)
}
