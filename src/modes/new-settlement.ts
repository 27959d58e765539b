import type { PipelinePlan } from '../plan/options.ts'
import { Settlement, type SettlementOptions } from '../settle/settlement.ts'
import { isEventAnswer } from '../stream/event-claimer.ts'
import { EventSettlement } from '../stream/event-settlement.ts'
import { attemptRules } from './attempt-rules.ts'
import type { Runtime } from './runtime.ts'

/** The database's clock in an answer, and this process's before the question was sent and when it was answered. */
export interface ClockAnswer {
  readonly nowUs: number
  readonly sentAtMs: number
  readonly answeredAtMs: number
}

/** One clock may run faster than the other by less than a thousandth: servers that set theirs do so by half of that. */
const SLOWEST = 0.999

/** A settlement of messages, or of events of a stream, that were claimed at that time. */
export function newSettlement(runtime: Runtime, plan: PipelinePlan, answer: ClockAnswer): Settlement {
  const { alphabet, report, serverVersion, workerName, historyBy } = runtime
  const { nowUs, sentAtMs, answeredAtMs } = answer
  const options: SettlementOptions = {
    plan,
    rules: attemptRules(runtime, plan),
    alphabet,
    report,
    serverVersion: serverVersion(),
    workerName,
    historyBy: () => historyBy(plan.queue),
    claimedUs: nowUs,
    nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000,
    passedUs: () => nowUs + (performance.now() - answeredAtMs) * 1_000 * SLOWEST,
  }
  return isEventAnswer(answer) ? new EventSettlement(options, answer.log) : new Settlement(options)
}
