import { Backoff } from '../../../basics/time/backoff.ts'
import { pause } from '../../../basics/time/pause.ts'
import type { Consumption } from '../../../handle/consumption.ts'
import type { LeasedPlan } from '../../../plan/options.ts'
import { isRefusal } from '../../../session/refusal.ts'
import { decideAcked, decideBack, type Rules } from '../../../settle/decide.ts'
import type { Decided } from '../../../settle/decision.ts'
import { learnTexts } from '../../../settle/send-decisions.ts'
import { countsOf, settledOf } from '../../../settle/settled-messages.ts'
import { type ClockAnswer, rulesOf } from '../../../source/rules-of.ts'
import { leftUntouched } from '../../../table/rows-missing.ts'
import { settledBefore } from '../../../table/settle/leases.ts'
import { toReport } from '../../losses.ts'
import type { Runtime } from '../../runtime.ts'
import type { LeasedMessage } from '../leased-message.ts'
import { LeaseWriter, type Retry } from './lease-writer.ts'
import { LeasedOutcome } from './leased-outcome.ts'
import { OutcomeQueue } from './outcome-queue.ts'
import { Renewer } from './renewer.ts'

/**
 * Settles the leased messages of a pipeline and renews their leases, with one transaction at a time. What ends while one
 * is under way goes with the next. Nothing waits for a timer: the first outcome after a pause leaves at once, and under
 * load the batches grow by themselves (a timer of 2 ms made the 99th percentile of the wait seven times as long).
 *
 * What cannot be written is tried again for the time of a lease at most: to send it twice is harmless. What the server
 * refuses becomes a failed attempt, or is put aside, so that its room is free.
 */
export class Settler {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #writer: LeaseWriter
  readonly #hears: HearsSettler
  /** What decisions go by, with the clock of the last claim. */
  rules: Rules
  readonly #waiting: OutcomeQueue
  readonly #renewer: Renewer
  #running: Promise<void> | undefined

