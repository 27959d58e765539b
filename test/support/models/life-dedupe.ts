import type { OnDuplicate } from '../../../src/message-options.ts'
import type { LifeModel, LifeRow, Minute } from './life-model.ts'

/** Which messages a dedupe key stands for. */
export interface Pointer {
  readonly messageId: string
  readonly runningId: string | null
  readonly until: Minute | null
}

/** An enqueue with a dedupe key. */
export interface Ask {
  readonly dedupeKey: string
  readonly policy: OnDuplicate
  readonly forHours: number | null
  readonly key: string | null
  readonly delayHours: number
  readonly ttlHours: number | null
  readonly payload: string
}

/** What an enqueue with a dedupe key does. */
export type Verdict =
  | { readonly outcome: 'duplicate' | 'updated' | 'debounced'; readonly id: string }
  | { readonly outcome: 'added' | 'requeued'; readonly key: string | null; readonly runningId: string | null }

interface Window {
  readonly messageId: string
  readonly until: Minute
}

type DedupeModel = Pick<LifeModel, 'rows' | 'now' | 'isInHand' | 'hasExpired' | 'holds' | 'endLease'>

/** Who has which dedupe key. */
export class Dedupe {
  readonly pointers = new Map<string, Pointer>()
  readonly #windows = new Map<string, readonly Window[]>()
  readonly #model: DedupeModel

  constructor(model: DedupeModel) {
    this.#model = model
  }

  /** The window of a key that ends last. */
  windowOf(key: string): Window | undefined {
    const open = (this.#windows.get(key) ?? []).filter(({ until }) => until > this.#model.now)
    return open.toSorted((a, b) => b.until - a.until)[0]
  }

  succeeded({ id, dedupeKey, keepHours }: LifeRow): void {
    if (dedupeKey === null || keepHours === null) return
    const window = { messageId: id, until: this.#model.now + keepHours * 60 }
    this.#windows.set(dedupeKey, [...(this.#windows.get(dedupeKey) ?? []), window])
  }

  /** Decides, and changes the message that waits. A message that is to be added has no number yet: see {@link added}. */
  ask(ask: Ask): Verdict {
    const { policy, dedupeKey } = ask
    const again = policy === 'requeue' || policy === 'debounce'
    const pointer = this.pointers.get(dedupeKey)
    const key = again ? (ask.key ?? dedupeKey) : ask.key
    if (pointer === undefined) return { outcome: 'added', key, runningId: null }
    const taken = this.#there(pointer.messageId) ?? this.#there(pointer.runningId)
    const window = this.windowOf(dedupeKey)
    if (taken !== undefined) return this.#askTaken(ask, taken)
    if (window !== undefined)
      return again ? { outcome: 'requeued', key, runningId: null } : { outcome: 'duplicate', id: window.messageId }
    const throttled = pointer.until !== null && pointer.until > this.#model.now
    if (throttled && !again) return { outcome: 'duplicate', id: pointer.messageId }
    return { outcome: 'added', key, runningId: null }
  }

  added({ dedupeKey, policy, forHours }: Ask, id: string, runningId: string | null): void {
    const until = policy === 'throttle' ? this.#model.now + (forHours ?? 0) * 60 : null
    this.pointers.set(dedupeKey, { messageId: id, runningId, until })
  }

  #askTaken(ask: Ask, taken: LifeRow): Verdict {
    const { policy } = ask
    const { id } = taken
    if (policy === 'reject' || policy === 'throttle') return { outcome: 'duplicate', id }
    const isOver = policy === 'update' && taken.due <= this.#model.now
    if (taken.locked === undefined && (taken.lease === null || taken.lease === 0 || isOver)) {
      this.#model.endLease(taken)
      const moves = policy === 'debounce' && isFresh(taken) && this.#model.holds.of(taken)?.id !== id
      this.#change(ask, taken, moves)
      return { outcome: moves ? 'debounced' : 'updated', id }
    }
    if (policy === 'update' || taken.key === null) return { outcome: 'duplicate', id }
    return { outcome: 'requeued', key: taken.key, runningId: id }
  }

  #change({ payload, delayHours, ttlHours, forHours }: Ask, row: LifeRow, moves: boolean): void {
    row.payload = payload
    row.keepHours = forHours ?? row.keepHours
    if (!moves) return
    const due = Math.max(row.due, this.#model.now + delayHours * 60)
    if (ttlHours !== null) row.expires = due + ttlHours * 60
    else if (row.expires !== null) row.expires += due - row.due
    row.due = due
  }

  /** A message whose life has ended is gone, unless somebody has it in hand. */
  #there(id: string | null): LifeRow | undefined {
    const row = id === null ? undefined : this.#model.rows.get(id)
    if (row === undefined) return undefined
    return this.#model.hasExpired(row) && !this.#model.isInHand(row) ? undefined : row
  }
}

function isFresh({ tried, lease }: LifeRow): boolean {
  return !tried && lease === null
}
