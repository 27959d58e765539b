import { durationWords } from '../../basics/time/duration-words.ts'
import { counted } from '../../basics/words/sentences.ts'
import type { GroupStatus, StreamStatus } from '../../index.ts'
import { AFTER_MS } from '../../operate/status/after-ms.ts'
import type { View } from '../output.ts'
import { formatTable, type TableColumn } from './table.ts'

/** Streams as a table. */
export function formatStreams(streams: readonly StreamStatus[], view: View): string {
  return formatTable(streamColumns(view), streams, view)
}

/** Groups as a table. */
export function formatGroups(groups: readonly GroupStatus[], view: View): string {
  return formatTable(groupColumns(view), groups, view)
}

/** '1.5 GB' */
function formatBytes(bytes: number): string {
  const at = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3))
  const value = bytes / 1_000 ** at
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[at]}`
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

function streamColumns({ paint }: View): readonly TableColumn<StreamStatus>[] {
  return [
    { title: 'STREAM', cell: ({ stream }) => stream },
    { title: 'HEAD', align: 'right', cell: ({ head }) => head },
    { title: 'EVENTS', align: 'right', cell: ({ events }) => events },
    { title: 'SIZE', align: 'right', cell: ({ bytes }) => formatBytes(bytes) },
    { title: 'KEPT', align: 'right', cell: keptText },
    { title: 'GROUPS', align: 'right', cell: ({ groups }) => groups },
    {
      title: 'OPEN APPEND',
      align: 'right',
      cell: ({ openForMs }) => (openForMs === null ? null : durationWords(openForMs)),
      paint: (text, { openForMs }) =>
        openForMs !== null && openForMs > AFTER_MS['streams.open_append'] ? paint('yellow', text) : text,
    },
  ]
}

/** '30d', '5.0 GB', '30d, 5.0 GB' */
function keptText({ retainMs, retainBytes }: StreamStatus): string {
  const limits = [
    ...(retainMs === null ? [] : [durationWords(retainMs)]),
    ...(retainBytes === null ? [] : [formatBytes(retainBytes)]),
  ]
  return limits.length === 0 ? 'all' : limits.join(', ')
}

function groupColumns({ paint }: View): readonly TableColumn<GroupStatus>[] {
  return [
    { title: 'STREAM', cell: ({ stream }) => stream },
    { title: 'GROUP', cell: ({ group }) => group },
    { title: 'UNREAD', align: 'right', cell: ({ unread }) => unread },
    {
      title: 'OLDEST UNREAD',
      align: 'right',
      cell: ({ oldestUnreadAgeMs }) => (oldestUnreadAgeMs === null ? null : durationWords(oldestUnreadAgeMs)),
    },
    { title: 'DEFERRED', align: 'right', cell: ({ deferred }) => deferred },
    {
      title: 'DEAD',
      align: 'right',
      cell: ({ dead }) => dead,
      paint: (text, { dead }) => (dead > 0 ? paint('red', text) : text),
    },
    {
      title: 'WORKERS',
      align: 'right',
      cell: ({ members }) => members,
      paint: (text, { members, unread }) => (members === 0 && unread > 0 ? paint('yellow', text) : text),
    },
    {
      title: 'STATE',
      cell: stateText,
      paint: (text, { lost, pausedAt, partitionsStopped }) =>
        lost !== null || partitionsStopped > 0 ? paint('red', text) : pausedAt !== null ? paint('yellow', text) : text,
    },
  ]
}

/** 'reads', 'no worker', 'paused, 2 partitions stopped' */
function stateText({ lost, pausedAt, partitionsHeldBack, partitionsStopped, members }: GroupStatus): string {
  const states = [
    ...(lost === null ? [] : ['lost events']),
    ...(pausedAt === null ? [] : ['paused']),
    ...(partitionsStopped === 0 ? [] : [`${counted(partitionsStopped, 'partition')} stopped`]),
    ...(partitionsHeldBack === 0 ? [] : ['behind an open append']),
    ...(members === 0 ? ['no worker'] : []),
  ]
  return states.length === 0 ? 'reads' : states.join(', ')
}
