import { type Row, textOf, textOrNull } from '../statement.ts'

/** A message that an ordered claim was to take, and could not lock. */
export interface MissedMessage {
  readonly slot: number
  readonly id: string
  readonly key: string
  /**
   * Another session has it. False: it has been moved since the claim's snapshot, and this transaction has locked it. Null: it is
   * gone, and keeps nothing back.
   */
  readonly locked: boolean | null
}

/** Keys by their slots, as the statement takes them: each with a text that is the id of no message. */
export type KeysOfSlots = Readonly<Record<number, Readonly<Record<string, ''>>>>

export function missedOf(rows: readonly Row[]): readonly MissedMessage[] {
  return rows.flatMap((row) => {
    const text = textOrNull(row, 'missed')
    return text === null ? [] : [JSON.parse(text)]
  })
}

/**
 * Whether an earlier message of its key was missed. By the ids, and not by the order of the lines. The row stays locked, as
 * its slot does, until the batch ends.
 */
export function isBehind(row: Row, missed: readonly MissedMessage[]): boolean {
  if (missed.length === 0) return false
  const id = BigInt(textOf(row, 'id'))
  return missed.some(({ key, locked, ...one }) => locked !== null && key === row.ordering_key && BigInt(one.id) < id)
}
