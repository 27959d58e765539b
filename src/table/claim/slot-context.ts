import { type Row, toText } from '../statement.ts'
import type { SnapshotText } from './claim-snapshot.ts'

/** What the lines of a locked slot have in common. */
export interface SlotContext extends Omit<SnapshotText, 'xid'> {
  readonly slot: number
  /** The slot's first live row. */
  readonly firstLive: string
  readonly anyHeld: boolean
  /** Undefined if the transaction had its id before the claim. */
  readonly xid: string | undefined
}

/**
 * Its text, made once for each slot. It begins with that of the claim and takes the place of that in the line, because each
 * further column is written, sent and read for every message: as six columns they were a twentieth of the server's time for a claim.
 */
export const slotContext = (anyHeld: string) =>
  `pg_catalog.concat_ws(' ', clock.context, candidate.slot, candidate.first_live, ${anyHeld}, candidate.oldest, candidate.snapshot,
      CASE WHEN candidate.fresh THEN pg_current_xact_id() END)`

/** Each line of a slot with what it says of the slot, which is parsed once for the lines that follow each other. */
export function* withSlots(rows: readonly Row[]): Generator<readonly [Row, SlotContext]> {
  let text: unknown
  let slot: SlotContext | undefined
  for (const row of rows) {
    if (row.context !== text) slot = slotContextOf(row)
    text = row.context
    if (slot !== undefined) yield [row, slot]
  }
}

/** Undefined: the claim has locked no slot. */
export function slotContextOf(row: Row): SlotContext | undefined {
  const [slot, firstLive = '', anyHeld, xmin = '', snapshot = '', xid] = toText(row.context, 'context')
    .split(' ')
    .slice(OF_CLAIM)
  if (slot === undefined) return undefined
  return { slot: Number(slot), firstLive, anyHeld: anyHeld === 't', xmin, snapshot, xid }
}

/** So many words are the claim's. */
const OF_CLAIM = 5
