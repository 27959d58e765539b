import type { Settlement, SettlementWrites } from '../../settle/settlement.ts'
import type { Postponed } from '../../table/settle/settle.ts'
import type { LeasedMessage } from './leased-message.ts'

/** What became of one leased message, until it is written. */
export class LeasedOutcome {
  readonly leased: LeasedMessage
  /** It goes back as it was, and may be claimed at once. */
  readonly returned: Postponed | undefined
  readonly settlement: Settlement

  private constructor(leased: LeasedMessage, settlement: Settlement, returned?: Postponed) {
    this.leased = leased
    this.returned = returned
    this.settlement = settlement
  }

  static settled(leased: LeasedMessage, settlement: Settlement): LeasedOutcome {
    return new LeasedOutcome(leased, settlement)
  }

  /**
   * With its first due time it goes back to its place among the others. In the order of a key it has its place anyway, and
   * may be due at once: it was due already, also if the clock has been set back since.
   */
  static returned(leased: LeasedMessage, settlement: Settlement): LeasedOutcome {
    const { slot, attempt, dueUs: firstDueUs } = leased.message.row
    const dueUs = slot === null ? firstDueUs : Math.min(firstDueUs, settlement.writes.nowUs)
    return new LeasedOutcome(leased, settlement, { id: leased.id, dueUs, attempt, error: null })
  }

  get id(): string {
    return this.leased.id
  }

  /** Nothing, if the handler's own transaction has removed it. */
  get writes(): SettlementWrites {
    const writes = this.settlement.writes
    if (this.returned !== undefined) return { ...writes, postponed: [this.returned] }
    return this.leased.committed ? { ...writes, acked: [] } : writes
  }
}
