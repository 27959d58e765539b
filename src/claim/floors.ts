import type { ClaimedRow, PriorityFloor } from '../table/claim/claim.ts'
import { type OrderedClaim, type SlotPosition, WHOLE_QUEUE_SLOT } from '../table/claim/claim-ordered.ts'
import type { ClaimSnapshot } from '../table/claim/claim-snapshot.ts'
import type { PassedStretch, SlotWalk } from '../table/claim/slot-walk.ts'
import { LeftOut } from './left-out.ts'
import { PassedRows } from './passed-rows.ts'

/** A position in a priority's order of messages: due time, then id. */
interface Position {
  readonly dueUs: number
  readonly id: string
}

/** The lowest values of the columns: an INSERT by hand may have any due time and id. */
const LOWEST_ID = -(2n ** 63n)
const BOTTOM: Position = { dueUs: Date.UTC(-4713, 10, 24) * 1_000, id: String(LOWEST_ID) }
const DEFAULT_PRIORITY = 5

/**
 * Claims see a transaction that commits within this time of its insert; later ones wait for the sweep. Only a consumer
 * that keeps up with its producers pays for it, by walking the last 100 ms of dead rows.
 */
const LOOK_BACK_US = 100_000

/** How long rows are passed over before they are read again: a redriven message that no claim looks for may be among them. */
const KEEP_PASSED_MS = 60_000

/** How long claims ask for a slot after its last message: its next one need not wait for a sweep. */
const KEEP_SLOTS_MS = 60_000

/**
 * Where the claims of one process begin: below lie only rows that are gone, so a claim never walks over the dead rows
 * that a pinned horizon keeps in the index. A floor is a hint that can be wrong, never a promise: the sweep, which
 * starts at the bottom, finds rows that appear below it (late commits, another process's rollback, a clock set back).
 * It lives in memory because it has to go down again when a batch is rolled back.
 *
 * The technique is that of transferwise/tw-tkms ("earliest visible message").
 */
export class Floors {
  /** Keys that claims leave out for a moment. */
  readonly leftOut: LeftOut
  readonly #priorities = new Map<number, Position>([[DEFAULT_PRIORITY, BOTTOM]])
  readonly #slots = new Map<number, SlotFloor>()
  readonly #slotSeenAt = new Map<number, number>()
  #wholeQueue = new SlotFloor(WHOLE_QUEUE_SLOT)
  readonly #now: () => number
  readonly #heldSlots = new Set<number>()
  #passedSince = Number.NEGATIVE_INFINITY
  #lowered = 0
  #turn: number

  /**
   * @param now milliseconds of a clock that never goes back
   * @param turn with which slot to begin: processes that begin with different ones meet each other's locks less
   */
  constructor(now: () => number = () => performance.now(), turn = 0) {
    this.#now = now
    this.#turn = turn
    this.leftOut = new LeftOut(now)
  }

  /** Counts how often floors went down: a claim sent before one of these says nothing about the rows given back. */
  get lowered(): number {
    return this.#lowered
  }

  /** How many slots have messages, as far as known. */
  get slotCount(): number {
    return this.#slots.size
  }

