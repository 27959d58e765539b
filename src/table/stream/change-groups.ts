import { booleanOf, type Execute, numberOf, only, statement, textOf } from '../statement.ts'
import type { OnFailure } from './known-group.ts'
import type { OffsetParams } from './read-events.ts'
import { naming } from './stream-errors.ts'

/** The options of a group. Null: as it is, or the default. */
export interface GroupParams {
  readonly onFailure: OnFailure | null
  readonly deferLimit: number | null
  readonly keepUnread: boolean | null
}

/** Makes a group, or changes the options of an existing one. Resolves with whether it was made. */
export async function createGroup(
  execute: Execute,
  stream: string,
  group: string,
  from: OffsetParams,
  { onFailure, deferLimit, keepUnread }: GroupParams,
): Promise<boolean> {
  const row = only(
    await naming(execute(CREATE, [stream, group, from.at, from.position, from.timeUs, deferLimit]), stream, group),
  )
  const made = booleanOf(row, 'made')
  if (keepUnread !== null || onFailure !== null || (!made && deferLimit !== null))
    await naming(execute(SET, [stream, group, deferLimit, keepUnread, onFailure]), stream, group)
  return made
}

/** Moves a group. Resolves with how many messages of its queue were dropped. */
export async function seekGroup(
  execute: Execute,
  stream: string,
  group: string,
  starts: readonly number[],
  deferred: 'keep' | 'drop' | null,
): Promise<number> {
  return numberOf(only(await naming(execute(SEEK, [stream, group, starts, deferred]), stream, group)), 'dropped')
}

/** What a group has to read, and what it would have from other positions. */
export async function countUnread(
  execute: Execute,
  stream: string,
  group: string,
  starts: readonly number[],
): Promise<{ readonly unread: number; readonly before: number }> {
  const row = only(await naming(execute(COUNT, [stream, group, starts]), stream, group))
  return { unread: numberOf(row, 'unread'), before: numberOf(row, 'before') }
}

/** Has the events tried again for which partitions wait; null: all partitions. Resolves with how many partitions go on. */
export async function retryPartitions(
  execute: Execute,
  stream: string,
  group: string,
  partition: number | null,
): Promise<number> {
  return numberOf(only(await naming(execute(RETRY, [stream, group, partition]), stream, group)), 'freed')
}

/** Passes over an event for which a partition waits. Resolves with whether one did. */
export async function skipEvent(execute: Execute, stream: string, group: string, position: number): Promise<boolean> {
  return booleanOf(only(await naming(execute(SKIP, [stream, group, position]), stream, group)), 'skipped')
}

/** Deletes a group with its messages and dead letters. */
export async function deleteGroup(
  execute: Execute,
  stream: string,
  group: string,
): Promise<{ readonly messages: number; readonly deadLetters: number }> {
  const row = only(await naming(execute(DELETE, [stream, group]), stream, group))
  return { messages: numberOf(row, 'messages'), deadLetters: numberOf(row, 'dead_letters') }
}

/** What a trim does. */
export interface TrimResult {
  /** The last position that is gone. */
  readonly trimmedTo: number
  /** How many positions that takes: as many events, but for gaps. */
  readonly events: number
  /** The groups with unread events that stop it. */
  readonly heldBy: readonly string[]
  /** The groups that have not read what is gone: they stand still until they are moved. */
  readonly lostBy: readonly string[]
}

/** Moves the low-water mark of a stream, or says what that would do. */
export async function trimStream(
  execute: Execute,
  stream: string,
  before: number,
  { force, dryRun }: { readonly force: boolean; readonly dryRun: boolean },
): Promise<TrimResult> {
  const row = only(await naming(execute(TRIM, [stream, before, force, dryRun]), stream))
  return {
    trimmedTo: numberOf(row, 'trimmed_to'),
    events: numberOf(row, 'events'),
    heldBy: JSON.parse(textOf(row, 'held_by')) as string[],
    lostBy: JSON.parse(textOf(row, 'lost_by')) as string[],
  }
}

const instant = (us: string) => `timestamptz 'epoch' + ${us}::bigint::double precision * interval '1 microsecond'`

// A group that is there already costs one row of sluice.stream_group. The positions of a new one are read before its row is
// written: what is appended in between is behind them.
const CREATE = statement(
  'group_create',
  `
SELECT CASE
  WHEN EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = $1::text AND g.name = $2::text) THEN false
  WHEN $3::text = 'end' THEN sluice.create_group($1::text, $2::text, NULL::bigint[], $6::integer)
  ELSE sluice.create_group($1::text, $2::text, sluice.stream_positions($1::text, $3::text, $4::bigint, ${instant('$5')}), $6::integer)
END AS made`,
)

const SET = statement('group_set', 'SELECT sluice.group_set($1::text, $2::text, $3::integer, $4::boolean, $5::text)')

const RETRY = statement('partitions_retry', 'SELECT sluice.retry_partitions($1::text, $2::text, $3::integer) AS freed')

const SKIP = statement('event_skip', 'SELECT sluice.skip_event($1::text, $2::text, $3::bigint) AS skipped')

const SEEK = statement(
  'group_seek',
  'SELECT sluice.seek_group($1::text, $2::text, $3::bigint[], $4::text)::text AS dropped',
)

// Counts up to 100,000 events in each partition.
const COUNT = statement(
  'group_count',
  `
SELECT (SELECT coalesce(sum(r.unread), 0) FROM sluice_private.read_group_partitions($1::text, $2::text, 100000, $3::bigint[]) r)::text AS unread,
       (SELECT coalesce(sum(r.unread), 0) FROM sluice_private.read_group_partitions($1::text, $2::text, 100000) r)::text AS before`,
)

const DELETE = statement(
  'group_delete',
  'SELECT d.messages::text AS messages, d.dead_letters::text AS dead_letters FROM sluice.delete_group($1::text, $2::text) d',
)

const TRIM = statement(
  'stream_trim',
  `
SELECT t.trimmed_to, t.events, pg_catalog.to_jsonb(t.held_by)::text AS held_by, pg_catalog.to_jsonb(t.lost_by)::text AS lost_by
FROM sluice.trim_stream($1::text, $2::bigint, $3::boolean, $4::boolean) t`,
)
