import { dateOrNull, microseconds } from '../dates.ts'
import { FAILURES, type Failure } from '../operate/messages/failures.ts'
import { bool, date, duration, nullable, number, shape, text } from '../shape.ts'
import { booleanOf, type Execute, numberOf, numberOrNull, type Row, statement, textOrNull } from '../statement.ts'
import type { OnFailure } from './known-group.ts'

/** One stream: a row of `sluice.streams`. */
export interface StreamStatus {
  /** The name of the stream. */
  readonly stream: string
  /** Among how many partitions its ordering keys are divided. */
  readonly partitions: number
  /** The last position that was drawn. */
  readonly head: number
  /** Events at this position and before are gone. */
  readonly trimmedTo: number
  /** How many positions were drawn behind that: about as many events, or fewer. */
  readonly events: number
  /** How much its tables and indexes take. */
  readonly bytes: number
  /** How many segments it has, with the one that is attached ahead. */
  readonly segments: number
  /** How many groups it has. */
  readonly groups: number
  /** How long a segment is kept after it was closed; null: for ever. */
  readonly retainMs: number | null
  /** How much the stream may take before its oldest segments go; null: any amount. */
  readonly retainBytes: number | null
  /** Whether a segment stays that a group has not read. */
  readonly keepUnread: boolean
  /** How long a segment is open. */
  readonly segmentMs: number
  /** How many transactions that have appended to one partition are open, in the partition that has most of them. */
  readonly openAppends: number
  /** The server process of the oldest one; null also for a prepared transaction. */
  readonly openPid: number | null
  /** How long that one has been open; null also if it may not be seen. */
  readonly openForMs: number | null
  /** When it was made. */
  readonly createdAt: Date
}

/** One group of a stream: a row of `sluice.groups`. */
export interface GroupStatus {
  /** The name of the stream. */
  readonly stream: string
  /** The name of the group. */
  readonly group: string
  /** Its queue: there its failed events are messages, and those that wait behind them. */
  readonly queue: string
  /** How many events it has not read: counted up to 1,000 a partition, and beyond that taken from the positions. */
  readonly unread: number
  /** How long ago the oldest of them was appended; null: there is none. */
  readonly oldestUnreadAgeMs: number | null
  /** How many partitions have an open append, behind which nothing is read. */
  readonly partitionsHeldBack: number
  /** How long the oldest of these has been open. */
  readonly openForMs: number | null
  /** Deferred events, in its queue: failed and due again, or waiting behind a failed one. */
  readonly deferred: number
  /** Dead letters. */
  readonly dead: number
  /** How many live worker processes consume it. */
  readonly members: number
  /** When it was paused; null: it is not paused. */
  readonly pausedAt: Date | null
  /** When it read last. */
  readonly movedAt: Date
  /**
   * The events that retention removed before the group had read them. The group reads nothing until it is moved. Null: none.
   */
  readonly lost: LostEvents | null
  /** What happens to failed events: they are deferred to its queue, or block their partitions. */
  readonly onFailure: OnFailure
  /** How many partitions an event blocks that has failed for good, until `groups.retry` or `groups.skip`. */
  readonly partitionsStopped: number
  /** How many events may be deferred; further failures block their partitions. */
  readonly deferLimit: number
  /** Whether what it has not read stays; null: as its stream says, unless it is paused. */
  readonly keepUnread: boolean | null
  /** When it was made. */
  readonly createdAt: Date
}

/** The first and the last position of events that are gone. */
export interface LostEvents {
  readonly from: number
  readonly to: number
}

/** A failed event that blocks its partition: by policy (`stop`), or because the group has reached its `deferLimit`. */
export interface BlockingEvent {
  /** When it is tried again; null: it blocks its partition until `groups.retry` or `groups.skip`. */
  readonly until: Date | null
  /** How many tries have failed. */
  readonly attempt: number
  /** How the last one failed; null: it was snoozed. */
  readonly error: string | null
  /** Its last failures, the latest last, at most five. Only the latest has a stack. */
  readonly failures: readonly Failure[]
}

