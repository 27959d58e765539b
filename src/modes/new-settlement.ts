import type { PipelinePlan } from '../plan/options.ts'
import { Settlement, type SettlementOptions } from '../settle/settlement.ts'
import { isEventAnswer } from '../stream/event-claimer.ts'
import { EventSettlement } from '../stream/event-settlement.ts'
import { attemptRules } from './attempt-rules.ts'
import type { Runtime } from './runtime.ts'

/** The database's clock in an answer, and this process's when the question was sent, which is not later. */
export interface ClockAnswer {
  readonly nowUs: number
  readonly sentAtMs: number
}

/** A settlement of messages, or of events of a stream, that were claimed at that time. */
export function newSettlement(runtime: Runtime, plan: PipelinePlan, answer: ClockAnswer): Settlement {
  const { alphabet, report, serverVersion, historyBy } = runtime
  const { nowUs, sentAtMs } = answer
  const options: SettlementOptions = {
    plan,
    rules: attemptRules(runtime, plan),
    alphabet,
    report,
    serverVersion: serverVersion(),
    historyBy: () => historyBy(plan.queue),
    claimedUs: nowUs,
    nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000,
  }
  return isEventAnswer(answer) ? new EventSettlement(options, answer.log) : new Settlement(options)
}