  constructor(runtime: Runtime, consumption: Consumption<LeasedPlan>, hears: HearsSettler) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#writer = new LeaseWriter(runtime, consumption.plan)
    this.#hears = hears
    this.rules = rulesOf(runtime, consumption.plan, { nowUs: 0, sentAtMs: 0, answeredAtMs: 0 })
    this.#waiting = new OutcomeQueue(() => this.#start())
    this.#renewer = new Renewer(this.#writer, () => this.#start())
  }

  /** A claim has been answered. */
  setClock(clock: ClockAnswer): void {
    this.rules = rulesOf(this.#runtime, this.#consumption.plan, clock)
  }

  /** Writes what was decided about a message, once. */
  settle(leased: LeasedMessage, decided: Decided): void {
    if (leased.isDecided) throw new TypeError('expected a message that nothing is decided about')
    leased.isDecided = true
    this.#hears.decided?.()
    // What the handler's own transaction did is kept, whatever the handler did after it.
    const kept = leased.isCommitted && decided.outcome?.kind !== 'ack' ? decideAcked(leased) : decided
    // This process has lost it, and perhaps claimed it again since.
    if (leased.lost !== undefined) this.#lost(leased)
    else {
      this.#waiting.add(new LeasedOutcome(leased, kept))
      this.#start()
    }
  }

  /** Gives a message back as it was. */
  giveBack(leased: LeasedMessage): void {
    this.settle(leased, decideBack(leased, this.rules))
  }

  /** Makes leases last for their whole time from now. Those that are gone are lost. Resolves when that is known. */
  readonly renew = (leases: readonly LeasedMessage[]): Promise<void> => this.#renewer.renew(leases)

  /** Breaks off what the server has not answered. */
  cut(): void {
    this.#writer.cut()
  }

  /** At the end of this turn of the event loop, so that what ends in it goes together. */
  #start(): void {
    this.#running ??= Promise.resolve()
      .then(() => this.#run())
      .finally(() => {
        this.#running = undefined
        if (this.#isPending) this.#start()
      })
  }

  get #isPending(): boolean {
    return !this.#waiting.isEmpty || this.#renewer.isPending
  }

  async #run(): Promise<void> {
    const backoff = new Backoff(50, 1_000)
    while (this.#isPending) {
      const retry = (await this.#renewer.run()) ?? (await this.#settleSome())
      if (retry === undefined) backoff.reset()
      else await this.#waitAfter(retry, backoff.next())
    }
  }

  /** Those that have been refused take turns with the others. */
  async #settleSome(): Promise<Retry | undefined> {
    return (await this.#settle(this.#waiting.takeFresh())) ?? this.#settle(this.#waiting.takeApart())
  }

  /** Returns why all of it has to be tried again, if no single outcome is to blame. */
  async #settle(taken: readonly LeasedOutcome[]): Promise<Retry | undefined> {
    const outcomes = this.#withoutLost(taken)
    if (outcomes.length === 0) return undefined
    try {
      await this.#write(outcomes)
    } catch (because) {
      if (isRefusal(because)) return this.#refused(outcomes, because)
      for (const outcome of outcomes) outcome.unanswered()
      this.#waiting.putBack(this.#withoutOver(outcomes))
      return this.#writer.isCut ? undefined : { because }
    }
    return undefined
  }

  /** The server refuses one of them, for a reason that may lie in its row: the others do not wait for it. */
  #refused(outcomes: readonly LeasedOutcome[], error: unknown): undefined {
    const [outcome, ...others] = outcomes
    if (others.length > 0) this.#waiting.split(outcomes)
    else if (outcome !== undefined) {
      const next = outcome.refused(error, this.rules)
      if (next !== undefined) this.#again([next], error)
      // The handler's own transaction has removed it: only the evidence about it is left.
      else if (outcome.leased.isCommitted) this.#finish(outcomes, new Set())
      else this.#lost(outcome.leased)
    }
  }

  async #write(outcomes: readonly LeasedOutcome[]): Promise<void> {
    const { alphabet, control } = this.#runtime
    await learnTexts(
      control.execute,
      alphabet,
      outcomes.map(({ decided }) => decided),
    )
    // To wait for a lock once more would keep the others waiting.
    const isRepeated = outcomes.some(({ hasFailed }) => hasFailed)
    const nowUs = Math.floor(this.rules.clock.passedUs())
    const { ids, locked, untouched } = await this.#writer.settle(outcomes, nowUs, isRepeated)
    const again = outcomes.filter(({ id }) => locked.has(id))
    const written = outcomes.filter(({ id }) => !locked.has(id) && !untouched.has(id))
    this.#finish(written, new Set([...ids, ...(await this.#settledBefore(written, ids))]))
    if (again.length > 0) this.#again(again, new Error(`Somebody has locked or moved ${again.length} leased messages`))
    for (const outcome of outcomes.filter(({ id }) => untouched.has(id)))
      this.#refused([outcome], leftUntouched(this.#consumption.plan.queue, outcome.id))
  }

  /** Those that are not found because an earlier try, whose answer was lost, has settled them. */
  async #settledBefore(outcomes: readonly LeasedOutcome[], ids: ReadonlySet<string>): Promise<readonly string[]> {
    const missing = outcomes.filter((outcome) => outcome.isUnanswered && !ids.has(outcome.id))
    const { queue } = this.#consumption.plan
    const wanted = missing.filter(({ leased }) => !leased.isCommitted).map((outcome) => outcome.settledAs())
    return wanted.length > 0 ? settledBefore(this.#runtime.control.execute, queue, wanted) : []
  }

  /** They are tried once more, by themselves. */
  #again(outcomes: readonly LeasedOutcome[], error: unknown): void {
    const left = this.#withoutOver(outcomes)
    if (left.length === 0) return
    const retryInMs = Math.max(...left.map((outcome) => outcome.failed()))
    this.#report(error, retryInMs)
    this.#waiting.later(left, retryInMs)
  }

  #withoutLost(outcomes: readonly LeasedOutcome[]): readonly LeasedOutcome[] {
    return this.#without(outcomes, ({ leased }) => leased.lost !== undefined)
  }

  #withoutOver(outcomes: readonly LeasedOutcome[]): readonly LeasedOutcome[] {
    return this.#without(outcomes, (outcome) => outcome.isOver || this.#writer.isCut)
  }

  #without(outcomes: readonly LeasedOutcome[], isGone: (of: LeasedOutcome) => boolean): readonly LeasedOutcome[] {
    for (const { leased } of outcomes.filter(isGone)) this.#lost(leased)
    return outcomes.filter((outcome) => !isGone(outcome))
  }

  async #waitAfter({ because }: Retry, retryInMs: number): Promise<void> {
    this.#report(because, retryInMs)
    await pause(retryInMs)
  }

  #report(error: unknown, retryInMs: number): void {
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'settlement.failed', queue, error: toReport(error), retryInMs })
  }

  #finish(outcomes: readonly LeasedOutcome[], ids: ReadonlySet<string>): void {
    const settled: LeasedOutcome[] = []
    for (const outcome of outcomes) {
      const { leased, isBack, decided } = outcome
      if (!ids.has(leased.id) && !leased.isCommitted && !isBack) this.#lost(leased)
      else {
        this.#end(leased, decided)
        if (!isBack) settled.push(outcome)
      }
    }
    if (settled.length > 0) this.#reportSettled(settled)
  }

  #reportSettled(settled: readonly LeasedOutcome[]): void {
    const decided = settled.map((outcome) => outcome.decided)
    for (const { event } of decided) if (event !== undefined) this.#runtime.report(event)
    const counts = countsOf(decided)
    this.#consumption.onSettled?.(settledOf(decided))
    this.#consumption.meter.settled(counts)
    const durationMs = Math.max(...settled.map(({ leased }) => leased.ageMs))
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'batch.committed', queue, ...counts, durationMs })
  }

  /**
   * Whoever cancels a message removes it and says so in one transaction, and a settlement may be faster than the notification: so it
   * looks. Not for a lease that has run out, because then the database may be out of reach.
   */
  #lost(leased: LeasedMessage): void {
    if (leased.cancelAsked || leased.hasRunOut) this.#reportLost(leased)
    else void this.#runtime.cancellations.look(leased.queue).then(() => this.#reportLost(leased))
  }

  #reportLost(leased: LeasedMessage): void {
    const { queue } = this.#consumption.plan
    const { id, attempt, row } = leased
    if (leased.cancelAsked) this.#runtime.report({ kind: 'message.cancelled', queue, id, type: row.type, attempt })
    else this.#runtime.report({ kind: 'lease.lost', queue, id, attempt })
    this.#end(leased, undefined)
  }

  #end(leased: LeasedMessage, decided: Decided | undefined): void {
    leased.end()
    this.#hears.ended(leased, decided)
  }
}

/** Hears of each message twice. */
interface HearsSettler {
  /** What becomes of it is to be written. */
  decided?(): void
  /** It is settled, or lost: then `decided` is undefined. */
  ended(leased: LeasedMessage, decided: Decided | undefined): void
}
