import { Backoff } from '../../basics/backoff.ts'
import { pause } from '../../basics/pause.ts'
import { hasSqlState, LOCK_NOT_AVAILABLE } from '../../basics/sql-state.ts'
import type { Outcome } from '../../message.ts'
import { type SettledCounts, type SettledMessage, Settlement } from '../../settle/settlement.ts'
import { toReport } from '../losses.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { LeaseWriter } from './lease-writer.ts'
import type { LeasedMessage } from './leased-message.ts'
import { Outcomes } from './outcomes.ts'

/**
 * Settles the leased messages of a pipeline and renews their leases, with one transaction at a time. What ends while one
 * is under way goes with the next. Nothing waits for a timer: the first outcome after a pause leaves at once, and under
 * load the batches grow by themselves (a timer of 2 ms made the 99th percentile of the wait seven times as long).
 */
export class Settler {
  readonly #runtime: Runtime
  readonly #consumption: Consumption
  readonly #writer: LeaseWriter
  readonly #onEnded: (leased: LeasedMessage, given: boolean) => void
  /** The database's clock, and ours before it said so. */
  #clock = { nowUs: 0, atMs: 0 }
  #next: Outcomes | undefined
  #renewal: Renewal | undefined
  #running: Promise<void> | undefined

  /** @param onEnded its place is free. `given`: it went back as it was, and may be claimed at once */
  constructor(runtime: Runtime, consumption: Consumption, onEnded: (leased: LeasedMessage, given: boolean) => void) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#writer = new LeaseWriter(runtime, consumption.plan)
    this.#onEnded = onEnded
  }

  /** A claim has been answered. */
  heard(nowUs: number, sentAtMs: number): void {
    this.#clock = { nowUs, atMs: sentAtMs }
  }

  /** Returns whether the message holds the later ones of its key back. */
  settle(leased: LeasedMessage, outcome: Outcome, error?: unknown): boolean {
    return this.#outcomesFor(leased)?.add(leased, outcome, error) ?? false
  }

  /** Sends a message to the dead letters without another try. */
  deadLetter(leased: LeasedMessage, reason: string): void {
    this.#outcomesFor(leased)?.deadLetter(leased, reason)
  }

  /** Gives a message back as it was, with the place that it had. */
  giveBack(leased: LeasedMessage): void {
    this.#outcomesFor(leased)?.giveBack(leased)
  }

  /** Makes leases last for their whole time from now. Those that are gone are lost. Resolves when that is known. */
  readonly renew = (old: readonly LeasedMessage[]): Promise<void> => {
    this.#renewal ??= { messages: new Set(), done: Promise.withResolvers() }
    for (const leased of old) this.#renewal.messages.add(leased)
    this.#start()
    return this.#renewal.done.promise
  }

  /** Breaks off what the server has not answered. */
  cut(): void {
    this.#writer.cut()
  }

  #outcomesFor(leased: LeasedMessage): Outcomes | undefined {
    // This process has lost it and claimed it again since.
    if (leased.lost !== undefined || this.#next?.has(leased.id)) {
      this.#lost(leased)
      return undefined
    }
    this.#next ??= new Outcomes(this.#newSettlement())
    this.#start()
    return this.#next
  }

  /** At the end of this turn of the event loop, so that what ends in it goes together. */
  #start(): void {
    this.#running ??= Promise.resolve()
      .then(() => this.#run())
      .finally(() => {
        this.#running = undefined
        if (this.#next !== undefined || this.#renewal !== undefined) this.#start()
      })
  }

  async #run(): Promise<void> {
    while (this.#next !== undefined || this.#renewal !== undefined) {
      const [outcomes, renewal] = [this.#next, this.#renewal]
      this.#next = undefined
      this.#renewal = undefined
      if (renewal !== undefined) await this.#renew([...renewal.messages]).finally(renewal.done.resolve)
      if (outcomes !== undefined) await this.#settle(outcomes)
    }
  }

  async #renew(old: readonly LeasedMessage[]): Promise<void> {
    const sentAtMs = performance.now()
    const renewed = await this.#untilWritten(old, (careful) => this.#writer.renew(old, careful))
    for (const leased of old) {
      if (renewed.ids.has(leased.id)) leased.renewed(sentAtMs)
      // Somebody has locked it, its own handler perhaps: it is asked for again.
      else if (!renewed.careful || performance.now() >= leased.endsAtMs) leased.lose()
    }
  }

  async #settle(outcomes: Outcomes): Promise<void> {
    await outcomes.settlement.learnTexts(this.#runtime.control.execute)
    const { ids } = outcomes.isWritten
      ? { ids: new Set<string>() }
      : await this.#untilWritten(outcomes.messages, (careful) => this.#writer.settle(outcomes, careful))
    const lost = outcomes.lost(ids)
    outcomes.settlement.reportAll(lost)
    for (const leased of outcomes.messages) {
      if (lost.has(leased.id)) this.#lost(leased)
      else this.#end(leased, outcomes.isGiven(leased.id))
    }
    const settled = outcomes.settlement.settled.filter(({ message }) => !lost.has(message.id))
    if (settled.length === 0) return
    this.#consumption.onSettled?.(settled)
    const durationMs = Math.max(...outcomes.messages.map((leased) => leased.ageMs))
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'batch.committed', queue, ...countsOf(settled), durationMs })
  }

  /**
   * Tries until it is written, or the last of the leases has run out: to send it again is harmless. Where somebody has
   * locked a row, the others do not wait for that.
   */
  async #untilWritten(
    messages: readonly LeasedMessage[],
    write: (careful: boolean) => Promise<ReadonlySet<string>>,
  ): Promise<{ readonly ids: ReadonlySet<string>; readonly careful: boolean }> {
    const backoff = new Backoff(50, 1_000)
    const endsAtMs = Math.max(...messages.map((leased) => leased.endsAtMs))
    for (let careful = false; ; ) {
      try {
        return { ids: await write(careful), careful }
      } catch (error) {
        if (performance.now() >= endsAtMs || this.#writer.isCut) return { ids: new Set(), careful }
        const isLocked: boolean = hasSqlState(error, LOCK_NOT_AVAILABLE) && !careful
        if (!isLocked) await this.#report(error, backoff.next())
        careful ||= isLocked
      }
    }
  }

  async #report(error: unknown, retryInMs: number): Promise<void> {
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'settlement.failed', queue, error: toReport(error), retryInMs })
    await pause(retryInMs)
  }

  #lost(leased: LeasedMessage): void {
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'lease.lost', queue, id: leased.id, attempt: leased.message.attempt })
    this.#end(leased, false)
  }

  #end(leased: LeasedMessage, given: boolean): void {
    leased.end()
    this.#onEnded(leased, given)
  }

  #newSettlement(): Settlement {
    const { alphabet, report, serverVersion } = this.#runtime
    const { nowUs, atMs } = this.#clock
    return new Settlement({
      plan: this.#consumption.plan,
      report,
      alphabet,
      serverVersion: serverVersion(),
      claimedUs: nowUs,
      nowUs: () => nowUs + (performance.now() - atMs) * 1_000,
    })
  }
}

interface Renewal {
  readonly messages: Set<LeasedMessage>
  readonly done: PromiseWithResolvers<void>
}

function countsOf(settled: readonly SettledMessage[]): SettledCounts {
  const count = (kind: SettledMessage['outcome']['kind']) =>
    settled.filter(({ outcome }) => outcome.kind === kind).length
  return { acked: count('ack'), retried: count('retry'), snoozed: count('snooze'), dead: count('deadLetter') }
}
