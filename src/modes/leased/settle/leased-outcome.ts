import { Backoff } from '../../../basics/time/backoff.ts'
import { errorText } from '../../../errors.ts'
import { ASIDE, decide, type Rules } from '../../../settle/decide.ts'
import type { Decided } from '../../../settle/decision.ts'
import type { SettledAs } from '../../../table/settle/leases.ts'
import type { LeasedMessage } from '../leased-message.ts'

/** What was decided about one leased message, until it is written. */
export class LeasedOutcome {
  readonly leased: LeasedMessage
  readonly decided: Decided
  readonly #stage: Stage
  #progress: Progress = 'waiting'
  #backoff: Backoff | undefined
  #firstFailedAtMs = Number.POSITIVE_INFINITY
  #refusals = 0

  constructor(leased: LeasedMessage, decided: Decided, stage: Stage = 'decided') {
    this.leased = leased
    this.decided = decided
    this.#stage = stage
  }

  get id(): string {
    return this.leased.id
  }

  /** It goes back as it was, and may be claimed at once. */
  get isBack(): boolean {
    return this.decided.decision.kind === 'back'
  }

  /** It leaves for the server, with a COMMIT behind it. */
  sent(): void {
    if (this.#progress === 'waiting') this.#progress = 'sent'
  }

  /** It could not be written. Returns in how many milliseconds it is tried again. */
  failed(): number {
    this.#firstFailedAtMs = Math.min(this.#firstFailedAtMs, performance.now())
    this.#backoff ??= new Backoff(50, 1_000)
    return this.#backoff.next()
  }

  /** The server has not said what became of it. */
  unanswered(): void {
    if (this.#progress === 'sent') this.#progress = 'unanswered'
    this.failed()
  }

  /** It may have taken effect at an earlier try. */
  get isUnanswered(): boolean {
    return this.#progress === 'unanswered'
  }

  get hasFailed(): boolean {
    return this.#backoff !== undefined
  }

  /** It is not tried again: for the time of a lease it could not be written, although its lease may have been renewed. */
  get isOver(): boolean {
    return this.leased.hasRunOut || performance.now() - this.#firstFailedAtMs >= this.leased.leaseMs
  }

  /**
   * The server has refused it, and nothing else was written with it. Returns what is tried next, as in transactional mode:
   * the same a few times, because a deadlock for example passes; then a failed attempt; and for a message that is out of
   * attempts, or whose failed attempt is refused, another time. Undefined: nothing of it can be written.
   */
  refused(error: unknown, rules: Rules): LeasedOutcome | undefined {
    if (this.#progress === 'sent') this.#progress = 'waiting'
    this.#refusals += 1
    if (this.#refusals < MOST_REFUSALS) return this
    if (this.isBack || this.leased.isCommitted || this.#stage === 'aside') return undefined
    const message = this.leased
    if (this.#stage === 'refused' || message.attempt >= rules.attempts.mostOf(message)) {
      const aside = decide(message, ASIDE, undefined, rules)
      return new LeasedOutcome(this.leased, aside, 'aside')
    }
    const failed = decide(message, { kind: 'retryLater', error: errorText(error) }, error, rules)
    return new LeasedOutcome(this.leased, failed, 'refused')
  }

  /** The state in which the write leaves the message. */
  settledAs(): SettledAs {
    const { id, decided } = this
    const { decision } = decided
    switch (decision.kind) {
      case 'later':
      case 'back':
        return { id, state: 'postponed', attempt: decision.attempt, dueUs: decision.dueUs }
      case 'dead':
        return { id, state: 'dead', attempt: decision.attempt, dueUs: null }
      case 'gone':
        return { id, state: 'gone', attempt: null, dueUs: null }
      case 'blocked':
        throw new TypeError(`message ${id}: expected to be in a log, which is where a decision blocks a partition`)
    }
  }
}

/** What was decided; a failed attempt, because that was refused; or another time, because this was refused too. */
type Stage = 'decided' | 'refused' | 'aside'

/** Whether it has left for the server, or may have taken effect although no answer came. */
type Progress = 'waiting' | 'sent' | 'unanswered'

const MOST_REFUSALS = 4
