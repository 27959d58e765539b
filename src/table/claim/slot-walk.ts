import { type Row, textOrNull } from '../statement.ts'

/** A stretch of rows of a slot that claims pass over for a time: see {@link CLAIM_SLOTS}. */
export interface PassedStretch {
  readonly slot: number
  /** The slot's first live row when its first stretch was walked. */
  readonly firstId: string
  readonly lastId: string
  /** Until then all its keys are held and none of its delays has ended. */
  readonly untilUs: number
  /** Transactions that may have put a row into it without committing yet: it is passed only while all of them run. */
  readonly running: readonly bigint[]
  /** Keys that leases had closed: it is passed only while they still are. */
  readonly closed: readonly string[]
  /** Its other keys, with the time until which they were held: it is passed only while they are held at least as long. */
  readonly held: Readonly<Record<string, number>>
}

/** Instead of a time: the key is closed by a lease. */
export const CLOSED = Number.MAX_SAFE_INTEGER

/** A walk over rows of a slot, none of which could be taken. */
export interface SlotWalk {
  readonly slot: number
  readonly firstLive: string
  /** Where it began: at the first live row, or at the last row of a stretch that was passed. */
  readonly start: string
  readonly last: string
  /** Whether it ended before it found a row to take. */
  readonly partial: boolean
  /** The keys that it met, with the time until which they are held, in microseconds since 1970, or {@link CLOSED}. */
  readonly heldUntilUs: ReadonlyMap<string, number>
  /**
   * When the first row without a hold is due. In whole microseconds: extra_float_digits can round a double by hours.
   */
  readonly dueUs: number
}

interface WalkText {
  readonly start: string
  readonly last: string
  readonly rows: number
  readonly keys: Readonly<Record<string, number>> | null
  readonly dueUs: number
}

/** The walk in a line of a claim, if there is one. */
export function toWalk(row: Row, slot: number, firstLive: string, most: number): SlotWalk | undefined {
  const text = textOrNull(row, 'walk')
  if (text === null) return undefined
  const { start, last, rows, keys, dueUs }: WalkText = JSON.parse(text)
  return {
    slot,
    firstLive,
    start,
    last,
    partial: rows >= most,
    heldUntilUs: new Map(Object.entries(keys ?? {})),
    dueUs,
  }
}
