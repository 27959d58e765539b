import { requiringRows } from '../../rows-missing.ts'
import { type Execute, numberOf, only, statement, textOrNull, textsOf } from '../../statement.ts'
import { matchArguments, matchParams, type WaitingMatch } from './waiting-match.ts'

/** What `operate.queues.move` has moved, and how many messages that match it has left where they are. */
export interface Moved {
  readonly moved: number
  /** In flight, or locked by a session. */
  readonly inFlight: number
  /** They wait for an earlier message of their ordering key that stays, or a batch has the slot of their key. */
  readonly held: number
  /** The other queue has a message with their dedupe key, or keeps it, or a producer is about to take it. */
  readonly duplicates: number
}

/** Where a step of a move begins. */
export interface MovePlace {
  /** Null: with the first message. */
  readonly afterId: string | null
  /** Ordering keys of which a message has stayed: all later ones stay too. */
  readonly keys: readonly string[]
}

/** One step of a move, and where the next begins; null: it is done. @throws SluiceError ROWS_MISSING */
export async function moveSome(
  execute: Execute,
  queue: string,
  target: string,
  { afterId, keys }: MovePlace,
  match: WaitingMatch,
): Promise<Moved & { readonly next: MovePlace | null }> {
  const row = only(await requiringRows(execute(MOVE, [queue, target, afterId, ...matchParams(match), keys])))
  const nextId = textOrNull(row, 'next_id')
  return {
    moved: numberOf(row, 'moved'),
    inFlight: numberOf(row, 'in_flight'),
    held: numberOf(row, 'held'),
    duplicates: numberOf(row, 'duplicates'),
    next: nextId === null ? null : { afterId: nextId, keys: textsOf(row, 'next_keys') },
  }
}

/** The counts of two steps together. */
export function addMoved(a: Moved, b: Moved): Moved {
  return {
    moved: a.moved + b.moved,
    inFlight: a.inFlight + b.inFlight,
    held: a.held + b.held,
    duplicates: a.duplicates + b.duplicates,
  }
}

const MOVE = statement(
  'move_messages',
  `
SELECT m.moved, m.in_flight, m.held, m.duplicates, m.next_id::text AS next_id, m.next_keys
FROM sluice.move_messages($1::text, $2::text, $3::bigint, ${matchArguments(4)}, $11::text[]) m`,
)
