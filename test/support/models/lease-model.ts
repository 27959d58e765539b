import { KEYS_PER_SLOT } from '../../../src/table/claim/claim-slots.ts'

/** How a claim is sent: for messages without a key, or with one, by either of the two claims that there are for those. */
export type Way = 'unkeyed' | 'slots' | 'free slots'

/** What becomes of messages in hand. */
export type End = 'ack' | 'give back' | 'retry later' | 'bury'

export interface Takeable {
  readonly ids: readonly string[]
  /** The claim leaves the slot alone because a key in it is held, and says so by one line of the lines that it may have. */
  readonly isLeft: boolean
}

/** A row of sluice.message. */
interface ModelRow {
  readonly id: string
  readonly key: string | null
  readonly slot: number | null
  due: boolean
  /** The number of the claim that has leased it; 0: let go of, with a key that it closes; null: never leased. */
  lease: number | null
}

/** One queue under claims of both modes, without a database. Time stands still until somebody moves it. */
export class LeaseModel {
  readonly rows = new Map<string, ModelRow>()
  readonly dead = new Set<string>()
  /** Of each leased claim the messages that it took. */
  readonly claims: (readonly string[])[] = []
  /** Which claims left which messages without a word, and how that was seen. */
  readonly evidence = new Map<string, 'hung' | 'vanished'>()
  /** Keys that wait for a message that a transactional batch is to try again, each with its slot. */
  readonly #held = new Map<string, number | null>()
  readonly #rescued = new Set<number>()
  readonly #slots: readonly number[]

  /** @param slots in the order in which claims look at them */
  constructor(slots: readonly number[]) {
    this.#slots = slots
  }

  add(rows: readonly Pick<ModelRow, 'id' | 'key' | 'slot'>[]): void {
    for (const row of rows) this.rows.set(row.id, { ...row, due: true, lease: null })
  }

  /** What a claim may take, of each slot in the order in which it must. Without a key there is one slot, and no order. */
  takeable(way: Way): readonly Takeable[] {
    const rows = this.#inOrder()
    if (way === 'unkeyed') return [{ ids: idsOf(rows.filter(({ key, due }) => key === null && due)), isLeft: false }]
    return this.#slots.map((slot) => {
      const all = rows.filter((row) => row.slot === slot)
      const isHeld = all.some(({ lease }) => lease !== null) || [...this.#held.values()].includes(slot)
      if (way === 'free slots' && isHeld && all.length > 0) return { ids: [], isLeft: true }
      const isFree = (row: ModelRow) => row.due && !this.#held.has(row.key ?? '') && !isClosed(row, all)
      return { ids: idsOf(all.filter(isFree)), isLeft: false }
    })
  }

  /** What a leased claim may take: of a slot one message of each key, of those that it looks at. */
  leasable(way: Way): readonly Takeable[] {
    const slots = this.takeable(way)
    if (way === 'unkeyed') return slots
    return slots.map((slot) => {
      if (way === 'free slots') return { ...slot, ids: slot.ids.slice(0, 1) }
      const rows = slot.ids.map((id) => this.#row(id))
      const looked = rows.slice(0, KEYS_PER_SLOT + rows.filter(({ lease }) => lease !== null).length)
      const first = looked.filter(({ key }, at) => looked.findIndex((row) => row.key === key) === at)
      return { ...slot, ids: idsOf(first).slice(0, KEYS_PER_SLOT) }
    })
  }

  /** A leased claim has taken these. What had run out is evidence against the claim before. */
  leases(ids: readonly string[]): void {
    const number = this.claims.push(ids)
    for (const id of ids) {
      const row = this.#row(id)
      if (row.lease !== null && row.lease > 0) this.evidence.set(`${id} ${row.lease}`, 'hung')
      Object.assign(row, { due: false, lease: number })
    }
  }

  /** What a claim still has of the messages that it took. */
  heldBy(claim: number): readonly string[] {
    return (this.claims[claim - 1] ?? []).filter((id) => this.rows.get(id)?.lease === claim)
  }

  settle(ids: readonly string[], end: End, mode: 'leased' | 'transactional'): void {
    for (const id of ids) {
      const row = this.#row(id)
      if (end === 'ack' || end === 'bury') this.rows.delete(id)
      if (end === 'bury') this.dead.add(id)
      row.due = end === 'give back'
      const wasLeased = mode === 'leased' || row.lease !== null
      row.lease = wasLeased && row.key !== null ? 0 : null
      if (mode === 'transactional' && end === 'retry later' && row.key !== null) this.#held.set(row.key, row.slot)
    }
  }

  renew(claim: number): void {
    for (const id of this.heldBy(claim)) this.#row(id).due = false
  }

  expire(claim: number): void {
    for (const id of this.heldBy(claim)) this.#row(id).due = true
  }

  rescue(claim: number): void {
    if (this.#rescued.has(claim)) return
    this.#rescued.add(claim)
    for (const id of this.heldBy(claim)) {
      const row = this.#row(id)
      this.evidence.set(`${id} ${claim}`, 'vanished')
      Object.assign(row, { due: true, lease: row.key === null ? null : 0 })
    }
  }

  /** What is to be tried later is due, and no lease has run out. */
  timePasses(): void {
    this.#held.clear()
    for (const row of this.rows.values()) if (row.lease === null || row.lease === 0) row.due = true
  }

  #inOrder(): readonly ModelRow[] {
    return [...this.rows.values()].sort((a, b) => Number(a.id) - Number(b.id))
  }

  #row(id: string): ModelRow {
    const row = this.rows.get(id)
    if (row === undefined) throw new TypeError(`expected a message that is there, received ${id}`)
    return row
  }
}

/** Another message of its key is or was leased. */
function isClosed({ id, key }: ModelRow, all: readonly ModelRow[]): boolean {
  return all.some((other) => other.key === key && other.lease !== null && other.id !== id)
}

function idsOf(rows: readonly ModelRow[]): readonly string[] {
  return rows.map(({ id }) => id)
}
