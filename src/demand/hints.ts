import { startTimer } from '../basics/time/start-timer.ts'
import type { WakeReason } from '../wake-up/waiting-queue.ts'

/**
 * When the runners of a pipeline claim: which of them sleep, and whether a claim under way may be too old to see the
 * reason for a hint.
 */
export class Hints {
  readonly #sleepers: (() => void)[] = []
  #claims = 0
  #again = false
  #count = 0
  /** The last hint was a notification, and has brought nothing yet. */
  #notified = false
  /** How many notifications in a row brought nothing, because others were faster. */
  #beaten = 0
  #deferred: NodeJS.Timeout | undefined

  /** A claim is under way. */
  get claiming(): boolean {
    return this.#claims > 0
  }

  /** A hint came since the last claim was sent. */
  get again(): boolean {
    return this.#again
  }

  /** How many there have been. The end of a delay does not count: a claim has given that time. */
  get count(): number {
    return this.#count
  }

  get sleeping(): boolean {
    return this.#sleepers.length > 0
  }

  /**
   * Wakes a runner. A notification reaches every process, and one message is enough for only one of them: a process
   * that was too late the last times waits a few milliseconds before it claims, while the others claim at once.
   */
  wake(reason: WakeReason): void {
    this.#countOne(reason)
    this.#notified = reason === 'notification'
    if (!this.#notified || this.#beaten === 0) this.#hint()
    else
      this.#deferred ??= startTimer(
        () => this.#hint(),
        Math.random() * Math.min(2 ** this.#beaten, LONGEST_DEFERRAL_MS),
      )
  }

  checkAgain(reason: WakeReason): void {
    this.#countOne(reason)
    this.#again = true
  }

  /** Resolves when the runner must claim. */
  async sleep(): Promise<void> {
    await new Promise<void>((resolve) => this.#sleepers.push(resolve))
  }

  wakeOne(): void {
    this.#sleepers.pop()?.()
  }

  /** This many runners check whether they are still wanted. */
  wakeSome(runners: number): void {
    for (let left = runners; left > 0 && this.sleeping; left -= 1) this.wakeOne()
  }

  /** The pipeline ends. */
  wakeAll(): void {
    clearTimeout(this.#deferred)
    for (const sleeper of this.#sleepers.splice(0)) sleeper()
  }

  /** A claim is sent: it sees the reasons for all hints before. */
  sent(): void {
    this.#again = false
    this.#claims += 1
  }

  answered(): void {
    this.#claims -= 1
  }

  found(): void {
    this.#notified = false
    this.#beaten = 0
  }

  foundNothing(): void {
    if (this.#notified) this.#beaten += 1
    this.#notified = false
  }

  #countOne(reason: WakeReason): void {
    if (reason !== 'due') this.#count += 1
  }

  /** Sets the flag first; it is cleared before the next claim is sent. */
  #hint(): void {
    clearTimeout(this.#deferred)
    this.#deferred = undefined
    this.#again = true
    if (!this.claiming) this.wakeOne()
  }
}

/** A process that is never the first to claim still claims this soon after a notification. */
const LONGEST_DEFERRAL_MS = 16
