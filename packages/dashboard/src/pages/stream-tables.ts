import type { GroupStatus, StreamStatus } from 'sluice'
import type { Paths } from '../paths.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { badge, count, duration, link } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'
import { bytes, durationWords, number } from '../view/text.ts'

/** Streams by name. */
export function streamsTable(streams: readonly StreamStatus[]): Html {
  const columns: readonly Column<StreamStatus>[] = [
    { title: 'Stream', cell: ({ stream }) => stream },
    { title: 'Events', align: 'end', cell: ({ events }) => count(events) },
    { title: 'Head', align: 'end', cell: ({ head }) => number(head) },
    { title: 'Size', align: 'end', cell: (stream) => bytes(stream.bytes) },
    { title: 'Partitions', align: 'end', cell: ({ partitions }) => number(partitions) },
    { title: 'Segments', align: 'end', cell: ({ segments }) => number(segments) },
    { title: 'Groups', align: 'end', cell: ({ groups }) => count(groups) },
    { title: 'Kept', align: 'end', cell: retention },
    { title: 'Open append', align: 'end', cell: ({ openForMs }) => duration(openForMs) },
  ]
  return table('Streams', columns, streams, 'There are no streams.')
}

function retention({ retainMs, retainBytes }: StreamStatus): string {
  const limits = [
    retainMs === null ? [] : durationWords(retainMs),
    retainBytes === null ? [] : bytes(retainBytes),
  ].flat()
  return limits.length === 0 ? 'for ever' : limits.join(', ')
}

/** Groups by stream and name. */
export function groupsTable(groups: readonly GroupStatus[], paths: Paths): Html {
  const columns: readonly Column<GroupStatus>[] = [
    { title: 'Group', cell: (group) => nameOf(group, paths) },
    { title: 'Unread', align: 'end', cell: ({ unread }) => count(unread) },
    { title: 'Lag', align: 'end', cell: ({ oldestUnreadAgeMs }) => duration(oldestUnreadAgeMs) },
    { title: 'Deferred', align: 'end', cell: ({ deferred }) => count(deferred) },
    { title: 'Stopped', align: 'end', cell: ({ partitionsStopped }) => count(partitionsStopped, 'bad') },
    { title: 'Held back', align: 'end', cell: ({ partitionsHeldBack }) => count(partitionsHeldBack) },
    {
      title: 'Dead',
      align: 'end',
      cell: ({ queue, dead }) => (dead === 0 ? count(0) : link(paths.dead({ queue }), count(dead, 'bad'))),
    },
    { title: 'Members', align: 'end', cell: ({ members }) => count(members) },
  ]
  return table('Groups', columns, groups, 'No stream has a group.')
}

function nameOf({ stream, group, pausedAt, lost }: GroupStatus, paths: Paths): Html {
  return html`${link(paths.group(stream, group), `${stream}:${group}`)}
    ${pausedAt === null ? NOTHING : badge('paused', 'warn')}${lost === null ? NOTHING : badge('lost events', 'bad')}`
}
