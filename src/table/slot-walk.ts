import { type Row, textOrNull } from './statement.ts'

/** Rows of a slot that can be passed over for a time: see {@link CLAIM_SLOTS}. */
export interface PassedStretch {
  readonly slot: number
  /** The slot's first live row, when the first of its stretches was walked. */
  readonly firstId: string
  readonly lastId: string
  /** Until then all its keys are held, and none of its delays has ended. */
  readonly untilUs: number
  /** Transactions that may have put a row into it and not committed: it is passed only as long as all of them run. */
  readonly running: readonly bigint[]
}

/** A walk over rows of a slot of which none could be taken. */
export interface SlotWalk {
  readonly slot: number
  readonly firstLive: string
  /** The row with which it began: the first live one, or the last one of a stretch that was passed. */
  readonly start: string
  readonly last: string
  /** It ended before it found a row to take. */
  readonly cut: boolean
  /** The keys that it met, with the time until which they are held, in microseconds since 1970. */
  readonly heldUntilUs: ReadonlyMap<string, number>
  /** When the first row falls due that is not held. Whole microseconds: extra_float_digits rounds a double to hours. */
  readonly dueUs: number
}

interface WalkText {
  readonly start: string
  readonly last: string
  readonly rows: number
  readonly keys: Readonly<Record<string, number>> | null
  readonly dueUs: number
}

/** The walk that a line of a claim tells of, if any. */
export function toWalk(row: Row, slot: number, firstLive: string, most: number): SlotWalk | undefined {
  const text = textOrNull(row, 'walk')
  if (text === null) return undefined
  const { start, last, rows, keys, dueUs }: WalkText = JSON.parse(text)
  return { slot, firstLive, start, last, cut: rows >= most, heldUntilUs: new Map(Object.entries(keys ?? {})), dueUs }
}
