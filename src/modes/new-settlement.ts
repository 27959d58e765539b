import type { PipelinePlan } from '../plan/options.ts'
import { isOrdered } from '../plan/options.ts'
import type { DatabaseClock, Rules } from '../settle/decide.ts'
import { LockedRows } from '../settle/locked-rows.ts'
import { Settlement } from '../settle/settlement.ts'
import { isEventAnswer } from '../stream/event-claimer.ts'
import { LogRows } from '../stream/log-rows.ts'
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

/** The settlement of a batch of messages, or of events of a stream, that one claim has answered. */
export function newSettlement(runtime: Runtime, plan: PipelinePlan, answer: ClockAnswer): Settlement {
  const { alphabet, serverVersion, historyBy } = runtime
  const { queue } = plan
  const rules = rulesOf(runtime, plan, answer)
  const { passedUs } = rules.clock
  if (isEventAnswer(answer)) {
    const sink = new LogRows(answer.log, { queue, alphabet, passedUs })
    const stopsAt = answer.log.onFailure === 'stop' ? sink.slotOf : undefined
    return new Settlement({ ...rules, stopsAt }, sink, alphabet)
  }
  const sink = new LockedRows({
    queue,
    ordered: isOrdered(plan),
    claimedUs: answer.nowUs,
    passedUs,
    serverVersion: serverVersion(),
    historyBy: () => historyBy(queue),
    alphabet,
  })
  return new Settlement(rules, sink, alphabet)
}

/** What decisions about messages go by that a claim has answered. */
export function rulesOf(runtime: Runtime, plan: PipelinePlan, answer: ClockAnswer): Rules {
  const { workerName } = runtime
  return { queue: plan.queue, attempts: attemptRules(runtime, plan), clock: clockOf(answer), workerName }
}

function clockOf({ nowUs, sentAtMs, answeredAtMs }: ClockAnswer): DatabaseClock {
  return {
    nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000,
    passedUs: () => nowUs + (performance.now() - answeredAtMs) * 1_000 * SLOWEST,
  }
}
