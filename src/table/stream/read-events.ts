import type { Headers } from '../../message.ts'
import { dateOf, microseconds } from '../dates.ts'
import { type Execute, numberOf, only, type Row, statement, textOf, textOrNull, textsOf } from '../statement.ts'
import { naming } from './stream-errors.ts'

/** One event of a stream, as it is read without a group. */
export interface StreamEvent<Payload = unknown> {
  /** `<stream>/<position>`: unique in the database, and the same for a group's handler. */
  readonly id: string
  /** The name of its stream. */
  readonly stream: string
  /** Where it is in the stream. Positions ascend, with gaps. */
  readonly position: number
  /** Dot-separated; null if none was given. */
  readonly type: string | null
  /** The version of the payload's schema, as it was appended, from 1. */
  readonly schemaVersion: number
  /** As JSON gives it back. It is not validated again. */
  readonly payload: Payload
  /** The metadata that was appended with it; an empty object if there was none. */
  readonly headers: Headers
  /** Events with the same key are handled one at a time, in order; null if none was given. */
  readonly orderingKey: string | null
  /** When it was appended, by the database's clock. Its transaction may have committed later. */
  readonly appendedAt: Date
}

/** An offset in a stream, in the words of `sluice.stream_positions`. */
export interface OffsetParams {
  readonly at: 'start' | 'end' | 'position' | 'time'
  readonly position: number | null
  readonly timeUs: number | null
}

/** A range of a stream: in each partition the events behind its start, up to its end. */
export interface PartitionRanges {
  readonly streamId: number
  readonly partitions: readonly number[]
  readonly starts: readonly number[]
  readonly ends: readonly number[]
}

/** What a stream has, as of now. */
export interface StableEnds {
  readonly streamId: number
  /** The partition of the ordering key that was asked for; null: all partitions. */
  readonly partition: number | null
  /** Events at this position and before are gone. */
  readonly trimmedTo: number
  /** Up to which position each partition is stable. */
  readonly stableEnds: readonly number[]
}

/** Reads how far a stream is stable. Its events are to be read in a later statement. */
export async function readStableEnds(
  execute: Execute,
  stream: string,
  orderingKey: string | null,
): Promise<StableEnds> {
  const row = only(await naming(execute(STABLE_ENDS, [stream, orderingKey]), stream))
  return {
    streamId: numberOf(row, 'stream_id'),
    partition: row.partition === null ? null : numberOf(row, 'partition'),
    trimmedTo: numberOf(row, 'trimmed_to'),
    stableEnds: textsOf(row, 'stable_ends').slice(1).map(Number),
  }
}

/** Behind which position each partition begins, at an offset. */
export async function readPositions(
  execute: Execute,
  stream: string,
  offset: OffsetParams,
): Promise<readonly number[]> {
  const row = only(await naming(execute(POSITIONS, [stream, offset.at, offset.position, offset.timeUs]), stream))
  return textsOf(row, 'positions').map(Number)
}

/** A page of the events of ranges, in order of position. */
export async function readEvents(
  execute: Execute,
  stream: string,
  { streamId, partitions, starts, ends }: PartitionRanges,
  {
    type,
    orderingKey,
    most,
  }: { readonly type: string | null; readonly orderingKey: string | null; readonly most: number },
): Promise<readonly { readonly event: StreamEvent; readonly bytes: number }[]> {
  const rows = await execute(EVENTS, [streamId, partitions, starts, ends, most, type, orderingKey])
  return rows.map((row) => ({ event: toEvent(stream, row), bytes: textOf(row, 'payload').length }))
}

/** The first position in the ranges; null: they are empty. */
export async function readNextPosition(
  execute: Execute,
  { streamId, partitions, starts, ends }: PartitionRanges,
): Promise<number | null> {
  const [row] = await execute(NEXT, [streamId, partitions, starts, ends])
  const next = row === undefined ? null : textOrNull(row, 'next')
  return next === null ? null : Number(next)
}

function toEvent(stream: string, row: Row): StreamEvent {
  const position = numberOf(row, 'position')
  return {
    id: `${stream}/${position}`,
    stream,
    position,
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    payload: JSON.parse(textOf(row, 'payload')),
    headers: JSON.parse(textOf(row, 'headers')),
    orderingKey: textOrNull(row, 'ordering_key'),
    appendedAt: dateOf(row, 'appended_us'),
  }
}

// One row of sluice.stream, and one look at pg_locks.
const STABLE_ENDS = statement(
  'stream_stable_ends',
  `
SELECT b.stream_id, b.trimmed_to::text AS trimmed_to, b.stable_ends::text[] AS stable_ends,
       CASE WHEN $2::text IS NOT NULL THEN sluice_private.event_partition($2::text, b.partitions) END AS partition
FROM sluice_private.stream_stable_ends($1::text) b`,
)

// By bisection for a time: see sluice_private.positions_at.
const POSITIONS = statement(
  'stream_positions',
  `
SELECT sluice.stream_positions(
  $1::text, $2::text, $3::bigint, timestamptz 'epoch' + $4::bigint::double precision * interval '1 microsecond'
)::text[] AS positions`,
)

// Each partition is a range of (partition, position) in the segments that the positions allow, which ends at the limit: see
// sluice_private.read_events.
const EVENTS = statement(
  'stream_events',
  `
SELECT e.position::text AS position, e.type, e.schema_version, e.payload::text AS payload, e.headers::text AS headers, e.ordering_key,
       ${microseconds('e.appended_at')} AS appended_us
FROM sluice_private.read_events($1::integer, $2::smallint[], $3::bigint[], $4::bigint[], $5::integer, $6::text, $7::text) e`,
)

// One descent for each partition.
const NEXT = statement(
  'stream_next',
  'SELECT sluice_private.next_position($1::integer, $2::smallint[], $3::bigint[], $4::bigint[])::text AS next',
)
