import type { PipelinePlan } from '../plan/options.ts'
import { Settlement } from '../settle/settlement.ts'
import type { Runtime } from './runtime.ts'

/** The database's clock in an answer, and this process's when the question was sent, which is not later. */
export interface ClockAnswer {
  readonly nowUs: number
  readonly sentAtMs: number
}

/** A settlement of messages that were claimed at that time. */
export function newSettlement(runtime: Runtime, plan: PipelinePlan, { nowUs, sentAtMs }: ClockAnswer): Settlement {
  const { alphabet, report, serverVersion } = runtime
  return new Settlement({
    plan,
    alphabet,
    report,
    serverVersion: serverVersion(),
    claimedUs: nowUs,
    nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000,
  })
}
