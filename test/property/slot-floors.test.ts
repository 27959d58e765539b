import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Floors } from '../../src/claim/floors.ts'
import type { OrderedClaim } from '../../src/table/claim/claim-ordered.ts'
import { pick, stepsOf } from '../support/models/model-steps.ts'
import { orderedClaim } from '../support/rows/claimed-row.ts'

const SLOT = 3

interface ModelTransaction {
  readonly xid: number
  readonly ids: number[]
}

/** One slot of a queue and its writers. As the enqueue sees to, a transaction gets its number before its first id. */
class SlotModel {
  readonly floors = new Floors()
  readonly #running: ModelTransaction[] = []
  readonly #observations: OrderedClaim[] = []
  #live: number[] = []
  #nextXid = 100
  #nextId = 1

  constructor() {
    this.floors.learn([], [SLOT])
  }

  begin(): void {
    this.#running.push({ xid: this.#nextXid++, ids: [] })
  }

  insert(at: number): void {
    pick(this.#running, at)?.ids.push(this.#nextId++)
  }

  end(at: number, committed: boolean): void {
    const [ended] = this.#running.splice(at % Math.max(1, this.#running.length), 1)
    if (ended === undefined) return
    if (committed) this.#live.push(...ended.ids)
  }

  /** The first live row, or any other, is acked. */
  remove(at: number): void {
    const id = pick(
      this.#live.toSorted((a, b) => a - b),
      at,
    )
    this.#live = this.#live.filter((other) => other !== id)
  }

  look(bottom: boolean): void {
    const floor = bottom ? 0 : this.floor
    const seen = this.#live.filter((id) => id >= floor)
    if (seen.length === 0) return
    const own = this.#nextXid++
    const xmin = Math.min(own, ...this.#running.map(({ xid }) => xid))
    const snapshot = { xmin: BigInt(xmin), xid: BigInt(own) }
    this.#observations.push(orderedClaim({ [SLOT]: String(Math.min(...seen)) }, snapshot))
  }

  /** An answer arrives; those of several connections in any order. */
  observe(at: number): void {
    const [claim] = this.#observations.splice(at % Math.max(1, this.#observations.length), 1)
    if (claim !== undefined) this.floors.observed(claim)
  }

  get floor(): number {
    return Number(this.floors.slots(false)[0]?.id)
  }

  /** Rows below the floor: live ones, and those that may still be. */
  get hidden(): readonly number[] {
    return [...this.#live, ...this.#running.flatMap(({ ids }) => ids)].filter((id) => id < this.floor)
  }
}

const place = fc.nat(20)
const nothing = fc.constant(undefined)
const step = stepsOf<SlotModel>()

const steps = fc.array(
  fc.oneof(
    step('begin', nothing, (model) => model.begin()),
    step('insert', place, (model, at) => model.insert(at)),
    step('insert', place, (model, at) => model.insert(at)),
    step('commit', place, (model, at) => model.end(at, true)),
    step('roll back', place, (model, at) => model.end(at, false)),
    step('remove', fc.constantFrom(0, 0, 0, 1, 5), (model, at) => model.remove(at)),
    step('look', fc.boolean(), (model, bottom) => model.look(bottom)),
    step('look', fc.boolean(), (model, bottom) => model.look(bottom)),
    step('observe', place, (model, at) => model.observe(at)),
    step('observe', place, (model, at) => model.observe(at)),
  ),
  { maxLength: 60, size: 'max' },
)

describe('the floor of a slot', () => {
  test('never stands above a row that is live or may still commit', () => {
    fc.assert(
      fc.property(steps, (sequence) => {
        const model = new SlotModel()
        for (const act of sequence) {
          act(model)
          expect(model.hidden).toEqual([])
        }
      }),
      { numRuns: 3_000 },
    )
  })
})
