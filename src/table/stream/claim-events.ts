import { type ClaimedRow, NO_OPTIONS } from '../claim/claim.ts'
import {
  booleanOf,
  type Execute,
  numberOrNull,
  type Row,
  textOf,
  textsOf,
  toNumber,
  toNumberOrNull,
  toText,
  toTextOrNull,
} from '../statement.ts'
import { LOOK_AT_STABLE_ENDS, statementsOf } from './event-claim-statements.ts'
import type { KnownGroup } from './known-group.ts'

/** A claimed event. The id of its row is its position with a minus. */
export interface ClaimedEvent {
  readonly row: ClaimedRow
  readonly position: number
  readonly partition: number
  /** The progress of its partition before it. */
  readonly from: number
  /** An earlier event of its key is in the group's queue. */
  readonly deferred: boolean
}

export interface EventClaimOptions {
  /** The group's queue. */
  readonly queue: string
  /** In the order in which they are tried. */
  readonly partitions: readonly number[]
  /** The most events to take. */
  readonly limit: number
  /** How many events are enough to lock no further partition. 1 takes what the first partition has. @default limit */
  readonly enough?: number
  /** As {@link lookAtStableEnds} returned them; null: it has just been sent in this transaction. */
  readonly stableEnds: string | null
  /** As {@link readWindows} returns it for a partition. Partitions that are elsewhere are left alone. @default 0 */
  readonly window?: number
}

export interface EventClaim {
  readonly events: readonly ClaimedEvent[]
  /** The next event of the first partition may be before the window. */
  readonly elsewhere: boolean
}

/**
 * Asks up to where the partitions of a stream are stable, and leaves the answer in a setting for the statements behind it.
 *
 * @returns the last position drawn, and the stable end of each partition, as one text
 */
export async function lookAtStableEnds(execute: Execute, { streamId }: KnownGroup): Promise<string> {
  const [row] = await execute(LOOK_AT_STABLE_ENDS, [streamId])
  if (row === undefined) throw new TypeError('expected the stable ends of a stream')
  return textOf(row, 'stable_ends')
}

/**
 * Claims events of a group in two statements, which are sent together. The first locks partitions; the second reads how
 * far the group has got in them, and the events behind that. A lock gives no newer version of other rows, so only a
 * statement that begins after it sees what the last holder has committed: its progress, and the keys that it has deferred.
 */
export async function claimEvents(
  execute: Execute,
  group: KnownGroup,
  { queue, partitions, limit, enough = limit, stableEnds, window = 0 }: EventClaimOptions,
): Promise<EventClaim> {
  const statements = statementsOf(group.streamId, window)
  const locked = execute(statements.lock, [group.groupId, partitions, enough, stableEnds])
  const read = execute(statements.read, [queue, group.groupId, limit, stableEnds])
  const [[lock], rows] = await Promise.all([locked, read])
  let before: number | undefined
  const events = rows.map((row) => {
    const event = toEvent(row, before)
    before = event.partition
    return event
  })
  return { events, elsewhere: lock?.elsewhere === true }
}

/**
 * Only its options tell that a row is an event: messages may have numbers below zero, if they are inserted by hand. The
 * attempts of a partition are those of its first event.
 */
function toEvent(row: Row, partitionBefore: number | undefined): ClaimedEvent {
  const position = toNumber(row.position, 'position')
  const partition = toNumber(row.partition, 'partition')
  const orderingKey = toTextOrNull(row.ordering_key, 'ordering_key')
  const appendedUs = toNumber(row.appended_us, 'appended_us')
  return {
    row: {
      id: `-${toText(row.position, 'position')}`,
      priority: 5,
      dueUs: appendedUs,
      slot: orderingKey === null ? null : partition,
      orderingKey,
      type: toTextOrNull(row.type, 'type'),
      schemaVersion: toNumberOrNull(row.schema_version, 'schema_version') ?? 1,
      payload: toText(row.payload, 'payload'),
      headers: toTextOrNull(row.headers, 'headers') ?? '{}',
      attempt: partition === partitionBefore ? 0 : (toNumberOrNull(row.attempt, 'attempt') ?? 0),
      expired: false,
      maxAttempts: null,
      enqueuedUs: appendedUs,
      options: { ...NO_OPTIONS, eventPosition: position },
    },
    position,
    partition,
    from: toNumber(row.from_position, 'from_position'),
    deferred: row.deferred === true,
  }
}

/** What a claim has left that took nothing. */
export interface Rest {
  /** There are events that another session has locked. */
  readonly unread: boolean
  /** In how many milliseconds an event is tried again for which its partition waits; null: there is none. */
  readonly heldMs: number | null
  /** As {@link readWindows} returns them. */
  readonly windows: readonly number[]
}

export async function readRest(
  execute: Execute,
  group: KnownGroup,
  stableEnds: string | null,
  window = 0,
): Promise<Rest> {
  const [row] = await execute(statementsOf(group.streamId, window).rest, [group.groupId, group.partitions, stableEnds])
  if (row === undefined) throw new TypeError('expected what a claim has left')
  return { unread: booleanOf(row, 'unread'), heldMs: numberOrNull(row, 'held_ms'), windows: windowsOf(row) }
}

/**
 * In which window the next event of each partition is, or will be. The statements of a claim are about one window each,
 * because a statement locks, and opens, all segments that its plan names.
 */
export async function readWindows(execute: Execute, group: KnownGroup): Promise<readonly number[]> {
  const [row] = await execute(statementsOf(group.streamId, 0).windows, [group.groupId, group.partitions])
  if (row === undefined) throw new TypeError('expected the windows of a group')
  return windowsOf(row)
}

function windowsOf(row: Row): readonly number[] {
  return textsOf(row, 'windows').map(Number)
}
