import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Floors } from '../../src/claim/floors.ts'
import { claimedRow, orderedClaim } from '../support/rows/claimed-row.ts'
import type { Model } from './checker.ts'
import { claimModel } from './claim-model.ts'
import { type ClaimState, LIMIT } from './claim-state.ts'
import { type SlotState, slotModel } from './slot-model.ts'

const SLOT = 3

/** A time so late that no floor is held back. */
const LATE = Number.MAX_SAFE_INTEGER

const choices = fc.array(fc.nat(1_000), { minLength: 40, maxLength: 80 })

/** Takes one way through a model, and tells each step. */
function walk<State>(model: Model<State>, at: readonly number[], tell: (before: State, after: State) => void): void {
  let state = model.initial
  for (const choice of at) {
    const moves = model.moves(state)
    const move = moves[choice % Math.max(1, moves.length)]
    if (move === undefined) return
    const after = structuredClone(state)
    move.apply(after)
    tell(state, after)
    state = after
  }
}

/** The one process, beside the floors of the code that hear what the model's hear. */
class PriorityFloors {
  #floors = new Floors()

  tell(before: ClaimState, after: ClaimState): void {
    const [process] = before.processes
    if (after.crashes < before.crashes) {
      this.#floors = new Floors()
      return
    }
    for (const [at, slot] of process!.slots.entries()) {
      const { at: now } = after.processes[0]!.slots[at]!
      const rows = slot.rows.map((id) => claimedRow({ id: String(id + 1), dueUs: before.messages[id]!.due }))
      if (slot.at === now) continue
      const { bottom, lowered } = slot
      if (slot.at === 'answered') this.#floors.claimed(rows, { bottom, lowered, full: rows.length === LIMIT })
      if (slot.at === 'rolled back') this.#floors.lower(rows)
    }
  }

  /** As the model writes it; nothing is below its zero. */
  get position(): number {
    const [floor] = this.#floors.priorities(LATE)
    return Math.max(0, floor!.dueUs * 10 + Number(floor!.id))
  }
}

class SlotFloors {
  readonly #floors = new Floors()

  constructor() {
    this.#floors.learn([], [SLOT])
  }

  tell(before: SlotState, after: SlotState): void {
    for (const [at, batch] of before.batches.entries()) {
      if (batch.at !== 'locked' || after.batches[at]!.at === 'locked') continue
      const snapshot = { xmin: BigInt(batch.xmin), xid: BigInt(batch.xid) }
      this.#floors.observed(orderedClaim({ [SLOT]: String(batch.saw[0]) }, snapshot))
    }
  }

  get position(): number {
    return Math.max(0, Number(this.#floors.slots(false)[0]!.id))
  }
}

describe('on any way through the models, the floors of the code', () => {
  test('stand where those of priorities do', () => {
    const model = claimModel({ messages: 3, processes: 1, slots: 2, commits: 'whenever', rollbacks: 2, crashes: 1 })
    let highest = 0
    fc.assert(
      fc.property(choices, (at) => {
        const floors = new PriorityFloors()
        walk(model, at, (before, after) => {
          floors.tell(before, after)
          expect(floors.position).toBe(after.processes[0]!.floor)
          highest = Math.max(highest, floors.position)
        })
      }),
      { numRuns: 1_000 },
    )
    expect(highest).toBeGreaterThan(1)
  })

  test('stand where those of slots do', () => {
    const model = slotModel({ writers: 4, batches: [0, 0], retries: 2, rollbacks: 2 })
    let highest = 0
    fc.assert(
      fc.property(choices, (at) => {
        const floors = new SlotFloors()
        walk(model, at, (before, after) => {
          floors.tell(before, after)
          expect(floors.position).toBe(after.floors[0]!.id)
          highest = Math.max(highest, floors.position)
        })
      }),
      { numRuns: 1_000 },
    )
    expect(highest).toBeGreaterThan(1)
  })
})
