import type { LifeModel, LifeRow, Minute } from './life-model.ts'

interface Hold {
  /** The first of `ids`. */
  readonly id: string
  /** The messages that its key waits for. */
  readonly ids: readonly string[]
  readonly until: Minute
}

type HoldsModel = Pick<LifeModel, 'inOrder' | 'rows' | 'now' | 'lockedSlots'>

/** Keys that wait for messages which transactional batches have postponed. */
export class Holds {
  readonly #model: HoldsModel
  readonly #holds = new Map<string, Hold & { readonly slot: number }>()
  /** Somebody could not take a hold away, and has told the workers. */
  told = false

  constructor(model: HoldsModel) {
    this.#model = model
  }

  of({ key }: Pick<LifeRow, 'key'>): Hold | undefined {
    return key === null ? undefined : this.#holds.get(key)
  }

  isHeld(row: LifeRow): boolean {
    return (this.of(row)?.until ?? 0) > this.#model.now
  }

  /** One batch has postponed these: each key waits for the last of its own. */
  postponed(rows: readonly LifeRow[]): void {
    const slots = new Set(rows.map(({ slot }) => slot))
    for (const [key, { slot, until }] of this.#holds)
      if (slots.has(slot) && until <= this.#model.now) this.#holds.delete(key)
    for (const [key, of] of Map.groupBy(rows, (row) => row.key)) {
      const [first] = of
      if (key === null || first?.slot == null) continue
      this.#holds.set(key, holdOf(first.slot, [first, ...of.slice(1)]))
    }
  }

  /** One of its messages has another due time, or is gone: the key waits for those that it waited for, and no others. */
  refit({ key, slot }: Pick<LifeRow, 'key'> & { readonly slot: number | null }, moved?: string): void {
    if (key === null || slot === null) return
    const { now } = this.#model
    const ids = this.#holds.get(key)?.ids ?? []
    const [first, ...others] = this.#model
      .inOrder()
      .filter((row) => row.due > now && (row.lease ?? 0) === 0 && (ids.includes(row.id) || row.id === moved))
    if (first === undefined) this.#holds.delete(key)
    else this.#holds.set(key, holdOf(slot, [first, ...others]))
  }

  /** A message has been cancelled. */
  gone(row: LifeRow): void {
    if (!this.of(row)?.ids.includes(row.id)) return
    if (row.slot !== null && this.#model.lockedSlots.has(row.slot)) this.told = true
    else this.refit(row)
  }

  /** Takes away the holds of messages that are gone. */
  release(): void {
    this.told = false
    for (const [key, { ids, slot, until }] of [...this.#holds]) {
      if (until <= this.#model.now || ids.every((id) => this.#model.rows.has(id))) continue
      if (this.#model.lockedSlots.has(slot)) this.told = true
      else this.refit({ key, slot })
    }
  }
}

function holdOf(slot: number, rows: readonly [LifeRow, ...LifeRow[]]): Hold & { readonly slot: number } {
  const ids = rows.map(({ id }) => id)
  return { id: rows[0].id, ids, slot, until: Math.max(...rows.map(({ due }) => due)) }
}
