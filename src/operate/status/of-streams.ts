import { durationWords } from '../../basics/time/duration-words.ts'
import { counted, shortened } from '../../basics/words/sentences.ts'
import type { GroupPartitionStatus, GroupStatus, StreamStatus } from '../../table/stream/stream-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

/** Of a group that reads nothing although there is something to read. */
export function attentionToGroup(status: GroupStatus): readonly Attention[] {
  const { stream, group, lost, members, unread, oldestUnreadAgeMs, pausedAt } = status
  const about = { ...aboutGroup(status), messages: unread }
  if (lost !== null) {
    const remedy = `npx sluice group seek ${stream} ${group} --to <offset>`
    const text = `lost its unread events from ${lost.from} to ${lost.to}`
    return [{ ...about, kind: 'groups.lost', severity: 'wrong', text, remedy }]
  }
  if (pausedAt !== null) {
    const text = `paused, ${counted(unread, 'event')} unread`
    const remedy = `npx sluice group resume ${stream} ${group}`
    return [{ ...about, kind: 'groups.paused', severity: 'watch', text, remedy }]
  }
  if (members > 0 || (oldestUnreadAgeMs ?? 0) <= AFTER_MS['groups.no_members']) return []
  const text = `${counted(unread, 'event')} unread, and no live worker reads them`
  return [{ ...about, kind: 'groups.no_members', severity: 'wrong', text, remedy: null }]
}

/** Of the events that have failed for good and stop partitions of a group. */
export function attentionToPartitions(
  status: GroupStatus,
  partitions: readonly GroupPartitionStatus[],
): readonly Attention[] {
  const { stream, group } = status
  return partitions.flatMap(({ partition, nextPosition, blockedBy, unread }) => {
    if (blockedBy === null || blockedBy.until !== null) return []
    const why = blockedBy.error === null ? '' : `: ${shortened(blockedBy.error)}`
    const text = `partition ${partition} blocked by event ${nextPosition}, which has failed for good${why}`
    const retry = `npx sluice group retry ${stream} ${group} --partition ${partition}`
    const remedy = `${retry} # or: npx sluice group skip ${stream} ${group} ${nextPosition}`
    return [
      { ...aboutGroup(status), kind: 'groups.stopped', severity: 'wrong', messages: unread, text, remedy },
    ] as const
  })
}

function aboutGroup({ stream, group }: GroupStatus) {
  return { subject: `${stream}, group ${group}`, stream, group } as const
}

/** Of a transaction that has appended and is open: no group reads beyond it. */
export function attentionToStream({ stream, openForMs, openPid }: StreamStatus): readonly Attention[] {
  if (openForMs === null || openForMs <= AFTER_MS['streams.open_append']) return []
  const text = `an append has been open for ${durationWords(openForMs)}, in server process ${openPid}, and blocks the groups`
  const about = { kind: 'streams.open_append', severity: 'watch', subject: stream, stream, messages: 0 } as const
  return [{ ...about, text, remedy: `SELECT pg_terminate_backend(${openPid});` }]
}