  /**
   * Learns from a scan of the queue. Priorities are kept, because an empty one costs one descent. A slot without
   * messages for a minute is forgotten, and once a minute the rows that slots pass over.
   */
  learn(priorities: readonly number[], slots: readonly number[]): void {
    for (const priority of priorities) {
      if (!this.#priorities.has(priority)) this.#priorities.set(priority, BOTTOM)
    }
    const now = this.#now()
    for (const slot of slots) {
      if (!this.#slots.has(slot)) this.#slots.set(slot, new SlotFloor(slot))
      this.#slotSeenAt.set(slot, now)
    }
    for (const slot of this.#slots.keys()) {
      if (now - (this.#slotSeenAt.get(slot) ?? 0) >= KEEP_SLOTS_MS) this.#slots.delete(slot)
    }
    if (now - this.#passedSince < KEEP_PASSED_MS) return
    this.#passedSince = now
    this.#heldSlots.clear()
    for (const floor of this.#slots.values()) floor.forgetPassed()
  }

  /**
   * The priorities in their order, with the positions from which to claim.
   *
   * @param nowUs the database's clock, as far as known; `'bottom'`: claim from the bottom, without floors
   */
  priorities(nowUs: number | 'bottom'): readonly PriorityFloor[] {
    const highest = nowUs === 'bottom' ? BOTTOM : { dueUs: nowUs - LOOK_BACK_US, id: '0' }
    return [...this.#priorities.entries()]
      .sort(([a], [b]) => a - b)
      .map(([priority, floor]) => ({ priority, ...(isBelow(floor, highest) ? floor : highest) }))
  }

  /**
   * The slots, starting further on at each call, so that none is served before the others for ever.
   *
   * @param taken how many of them a full claim takes from: the next call starts behind these
   */
  slots(bottom: boolean, taken = 1): readonly SlotPosition[] {
    const all = [...this.#slots.values()].map((floor) => floor.position(bottom))
    const turn = all.length === 0 ? 0 : this.#turn % all.length
    this.#turn = turn + taken
    return [...all.slice(turn), ...all.slice(0, turn)]
  }

  /** The rows of slots that no claim needs to read, not even one from the bottom; see {@link PassedRows}. */
  passed(): readonly PassedStretch[] {
    return [...this.#slots.values()].flatMap((floor) => floor.passed)
  }

  wholeQueue(bottom: boolean): SlotPosition {
    return this.#wholeQueue.position(bottom)
  }

  /**
   * Moves the floors to the rows that a claim took. A full claim from the bottom stopped early: it did not read the
   * rows between its last row and the old floor, so the floor goes down to that row. Claims that were sent before
   * looked above it, and must not move it up again.
   */
  claimed(rows: readonly ClaimedRow[], claim: { bottom: boolean; full: boolean; lowered: number }): void {
    const last = rows.at(-1)
    if (last === undefined || claim.lowered !== this.#lowered) return
    for (const row of rows) {
      const floor = this.#priorities.get(row.priority) ?? BOTTOM
      const goesDown = claim.bottom && claim.full && row === last && isBelow(row, floor)
      if (goesDown) this.#lowered += 1
      if (goesDown || isBelow(floor, row)) this.#priorities.set(row.priority, { dueUs: row.dueUs, id: row.id })
    }
  }

  /** Whether a slot may have held keys: then {@link passed} counts, and the claim is another. */
  get anyHeld(): boolean {
    return this.#heldSlots.size > 0
  }

  /** Notes where the live rows of slots begin, see {@link SlotFloor}, and which of them no claim can take. */
  observed(claim: Pick<OrderedClaim, 'firstLive' | 'snapshot' | 'walks' | 'anyHeld' | 'missed'>): void {
    for (const [slot, held] of claim.anyHeld) {
      if (held) this.#heldSlots.add(slot)
      else this.#heldSlots.delete(slot)
    }
    // A message that is gone or has been moved holds no key, and nothing would take its slot out of this set again.
    for (const { slot, locked } of claim.missed) if (locked === true) this.#heldSlots.add(slot)
    if (claim.snapshot === undefined) return
    for (const [slot, firstLive] of claim.firstLive) {
      const floor = slot === WHOLE_QUEUE_SLOT ? this.#wholeQueue : this.#slots.get(slot)
      floor?.observed(firstLive, claim.snapshot)
    }
    for (const walk of claim.walks) this.#slots.get(walk.slot)?.walked(walk, claim.snapshot)
  }

  /** Rows that were gone may be back: begins everywhere at the bottom. The priorities and slots themselves stay known. */
  restart(): void {
    this.#lowered += 1
    for (const priority of this.#priorities.keys()) this.#priorities.set(priority, BOTTOM)
    for (const slot of this.#slots.keys()) this.#slots.set(slot, new SlotFloor(slot))
    this.#wholeQueue = new SlotFloor(WHOLE_QUEUE_SLOT)
    this.#heldSlots.clear()
  }

  /** Rows given back: claims must see them again. */
  lower(rows: readonly ClaimedRow[]): void {
    this.#lowered += 1
    for (const row of rows) {
      if (row.slot !== null) continue
      const floor = this.#priorities.get(row.priority) ?? BOTTOM
      const id = BigInt(row.id)
      const before = { dueUs: row.dueUs, id: String(id > LOWEST_ID ? id - 1n : id) }
      if (isBelow(before, floor)) this.#priorities.set(row.priority, before)
    }
  }
}

/**
 * A slot's floor must be exact: a claim that starts above a waiting message would break its key's order. So it is the
 * first live row that a claim saw, once every transaction that ran at that time has ended: one of them may have taken a
 * lower id and not committed. Then all rows below are gone, unless the later claim still sees one.
 */
class SlotFloor {
  readonly #slot: number
  #id = BOTTOM.id
  #candidate: { readonly id: string; readonly xid: bigint } | undefined
  #passed: PassedRows

  constructor(slot: number) {
    this.#slot = slot
    this.#passed = new PassedRows(slot)
  }

  get passed(): readonly PassedStretch[] {
    return this.#passed.stretches
  }

  forgetPassed(): void {
    this.#passed = new PassedRows(this.#slot)
  }

  walked(walk: SlotWalk, snapshot: ClaimSnapshot): void {
    this.#passed.walked(walk, snapshot)
  }

  position(bottom: boolean): SlotPosition {
    return { slot: this.#slot, id: bottom ? BOTTOM.id : this.#id }
  }

  observed(firstLive: string, snapshot: Pick<ClaimSnapshot, 'xmin' | 'xid'>): void {
    if (this.#candidate === undefined) {
      this.#candidate = { id: firstLive, xid: snapshot.xid }
    } else if (snapshot.xmin > this.#candidate.xid) {
      this.#id = BigInt(firstLive) < BigInt(this.#candidate.id) ? firstLive : this.#candidate.id
      this.#candidate = { id: firstLive, xid: snapshot.xid }
    }
  }
}

function isBelow(a: Position, b: Position): boolean {
  return a.dueUs < b.dueUs || (a.dueUs === b.dueUs && BigInt(a.id) < BigInt(b.id))
}
