import { Dedupe, type Pointer } from './life-dedupe.ts'
import { Holds } from './life-holds.ts'

/** A minute of the queue's clock: all that happens without a step of the clock happens in one minute. */
export type Minute = number

/** What becomes of a message in hand. */
export type End = 'ack' | 'retry' | 'snooze' | 'bury' | 'leave'

/** Who has messages in hand: an open transaction, a lease, or a claim. */
export interface Holder {
  readonly number: number
  readonly kind: 'transaction' | 'lease' | 'claim'
  readonly ids: readonly string[]
  /** When each of them was due. */
  readonly dues: ReadonlyMap<string, Minute>
  /** When a claim ends. */
  until: Minute
  /** Its transaction has ended, or its claim is settled or released. */
  over: boolean
}

/** A row of sluice.message. */
export interface LifeRow {
  readonly id: string
  readonly key: string | null
  readonly slot: number | null
  readonly dedupeKey: string | null
  keepHours: number | null
  payload: string
  priority: number
  due: Minute
  expires: Minute | null
  tried: boolean
  /** Whose it is or was; 0: let go of, with a key that it closes, or without one and with an end of its life. */
  lease: Holder | 0 | null
  /** The transaction that has it locked. */
  locked: Holder | undefined
}

export type State = 'scheduled' | 'ready' | 'retrying' | 'in_flight' | 'expired' | 'dead' | 'completed' | 'unknown'

/** One queue and all that may be done to its messages, without a database. */
export class LifeModel {
  readonly rows = new Map<string, LifeRow>()
  readonly dead = new Set<string>()
  readonly holders: Holder[] = []
  readonly dedupe = new Dedupe(this)
  readonly holds = new Holds(this)
  readonly #buriesExpired: boolean
  now: Minute = 0
  /** Slots that open transactions have locked: the database tells, because a claim also locks some that it takes nothing from. */
  lockedSlots: ReadonlySet<number> = new Set()

  /** @param buriesExpired what has expired becomes a dead letter */
  constructor(buriesExpired: boolean) {
    this.#buriesExpired = buriesExpired
  }

  inOrder(): readonly LifeRow[] {
    return [...this.rows.values()].sort((a, b) => Number(a.id) - Number(b.id))
  }

  row(id: string): LifeRow {
    const row = this.rows.get(id)
    if (row === undefined) throw new TypeError(`expected a message that is there, received ${id}`)
    return row
  }

  stateOf(id: string): State {
    const row = this.rows.get(id)
    if (row === undefined) return this.dead.has(id) ? 'dead' : 'unknown'
    if (this.isInHand(row)) return 'in_flight'
    if (this.hasExpired(row)) return 'expired'
    if (row.due <= this.now) return 'ready'
    return row.tried ? 'retrying' : 'scheduled'
  }

  isInHand({ locked, lease, due }: LifeRow): boolean {
    return locked !== undefined || (lease !== null && lease !== 0 && due > this.now)
  }

  hasExpired({ expires }: LifeRow): boolean {
    return expires !== null && expires <= this.now
  }

  /** What a claim may take now. What has expired is taken too, and not handed out. */
  takeable(): readonly LifeRow[] {
    return this.inOrder().filter((row) => {
      if (row.locked !== undefined || row.due > this.now) return false
      return row.slot === null || !(this.lockedSlots.has(row.slot) || this.holds.isHeld(row) || this.closedBy(row))
    })
  }

  /** Another message of its key that is or was leased: of several the first. */
  closedBy({ id, key }: LifeRow): LifeRow | undefined {
    if (key === null) return undefined
    const first = this.inOrder().find((other) => other.key === key && other.lease !== null)
    return first?.id === id ? undefined : first
  }

  takes(kind: Holder['kind'], ids: readonly string[], until = this.now): Holder {
    const dues = new Map(ids.map((id) => [id, this.row(id).due]))
    const holder: Holder = { number: this.holders.length + 1, kind, ids, dues, until, over: false }
    this.holders.push(holder)
    for (const id of ids) {
      const row = this.row(id)
      if (kind === 'transaction') row.locked = holder
      else {
        // A claim that ran out is a failed try, once there is another claim.
        row.tried ||= kind === 'claim' && row.lease !== null && row.lease !== 0 && row.lease.kind === 'claim'
        Object.assign(row, { lease: holder, due: until })
      }
    }
    return holder
  }

  /** What a lease or a claim still has of what it took. */
  heldBy(holder: Holder): readonly string[] {
    return holder.ids.filter((id) => this.rows.get(id)?.lease === holder)
  }

  /** A message in hand is settled. */
  settle(id: string, end: End, hours: number): void {
    const row = this.row(id)
    if (end === 'leave') return
    if (end === 'ack') this.dedupe.succeeded(row)
    if (end === 'ack' || end === 'bury') this.rows.delete(id)
    if (end === 'bury') this.dead.add(id)
    row.due = Math.min(this.now + hours * 60, row.expires ?? Number.MAX_SAFE_INTEGER)
    row.tried ||= end === 'retry'
    row.lease = idle(row, row.lease !== null || row.dedupeKey !== null)
  }

