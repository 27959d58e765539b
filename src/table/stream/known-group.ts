import { CLAIM_CONTEXT, type ClaimContext, claimContextOf } from '../claim/claim.ts'
import { booleanOf, type Execute, numberOf, statement, textOf } from '../statement.ts'
import { groupUnknown, streamUnknown } from './stream-errors.ts'

/** A group as the server knows it. */
export interface KnownGroup {
  /** In the name of the stream's table. */
  readonly streamId: number
  readonly groupId: number
  readonly partitions: number
}

/**
 * Two rows of two small tables, once per consumer.
 *
 * @throws SluiceError STREAM_UNKNOWN, GROUP_UNKNOWN
 */
export async function readGroup(execute: Execute, stream: string, group: string): Promise<KnownGroup> {
  const [row] = await execute(READ_GROUP, [stream, group])
  if (row === undefined) throw streamUnknown(stream)
  if (row.group_id === null) throw groupUnknown(stream, group)
  return {
    streamId: numberOf(row, 'stream_id'),
    groupId: numberOf(row, 'group_id'),
    partitions: numberOf(row, 'partitions'),
  }
}

/** Whether the queue of a group may have messages: one descent of group_queued_idx. */
export async function readQueued(execute: Execute, { groupId }: KnownGroup): Promise<boolean> {
  const [row] = await execute(READ_QUEUED, [groupId])
  return row !== undefined && booleanOf(row, 'queued')
}

/** What happens to failed events: they become messages of the group's queue, or their partitions wait for them. */
export type OnFailure = 'defer' | 'stop'

/**
 * What a claim returns once, and not with every event: the clock and other {@link ClaimContext}, and what may change of
 * the group.
 */
export interface GroupStanding extends ClaimContext {
  readonly onFailure: OnFailure
  readonly deferLimit: number
  /** The group's queue may have messages. */
  readonly mayBeQueued: boolean
  /** How many it has, those with ordering keys and the others each counted up to the limit. */
  readonly queuedCount: number
  /** The first and the last position of events that retention took before it had read them; null: none. */
  readonly lost: { readonly from: number; readonly to: number } | null
}

/**
 * One row by its number, and a range of message_slot_idx and one of message_due_idx, unless it is noted that the
 * group's queue is empty. It is read behind the events of a claim: what takes events away records it for the group in the
 * same transaction, so a claim that has read past them sees that here. Undefined: the group is deleted.
 */
export async function readStanding(
  execute: Execute,
  { groupId }: KnownGroup,
  queue: string,
): Promise<GroupStanding | undefined> {
  const [row] = await execute(READ_STANDING, [queue, groupId])
  if (row === undefined) return undefined
  const lost = row.lost_from === null ? null : { from: numberOf(row, 'lost_from'), to: numberOf(row, 'lost_to') }
  return {
    ...claimContextOf(row),
    onFailure: textOf(row, 'on_failure') === 'stop' ? 'stop' : 'defer',
    deferLimit: numberOf(row, 'defer_limit'),
    mayBeQueued: booleanOf(row, 'may_be_queued'),
    queuedCount: numberOf(row, 'queued_count'),
    lost,
  }
}

/** Notes that the queue of a group is empty, if it is: claims do not look into it any more, until something is put there. */
export async function noteEmpty(execute: Execute, { groupId }: KnownGroup, queue: string): Promise<void> {
  await execute(NOTE_EMPTY, [groupId, queue])
}

/** The same as a condition. */
export const MAY_BE_QUEUED = (group: string) =>
  `EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = ${group}::integer)`

const NOTE_EMPTY = statement('group_note_empty', 'SELECT sluice_private.note_empty($1::integer, $2::text)')

const READ_QUEUED = statement('group_queued', `SELECT ${MAY_BE_QUEUED('$1')} AS queued`)

const READ_STANDING = statement(
  'group_standing',
  `
SELECT g.on_failure, g.defer_limit, g.lost_from, g.lost_to, noted.may_be_queued, queued.count AS queued_count, ${CLAIM_CONTEXT}
FROM (SELECT clock_timestamp() AS now OFFSET 0) c
CROSS JOIN (SELECT ${MAY_BE_QUEUED('$2')} AS may_be_queued OFFSET 0) noted CROSS JOIN sluice.stream_group g CROSS JOIN LATERAL (
  SELECT count(*) AS count FROM (
    (SELECT FROM sluice.message m WHERE noted.may_be_queued AND m.queue = $1::text AND m.slot IS NOT NULL
     ORDER BY m.slot, m.id LIMIT greatest(g.defer_limit, 1))
    UNION ALL
    (SELECT FROM sluice.message m WHERE noted.may_be_queued AND m.queue = $1::text AND m.slot IS NULL
     ORDER BY m.priority, m.due_at, m.id LIMIT greatest(g.defer_limit, 1))
  ) m
) queued
WHERE g.id = $2::integer`,
)

const READ_GROUP = statement(
  'group_read',
  `
SELECT s.id AS stream_id, s.partitions, g.id AS group_id
FROM sluice.stream s LEFT JOIN sluice.stream_group g ON g.stream = s.stream AND g.name = $2::text
WHERE s.stream = $1::text`,
)
