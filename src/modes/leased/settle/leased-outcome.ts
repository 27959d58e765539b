import { Backoff } from '../../../basics/backoff.ts'
import { errorText } from '../../../errors.ts'
import type { AttemptRules } from '../../../settings/attempt-rules.ts'
import type { Settlement } from '../../../settle/settlement.ts'
import type { SettlementWrites } from '../../../settle/write-settlement.ts'
import type { Postponed } from '../../../table/settle/settle.ts'
import type { Settled } from '../../../table/settle/settle-leased.ts'
import type { LeasedMessage } from '../leased-message.ts'

/** What became of one leased message, until it is written. */
export class LeasedOutcome {
  readonly leased: LeasedMessage
  /** It goes back as it was, and may be claimed at once. */
  readonly returned: Postponed | undefined
  readonly settlement: Settlement

  /** It has left for the server, with a COMMIT behind it. */
  isSent = false
  #isUnanswered = false
  readonly #kind: Kind
  #backoff: Backoff | undefined
  #firstFailedAtMs = Number.POSITIVE_INFINITY
  #refusals = 0

  private constructor(leased: LeasedMessage, settlement: Settlement, kind: Kind, returned?: Postponed) {
    this.leased = leased
    this.returned = returned
    this.settlement = settlement
    this.#kind = kind
  }

  static settled(leased: LeasedMessage, settlement: Settlement): LeasedOutcome {
    return new LeasedOutcome(leased, settlement, 'own')
  }

  /**
   * With its first due time it goes back to its place among the others. In the order of a key it has its place anyway, and
   * may be due at once: it was due already, also if the clock has been set back since.
   */
  static returned(leased: LeasedMessage, settlement: Settlement): LeasedOutcome {
    const { slot, attempt, dueUs: firstDueUs } = leased.message.row
    const dueUs = slot === null ? firstDueUs : Math.min(firstDueUs, settlement.writes.nowUs)
    return new LeasedOutcome(leased, settlement, 'own', { id: leased.id, dueUs, attempt, error: null })
  }

  get id(): string {
    return this.leased.id
  }

  /** It could not be written. Returns in how many milliseconds it is tried again. */
  failed(): number {
    this.#firstFailedAtMs = Math.min(this.#firstFailedAtMs, performance.now())
    this.#backoff ??= new Backoff(50, 1_000)
    return this.#backoff.next()
  }

  /** The server has not said what became of it. */
  unanswered(): void {
    this.#isUnanswered ||= this.isSent
    this.failed()
  }

  /** It may have taken effect at an earlier try. */
  get isUnanswered(): boolean {
    return this.#isUnanswered
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
  refused(error: unknown, rules: AttemptRules, newSettlement: () => Settlement): LeasedOutcome | undefined {
    this.isSent = false
    this.#refusals += 1
    if (this.#refusals < MOST_REFUSALS) return this
    if (this.returned !== undefined || this.leased.committed || this.#kind === 'aside') return undefined
    const { message } = this.leased
    const isOutOfAttempts = message.attempt >= rules.mostOf(message)
    const settlement = newSettlement()
    if (this.#kind === 'failed' || isOutOfAttempts) {
      settlement.add(message, { kind: 'snooze', afterMs: ASIDE_MS })
      return new LeasedOutcome(this.leased, settlement, 'aside')
    }
    settlement.add(message, { kind: 'retry', error: errorText(error) }, error)
    return new LeasedOutcome(this.leased, settlement, 'failed')
  }

  /** Nothing, if the handler's own transaction has removed it. */
  get writes(): SettlementWrites {
    const writes = this.settlement.writes
    if (this.returned !== undefined) return { ...writes, postponed: [this.returned] }
    return this.leased.committed ? { ...writes, acked: [], kept: [] } : writes
  }

  /** How its message is when it has taken effect. */
  get settled(): readonly Settled[] {
    const { acked, postponed, dead, expired, cancelled } = this.writes
    return [
      ...[...acked, ...expired, ...cancelled].map((id) => ({ id, state: 'gone', attempt: null, dueUs: null }) as const),
      ...postponed.map(({ id, attempt, dueUs }) => ({ id, state: 'postponed', attempt, dueUs }) as const),
      ...dead.map(({ id, attempt }) => ({ id, state: 'dead', attempt, dueUs: null }) as const),
    ]
  }
}

/** Of the message itself; its failed attempt, because that was refused; or another time, because this was refused too. */
type Kind = 'own' | 'failed' | 'aside'

const MOST_REFUSALS = 4

/** How long a message waits that cannot be settled. */
const ASIDE_MS = 60_000
