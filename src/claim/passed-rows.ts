import type { ClaimSnapshot } from '../table/claim/claim-snapshot.ts'
import { CLOSED, type PassedStretch, type SlotWalk } from '../table/claim/slot-walk.ts'

interface Stretch {
  readonly lastId: bigint
  readonly keys: ReadonlySet<string>
  /** When the first row without a held key is due. */
  readonly dueUs: number
  readonly running: ReadonlySet<bigint>
}

/** More than this in one slot are joined: coarser, because one change voids all of it, and never wrong. */
const MOST_STRETCHES = 64

/**
 * The rows at the beginning of a slot that cannot be taken now: their keys are held, or they are not due. A claim that
 * knows them begins behind them, so a backlog behind a failed message is read twice and not by every claim.
 *
 * It must be exact, like the floor of a slot: passing over a message that can be taken would break its key's order. A
 * passed row can be taken when its hold or delay ends, at a known time. It can also be taken when the lease that closed
 * its key is gone, or its hold ends early because the message is cancelled or run at once: so a claim gets the keys
 * that must still be closed or held, and looks. A new row gets in between only from a transaction that ran when the
 * claim was made, so a stretch counts while all of these still run. Once one of them has ended, it is walked again, and
 * then depends on the others alone.
 * A redriven message may come in as well, and one may be made due sooner: a claim looks for both, and begins before them.
 * (Not for those behind the first hundred in a slot. For that, {@link Floors} forgets everything once a minute.)
 */
export class PassedRows {
  readonly #slot: number
  #firstId = 0n
  #xid = 0n
  #stretches: readonly Stretch[] = []
  readonly #heldUntilUs = new Map<string, number>()
  #sent: readonly PassedStretch[] = []

  constructor(slot: number) {
    this.#slot = slot
  }

  /** For a claim, which checks what still holds. */
  get stretches(): readonly PassedStretch[] {
    return this.#sent
  }

  /** Ignores a walk if the running transactions are unknown: then the next claim makes it again. */
  walked(walk: SlotWalk, { xid, running }: ClaimSnapshot): void {
    if (running === undefined) return
    // Answers of several connections come in any order.
    if (xid < this.#xid) return
    this.#xid = xid
    for (const [key, untilUs] of walk.heldUntilUs) this.#heldUntilUs.set(key, untilUs)
    const firstLive = BigInt(walk.firstLive)
    if (this.#stretches.length === 0 || firstLive < this.#firstId) {
      this.#firstId = firstLive
      this.#stretches = []
    }
    const live = this.#stretches.filter((stretch) => stretch.lastId >= firstLive)
    // The walk began behind rows forgotten meanwhile.
    const start = BigInt(walk.start)
    if (start > firstLive && !live.some((stretch) => stretch.lastId >= start)) return
    const end = BigInt(walk.last)
    this.#stretches = fewer(joined([...splice(live, walk, running)], end), end)
    this.#send()
  }

  #send(): void {
    const keys = new Set(this.#stretches.flatMap((stretch) => [...stretch.keys]))
    for (const key of this.#heldUntilUs.keys()) if (!keys.has(key)) this.#heldUntilUs.delete(key)
    this.#sent = this.#stretches.map((stretch) => ({
      slot: this.#slot,
      firstId: String(this.#firstId),
      lastId: String(stretch.lastId),
      untilUs: this.#untilUs(stretch),
      running: [...stretch.running],
      closed: [...stretch.keys].filter((key) => this.#heldUntilUs.get(key) === CLOSED),
      held: this.#heldOf(stretch),
    }))
  }

  #heldOf({ keys }: Stretch): Readonly<Record<string, number>> {
    const held = [...keys].map((key) => [key, this.#heldUntilUs.get(key) ?? 0] as const)
    return Object.fromEntries(held.filter(([, untilUs]) => untilUs !== CLOSED))
  }

  #untilUs({ keys, dueUs }: Stretch): number {
    let untilUs = Math.min(dueUs, Number.MAX_SAFE_INTEGER)
    for (const key of keys) untilUs = Math.min(untilUs, this.#heldUntilUs.get(key) ?? 0)
    return Math.floor(untilUs)
  }
}

/** The stretches before a walk, those that it has walked again, what it has added, and those behind it. */
function* splice(stretches: readonly Stretch[], walk: SlotWalk, running: ReadonlySet<bigint>): Generator<Stretch> {
  const [start, last] = [BigInt(walk.start), BigInt(walk.last)]
  const walked = { keys: new Set(walk.heldUntilUs.keys()), dueUs: walk.dueUs }
  const before = stretches.filter((stretch) => stretch.lastId <= start)
  const beyond = stretches.filter((stretch) => stretch.lastId > start)
  yield* before
  // Joined since the claim was sent: the walk began in the middle of this one, and did not see the part before.
  const isInside = start > BigInt(walk.firstLive) && before.at(-1)?.lastId !== start
  if (isInside && beyond[0] !== undefined) yield { ...beyond[0], lastId: start }
  let end = start
  for (const again of beyond) {
    if (end < last) {
      end = again.lastId < last ? again.lastId : last
      yield { ...walked, lastId: end, running: intersection(again.running, running) }
    }
    if (again.lastId > last) yield again
  }
  if (end < last) yield { ...walked, lastId: last, running }
}

/**
 * Joins neighbours that hold under the same conditions. Not if their delays differ: the end of the first would apply to
 * both, even when only the first has been walked again. Nor at the end of the latest walk: the next claim may have to go
 * on from there, to a message in the middle of what was one stretch.
 */
function joined(stretches: readonly Stretch[], end: bigint): readonly Stretch[] {
  const all: Stretch[] = []
  for (const next of stretches) {
    const last = all.at(-1)
    const isSame =
      last?.dueUs === next.dueUs &&
      last.lastId !== end &&
      sameMembers(last.keys, next.keys) &&
      sameMembers(last.running, next.running)
    if (isSame) all[all.length - 1] = united(last, next)
    else all.push(next)
  }
  return all
}

function fewer(stretches: readonly Stretch[], end: bigint): readonly Stretch[] {
  const [first, second, ...rest] = stretches
  if (first === undefined || second === undefined || stretches.length <= MOST_STRETCHES) return stretches
  return first.lastId === end ? [first, ...fewer([second, ...rest], end)] : fewer([united(first, second), ...rest], end)
}

function united(a: Stretch, b: Stretch): Stretch {
  return {
    lastId: b.lastId,
    keys: new Set([...a.keys, ...b.keys]),
    dueUs: Math.min(a.dueUs, b.dueUs),
    running: new Set([...a.running, ...b.running]),
  }
}

function intersection(a: ReadonlySet<bigint>, b: ReadonlySet<bigint>): ReadonlySet<bigint> {
  return new Set([...a].filter((member) => b.has(member)))
}

function sameMembers(a: ReadonlySet<unknown>, b: ReadonlySet<unknown>): boolean {
  return a.size === b.size && [...a].every((member) => b.has(member))
}