  /** A transaction settles what it has, and what it has postponed holds its key. */
  commits(holder: Holder, ends: ReadonlyMap<string, End>, hours: number): void {
    for (const [id, end] of ends) this.settle(id, end, hours)
    const postponed = [...ends].filter(([, end]) => end === 'retry' || end === 'snooze').map(([id]) => this.row(id))
    this.holds.postponed(postponed)
    this.rollsBack(holder)
  }

  rollsBack(holder: Holder): void {
    holder.over = true
    for (const id of holder.ids) {
      const row = this.rows.get(id)
      if (row !== undefined) row.locked = undefined
    }
  }

  /** Its life has ended, and a claim has met it. */
  expired(id: string): void {
    this.rows.delete(id)
    if (this.#buriesExpired) this.dead.add(id)
  }

  /** A claim is given back: its messages are due when they were. */
  released(holder: Holder): void {
    for (const id of this.heldBy(holder)) {
      const row = this.row(id)
      row.due = Math.min(holder.dues.get(id)!, this.now)
      row.lease = idle(row, true)
    }
    holder.over = true
  }

  /** A lease, or a claim, lasts until then, and the lives of a claim's messages for a while longer. */
  renewed(holder: Holder, until: Minute, livesUntil?: Minute): void {
    holder.until = until
    for (const id of this.heldBy(holder)) {
      const row = this.row(id)
      row.due = until
      if (livesUntil !== undefined && row.expires !== null) row.expires = Math.max(row.expires, livesUntil)
    }
  }

  cancel(id: string): { readonly result: string; readonly state: State } {
    const state = this.stateOf(id)
    const row = this.rows.get(id)
    if (row === undefined) return { result: 'nothing', state }
    if (row.locked !== undefined) return { result: 'asked', state }
    this.rows.delete(id)
    this.holds.gone(row)
    return { result: 'cancelled', state }
  }

  change(id: string, write: (row: LifeRow) => void): { readonly result: string; readonly state: State } {
    const state = this.stateOf(id)
    if (!waits(state)) return { result: 'refused', state }
    this.endLease(this.row(id))
    write(this.row(id))
    return { result: 'changed', state }
  }

  reschedule(id: string, hours: number): { readonly result: string; readonly state: State } {
    const state = this.stateOf(id)
    if (!waits(state)) return { result: 'refused', state }
    const row = this.row(id)
    const holds =
      row.slot !== null && ((row.lease === null && row.tried) || this.holds.of(row)?.ids.includes(id) === true)
    if (holds && this.lockedSlots.has(row.slot)) return { result: 'busy', state }
    const due = this.now + hours * 60
    if (state === 'ready' && due <= this.now) return { result: 'changed', state }
    const wasInHand = row.tried || row.lease !== null || holds
    this.endLease(row)
    if (row.expires !== null && (!wasInHand || due > row.due)) row.expires += due - row.due
    row.due = due
    if (holds) this.holds.refit(row, id)
    return { result: 'changed', state }
  }

  clear(matches: (row: LifeRow) => boolean): number {
    const chosen = this.inOrder().filter((row) => !this.isInHand(row) && matches(row))
    for (const { id } of chosen) this.rows.delete(id)
    if (chosen.length > 0) this.holds.release()
    return chosen.length
  }

  /** What the view says holds the message back. */
  heldBackBy(row: LifeRow): string | null {
    const hold = this.holds.of(row)
    if (hold !== undefined && hold.until > this.now && hold.id !== row.id) return hold.id
    return this.closedBy(row)?.id ?? null
  }

  /** What is known of a dedupe key. */
  known(key: string, { messageId, runningId, until: throttled }: Pointer) {
    const window = this.dedupe.windowOf(key)
    const ends = [window?.until ?? null, throttled].filter((end) => end !== null && end > this.now)
    const until = ends.length === 0 ? null : Math.max(...ends.map(Number))
    if (runningId !== null && this.rows.has(runningId)) {
      const next = this.rows.get(messageId)
      const requeuedId = next !== undefined && !this.hasExpired(next) ? next.id : null
      return { id: runningId, state: this.stateOf(runningId), requeuedId, until }
    }
    if (!this.rows.has(messageId) && window !== undefined)
      return { id: window.messageId, state: 'completed', requeuedId: null, until }
    const id = [messageId, runningId].find((one) => one !== null && this.stateOf(one) !== 'unknown') ?? messageId
    return { id, state: this.stateOf(id), requeuedId: null, until }
  }

  /** A lease that ran out is over when its message is changed; a claim's was a failed try. */
  endLease(row: LifeRow): void {
    if (row.lease === null || row.lease === 0) return
    row.tried ||= row.lease.kind === 'claim'
    row.lease = idle(row, true)
  }
}

/** The lease of a message that nobody has in hand any more. @param closes it closes its key, if it has one */
function idle({ key, expires }: LifeRow, closes: boolean): 0 | null {
  return (key === null ? expires !== null : closes) ? 0 : null
}

function waits(state: State): boolean {
  return state === 'ready' || state === 'scheduled' || state === 'retrying'
}
