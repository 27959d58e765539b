import { Floors } from '../../../src/claim/floors.ts'
import type { ClaimedRow, PriorityFloor } from '../../../src/table/claim/claim.ts'
import { claimedRow } from '../rows/claimed-row.ts'
import { pick } from './model-steps.ts'

interface ModelRow extends ClaimedRow {
  state: 'uncommitted' | 'free' | 'locked' | 'gone'
}

interface ModelClaim {
  readonly floors: readonly PriorityFloor[]
  readonly bottom: boolean
  readonly lowered: number
  readonly limit: number
  /** How many rows it leaves before it: `claimApart`. */
  readonly offset: number
  rows: ModelRow[] | undefined
}

/** The priorities of a queue, as the server and one process with its {@link Floors} see them, in virtual time. */
export class PriorityModel {
  readonly floors = new Floors()
  readonly rows: ModelRow[] = []
  readonly sent: ModelClaim[] = []
  readonly batches: ModelRow[][] = []
  /** Not as the claimer does: floors go up to what a claim took that began behind others. */
  readonly #raisedPastSkipped: boolean
  nowUs = 1_000

  constructor({ raisedPastSkipped = false } = {}) {
    this.#raisedPastSkipped = raisedPastSkipped
  }

  insert(priority: number, delayUs: number, committed: boolean): void {
    const id = String(this.rows.length + 1)
    const row = claimedRow({ id, priority, dueUs: this.nowUs + delayUs })
    this.rows.push({ ...row, state: committed ? 'free' : 'uncommitted' })
  }

  wait(us: number): void {
    this.nowUs += us
  }

  /** A transaction that has been open for a while. */
  commit(at: number): void {
    const row = pick(this.in('uncommitted'), at)
    if (row !== undefined) row.state = 'free'
  }

  get waiting(): readonly ModelClaim[] {
    return this.sent.filter((claim) => claim.rows === undefined)
  }

  /** All that is under way ends: claims are answered, batches rolled back, transactions committed; all is due. */
  settleDown(): void {
    for (const claim of [...this.sent]) this.answer(claim)
    while (this.batches.length > 0) this.rollBackBatch(0)
    for (const row of this.in('uncommitted')) row.state = 'free'
    this.wait(1_000)
  }

  in(...states: readonly ModelRow['state'][]): ModelRow[] {
    return this.rows.filter((row) => states.includes(row.state))
  }

  /** The look over the queue that goes before a claim from the bottom. */
  learn(): void {
    this.floors.learn([...new Set(this.in('free', 'locked').map((row) => row.priority))], [])
  }

  send(limit: number, bottom: boolean, offset = 0): ModelClaim {
    if (bottom) this.learn()
    const { lowered } = this.floors
    const claim = {
      floors: this.floors.priorities(bottom ? 'bottom' : Number.MAX_SAFE_INTEGER),
      bottom,
      lowered,
      limit,
      offset,
      rows: undefined,
    }
    this.sent.push(claim)
    return claim
  }

  /** The server runs a claim: locks due rows above the floors, priority by priority. */
  run(claim: ModelClaim): void {
    const free = this.in('free').filter((row) => row.dueUs <= this.nowUs)
    const above = claim.floors.flatMap((floor) => {
      const inPriority = (row: ModelRow) => row.priority === floor.priority && isAbove(row, floor)
      const start = claim.offset > 0 ? this.#dueIn(inPriority)[claim.offset] : undefined
      const ofPriority = free.filter(inPriority).sort(byPosition)
      return start === undefined
        ? ofPriority
        : [...ofPriority.filter((row) => isAbove(row, start)), ...ofPriority.filter((row) => !isAbove(row, start))]
    })
    claim.rows = above.slice(0, claim.limit)
    for (const row of claim.rows) row.state = 'locked'
  }

  /** The answer arrives. */
  answer(claim: ModelClaim): readonly ModelRow[] {
    if (claim.rows === undefined) this.run(claim)
    const rows = claim.rows ?? []
    this.sent.splice(this.sent.indexOf(claim), 1)
    const { bottom, lowered, limit, offset } = claim
    const fromFloor = offset === 0 || this.#raisedPastSkipped
    if (fromFloor) this.floors.claimed(rows, { bottom, lowered, full: rows.length >= limit })
    if (rows.length > 0) this.batches.push(rows)
    return rows
  }

  ackBatch(at: number): void {
    for (const row of this.#endBatch(at)) row.state = 'gone'
  }

  rollBackBatch(at: number): void {
    const rows = this.#endBatch(at)
    for (const row of rows) row.state = 'free'
    this.floors.lower(rows)
  }

  /** Some of a batch are to be tried again later; the others are acked. */
  retryBatch(at: number, afterUs: number): void {
    for (const [place, row] of this.#endBatch(at).entries()) {
      if (place % 2 === 0) Object.assign(row, { dueUs: this.nowUs + afterUs, state: 'free' })
      else row.state = 'gone'
    }
  }

  /** Rows of known priorities that a floored claim would never see, though nobody has them. */
  hidden(): readonly ModelRow[] {
    const floors = new Map(this.floors.priorities(Number.MAX_SAFE_INTEGER).map((floor) => [floor.priority, floor]))
    return this.in('free').filter((row) => {
      const floor = floors.get(row.priority)
      return floor !== undefined && !isAbove(row, floor)
    })
  }

  /** Rows that are due, in anybody's hands or nobody's. */
  #dueIn(within: (row: ModelRow) => boolean): readonly ModelRow[] {
    return this.in('free', 'locked')
      .filter((row) => row.dueUs <= this.nowUs && within(row))
      .sort(byPosition)
  }

  #endBatch(at: number): ModelRow[] {
    if (this.batches.length === 0) return []
    return this.batches.splice(at % this.batches.length, 1)[0] ?? []
  }
}

function isAbove(row: ClaimedRow, floor: PriorityFloor): boolean {
  return row.dueUs > floor.dueUs || (row.dueUs === floor.dueUs && Number(row.id) > Number(floor.id))
}

function byPosition(a: ClaimedRow, b: ClaimedRow): number {
  return a.dueUs - b.dueUs || Number(a.id) - Number(b.id)
}
