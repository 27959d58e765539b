import type { GroupPartitionStatus, GroupStatus } from 'sluice'
import { Refusal } from '../access/refusal.ts'
import type { Context, Page } from '../page.ts'
import { activityPart } from '../view/activity.ts'
import { errorLine } from '../view/errors.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { badge, count, duration, facts, instant, link, NONE, section, tile } from '../view/parts.ts'
import { askButton } from '../view/question.ts'
import { type Column, table } from '../view/table.ts'
import { number } from '../view/text.ts'

/** A group of a stream: its lag, and what stops its partitions. */
export const groupPage: Page = async (context) => {
  const [stream, group] = [context.param('stream'), context.param('group')]
  const { operate, paths } = context
  const found = (await operate.groups.list({ stream })).find((one) => one.group === group)
  if (found === undefined) throw new Refusal(404, 'No such group', `The stream has no group of this name.`)
  const partitions = await operate.groups.partitions(stream, group)
  const body = html`<p class="crumbs">${link(paths.to('streams'), 'Streams')}</p>
    <div id="head" class="page-head"><h1>${stream}:${group}</h1> ${found.pausedAt === null ? NOTHING : badge('paused', 'warn')}${actions(found, context)}</div>
    ${found.lost === null ? NOTHING : html`<p id="banner" class="banner tone-bad">It has lost its unread events from ${found.lost.from} to ${found.lost.to}, and reads nothing until it is moved.</p>`}
    ${section('totals', 'Progress', tiles(found, context))}
    ${activityPart(
      await operate.queues.activity({ queue: found.queue }),
      await operate.queues.backlogHistory({ queue: found.queue }),
      await operate.now(),
    )}
    ${section('facts', 'Settings', settings(found, context))}
    ${section('partitions', 'Partitions', table('Partitions', columnsOf(found, context), partitions, 'It has no partitions.'))}`
  return { title: `${stream}:${group}`, place: 'streams', body }
}

function actions({ stream, group, pausedAt, partitionsStopped }: GroupStatus, { viewer, paths }: Context): Html {
  if (viewer.may !== 'act') return NOTHING
  const path = paths.group(stream, group)
  return html`<div class="actions">
    ${partitionsStopped > 0 ? askButton(`${path}/retry`, 'Retry all') : NOTHING}
    ${pausedAt === null ? askButton(`${path}/pause`, 'Pause') : askButton(`${path}/resume`, 'Resume')}
    ${askButton(`${path}/seek`, 'Move')}</div>`
}

function tiles(
  { queue, unread, oldestUnreadAgeMs, deferred, dead, partitionsStopped, members }: GroupStatus,
  { paths }: Context,
): Html {
  return html`<div class="tiles">
    ${tile('Unread', count(unread))}${tile('Lag', duration(oldestUnreadAgeMs))}${tile('Deferred', deferred === 0 ? count(0) : link(paths.queue(queue), count(deferred)))}
    ${tile('Stopped', count(partitionsStopped, 'bad'))}${tile('Dead', dead === 0 ? count(0) : link(paths.dead({ queue }), count(dead, 'bad')))}${tile('Members', count(members))}
  </div>`
}

function settings({ queue, movedAt, onFailure, deferLimit, keepUnread }: GroupStatus, { paths }: Context): Html {
  return facts([
    ['Its failed events', link(paths.queue(queue), queue)],
    ['On failure', onFailure],
    ['May be deferred', number(deferLimit)],
    ['Keeps what is unread', keepUnread === null ? 'as its stream says' : keepUnread ? 'yes' : 'no'],
    ['Read last', instant(movedAt)],
  ])
}

function columnsOf(
  { stream, group }: GroupStatus,
  { viewer, paths }: Context,
): readonly Column<GroupPartitionStatus>[] {
  const path = paths.group(stream, group)
  const acts: Column<GroupPartitionStatus> = { title: 'Actions', cell: (one) => partitionActions(one, path) }
  return [
    { title: 'Partition', align: 'end', cell: ({ partition }) => partition },
    { title: 'Read up to', align: 'end', cell: ({ position }) => number(position) },
    { title: 'Unread', align: 'end', cell: ({ unread }) => count(unread) },
    { title: 'Lag', align: 'end', cell: ({ oldestUnreadAgeMs }) => duration(oldestUnreadAgeMs) },
    { title: 'Open append', align: 'end', cell: ({ openForMs }) => duration(openForMs) },
    { title: 'State', cell: ({ blockedBy }) => stateOf(blockedBy) },
    { title: 'Error', wide: true, cell: ({ blockedBy, nextPosition }) => errorOf(blockedBy, nextPosition) },
    ...(viewer.may === 'act' ? [acts] : []),
  ]
}

function stateOf(blockedBy: GroupPartitionStatus['blockedBy']): Html {
  if (blockedBy === null) return NONE
  return blockedBy.until === null ? badge('stopped', 'bad') : badge('retrying', 'warn')
}

function errorOf(blockedBy: GroupPartitionStatus['blockedBy'], position: number | null): Html {
  if (blockedBy === null || position === null) return NONE
  return html`event ${number(position)}: ${errorLine(blockedBy.error ?? 'snoozed')}`
}

function partitionActions({ partition, nextPosition, blockedBy }: GroupPartitionStatus, path: string): Html {
  if (blockedBy === null || blockedBy.until !== null || nextPosition === null) return NONE
  const retry = askButton(`${path}/retry`, 'Retry', [['partition', String(partition)]])
  return html`<div class="actions">${retry}${askButton(`${path}/skip`, 'Skip', [['position', String(nextPosition)]])}</div>`
}
