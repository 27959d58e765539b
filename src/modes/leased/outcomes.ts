import type { Outcome } from '../../message.ts'
import type { Settlement, SettlementWrites } from '../../settle/settlement.ts'
import type { Postponed } from '../../table/settle/settle.ts'
import type { LeasedMessage } from './leased-message.ts'

/** What became of leased messages, to be written together. */
export class Outcomes {
  readonly settlement: Settlement
  readonly #byId = new Map<string, LeasedMessage>()
  readonly #given = new Map<string, Postponed>()
  readonly #committed = new Set<string>()

  constructor(settlement: Settlement) {
    this.settlement = settlement
  }

  get messages(): readonly LeasedMessage[] {
    return [...this.#byId.values()]
  }

  /** There is nothing to write: all of them were settled by their handlers. */
  get isWritten(): boolean {
    return this.#committed.size === this.#byId.size
  }

  has(id: string): boolean {
    return this.#byId.has(id)
  }

  /** A message's lease, for its row. */
  leased<Row extends { readonly id: string }>(row: Row): Row & { readonly lease: string } {
    return { ...row, lease: this.#byId.get(row.id)?.lease ?? '0' }
  }

  add(leased: LeasedMessage, outcome: Outcome, error: unknown): boolean {
    this.#byId.set(leased.id, leased)
    // The handler's own transaction has removed it, whatever the handler did after that.
    if (leased.committed) this.#committed.add(leased.id)
    return this.settlement.add(leased.message, leased.committed ? { kind: 'ack' } : outcome, error)
  }

  deadLetter(leased: LeasedMessage, reason: string): void {
    this.#byId.set(leased.id, leased)
    this.settlement.deadLetter(leased.message, reason)
  }

  /** With its first due time it goes back to its place among the others. */
  giveBack(leased: LeasedMessage): void {
    this.#byId.set(leased.id, leased)
    const { dueUs, attempt } = leased.message.row
    this.#given.set(leased.id, { id: leased.id, dueUs, attempt, error: null })
  }

  isGiven(id: string): boolean {
    return this.#given.has(id)
  }

  get writes(): SettlementWrites {
    const writes = this.settlement.writes
    return {
      ...writes,
      acked: writes.acked.filter((id) => !this.#committed.has(id)),
      postponed: [...writes.postponed, ...this.#given.values()],
    }
  }

  /** Of messages that have an outcome, those that were not found under their leases. @param written by id */
  lost(written: ReadonlySet<string>): ReadonlySet<string> {
    const missing = [...this.#byId.keys()].filter((id) => !written.has(id) && !this.#committed.has(id))
    return new Set(missing.filter((id) => !this.#given.has(id)))
  }
}