/** How far a group has read one partition: a row of `sluice.group_partitions`. */
export interface GroupPartitionStatus {
  /** From 0. */
  readonly partition: number
  /** The group has read the partition up to this position. */
  readonly position: number
  /** Up to which position the partition may be read now. */
  readonly stableEnd: number
  /** The first event that it has not read; null: it has read all. */
  readonly nextPosition: number | null
  /** The failed event that blocks the partition, the next one; null: the partition is not blocked. */
  readonly blockedBy: BlockingEvent | null
  /** How many events it has not read. */
  readonly unread: number
  /** How long ago the first of them was appended. */
  readonly oldestUnreadAgeMs: number | null
  /** When the group read from it last. */
  readonly movedAt: Date
  /** The server process of the oldest transaction that has appended to the partition and is open. */
  readonly openPid: number | null
  /** How long that has been open. */
  readonly openForMs: number | null
}

/** All streams, by name, or one. */
export async function readStreams(execute: Execute, stream: string | null): Promise<readonly StreamStatus[]> {
  return (await execute(STREAMS, [stream])).map(STREAM.read)
}

/** The groups of all streams, or of one. */
export async function readGroups(execute: Execute, stream: string | null): Promise<readonly GroupStatus[]> {
  return (await execute(GROUPS, [stream])).map(GROUP.read)
}

/** The partitions of one group. */
export async function readGroupPartitions(
  execute: Execute,
  stream: string,
  group: string,
): Promise<readonly GroupPartitionStatus[]> {
  return (await execute(PARTITIONS, [stream, group])).map(PARTITION.read)
}

const STREAM = shape<StreamStatus>({
  stream: text(),
  partitions: number(),
  head: number(),
  trimmedTo: number(),
  events: number(),
  bytes: number(),
  segments: number(),
  groups: number(),
  retainMs: nullable.duration(),
  retainBytes: nullable.number(),
  keepUnread: bool(),
  segmentMs: duration(),
  openAppends: number(),
  openPid: nullable.number(),
  openForMs: nullable.duration(),
  createdAt: date(),
})

const GROUP = shape<GroupStatus>({
  stream: text(),
  group: text('name'),
  queue: text(),
  unread: number(),
  oldestUnreadAgeMs: nullable.duration(),
  partitionsHeldBack: number(),
  openForMs: nullable.duration(),
  deferred: number('deferred'),
  dead: number(),
  members: number(),
  pausedAt: nullable.date(),
  movedAt: date(),
  lost: { select: (of) => `${of}.lost_from, ${of}.lost_to`, read: lostOf },
  onFailure: { select: (of) => `${of}.on_failure`, read: (row) => (row.on_failure === 'stop' ? 'stop' : 'defer') },
  partitionsStopped: number(),
  deferLimit: number('defer_limit'),
  keepUnread: nullable.bool(),
  createdAt: date(),
})

const PARTITION = shape<GroupPartitionStatus>({
  partition: number(),
  position: number(),
  stableEnd: number(),
  nextPosition: nullable.number(),
  blockedBy: { select: heldColumns, read: heldOf },
  unread: number(),
  oldestUnreadAgeMs: nullable.duration(),
  movedAt: date(),
  openPid: nullable.number(),
  openForMs: nullable.duration(),
})

function heldColumns(of: string): string {
  const until = `CASE WHEN isfinite(${of}.held_until) THEN ${microseconds(`${of}.held_until`)} END`
  const failures = FAILURES.select(of, 'failures')
  return `${of}.held_until IS NOT NULL AS held, ${of}.attempt, ${of}.last_error, ${until} AS held_us, ${failures}`
}

function heldOf(row: Row): BlockingEvent | null {
  if (!booleanOf(row, 'held')) return null
  return {
    until: dateOrNull(row, 'held_us'),
    attempt: numberOf(row, 'attempt'),
    error: textOrNull(row, 'last_error'),
    failures: FAILURES.read(row, 'failures'),
  }
}

function lostOf(row: Row): LostEvents | null {
  const from = numberOrNull(row, 'lost_from')
  const to = numberOrNull(row, 'lost_to')
  return from === null || to === null ? null : { from, to }
}

const STREAMS = statement(
  'operate_streams',
  `
SELECT ${STREAM.columns('s')}
FROM sluice.streams s
WHERE $1::text IS NULL OR s.stream = $1::text
ORDER BY s.stream`,
)

const GROUPS = statement(
  'operate_groups',
  `
SELECT ${GROUP.columns('g')}
FROM sluice.groups g
WHERE $1::text IS NULL OR g.stream = $1::text
ORDER BY g.stream, g.name`,
)

const PARTITIONS = statement(
  'operate_group_partitions',
  `
SELECT ${PARTITION.columns('r')}
FROM sluice.group_partitions r
WHERE r.stream = $1::text AND r.name = $2::text
ORDER BY r.partition`,
)
