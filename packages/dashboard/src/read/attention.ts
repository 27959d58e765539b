import type { GroupStatus, QueueStatus, ScheduleStatus, StreamStatus, WorkerStatus } from 'sluice'
import type { Paths } from '../paths.ts'
import { age, counted } from '../view/text.ts'
import type { Findings } from './findings.ts'

/** Something that an operator should look at, and where. */
export interface Attention {
  readonly tone: 'warn' | 'bad'
  /** The queue, worker, schedule or group. */
  readonly name: string
  readonly text: string
  readonly href: string
}

/** What needs attention, what is wrong before what may be. It says the same as `sluice status`. */
export function attentionTo(found: Findings, paths: Paths): readonly Attention[] {
  const all = [
    ...found.queues.flatMap((queue) => toQueue(queue, found, paths)),
    ...found.workers.flatMap((worker) => toWorker(worker, paths)),
    ...found.schedules.flatMap((schedule) => toSchedule(schedule, paths)),
    ...found.groups.flatMap((group) => toGroup(group, paths)),
    ...found.streams.flatMap((stream) => toStream(stream, paths)),
  ]
  return all.toSorted((a, b) => Number(b.tone === 'bad') - Number(a.tone === 'bad'))
}

function toQueue(queue: QueueStatus, { settings, limits }: Findings, paths: Paths): readonly Attention[] {
  const { queue: name, ready, workers, dead, inFlight, pausedAt } = queue
  const oldest = queue.oldestReadyAgeMs ?? 0
  const found: Attention[] = []
  const href = paths.queue(name)
  const paused = settings.find((one) => one.queue === name && one.pausedAt !== null)
  const waiting = `${counted(ready, 'message')} ready, the oldest for ${age(oldest)}`
  const isLimited = limits.some((limit) => limit.queue === name && limit.tenant === null && isUsedUp(limit))
  if (paused !== undefined) {
    const who = paused.pausedBy === null ? '' : ` by ${paused.pausedBy}`
    const why = paused.pauseReason === null ? '' : `: ${paused.pauseReason}`
    found.push({ tone: 'warn', name, href, text: `paused${who}${why}; ${counted(ready, 'message')} ready` })
  }
  if (ready > 0 && workers === 0) {
    found.push({ tone: 'bad', name, href, text: `${waiting}, and no live worker consumes it` })
  } else if (isLimited) {
    found.push({ tone: 'warn', name, href, text: `${counted(ready, 'message')} ready wait for the queue's limit` })
  } else if (ready > 0 && inFlight === 0 && pausedAt === null && oldest > STUCK_MS) {
    found.push({ tone: 'bad', name, href, text: `${waiting}, and nothing is in flight although workers consume it` })
  }
  if (dead > 0) found.push({ tone: 'bad', name, text: counted(dead, 'dead letter'), href: paths.dead({ queue: name }) })
  return found
}

function isUsedUp({ ready, concurrency, inFlight, tokens }: Findings['limits'][number]): boolean {
  return ready > 0 && ((concurrency !== null && inFlight >= concurrency) || (tokens !== null && tokens < 1))
}

const STUCK_MS = 60_000

function toWorker({ name, alive, inFlight, seenAgoMs }: WorkerStatus, paths: Paths): readonly Attention[] {
  const href = paths.to('workers')
  const inHand = counted(inFlight, 'message')
  if (!alive && inFlight > 0) {
    return [{ tone: 'bad', name, href, text: `gone with ${inHand} in flight, last seen ${age(seenAgoMs)} ago` }]
  }
  if (!alive || seenAgoMs <= SILENT_MS) return []
  return [{ tone: 'warn', name, href, text: `silent for ${age(seenAgoMs)}, with ${inHand} in flight` }]
}

/** A worker writes its heartbeat at least every 30 s. */
const SILENT_MS = 90_000

function toSchedule({ name, error, nextInMs }: ScheduleStatus, paths: Paths): readonly Attention[] {
  const href = paths.to('schedules')
  if (error !== null) return [{ tone: 'bad', name, href, text: `fails: ${error}` }]
  if (nextInMs === null || nextInMs > -LATE_MS) return []
  return [{ tone: 'bad', name, href, text: `late by ${age(-nextInMs)}: no worker enqueues it` }]
}

const LATE_MS = 60_000

function toGroup(status: GroupStatus, paths: Paths): readonly Attention[] {
  const { stream, group, lost, unread, members, pausedAt, partitionsStopped } = status
  const name = `${stream}:${group}`
  const href = paths.group(stream, group)
  const found: Attention[] = []
  if (lost !== null) found.push({ tone: 'bad', name, href, text: `lost its unread events ${lost.from} to ${lost.to}` })
  if (partitionsStopped > 0) {
    const text = `${counted(partitionsStopped, 'partition')} stopped by an event that has failed for good`
    found.push({ tone: 'bad', name, href, text })
  }
  if (pausedAt !== null) found.push({ tone: 'warn', name, href, text: `paused, ${counted(unread, 'event')} unread` })
  else if (unread > 0 && members === 0 && lost === null) {
    found.push({ tone: 'bad', name, href, text: `${counted(unread, 'event')} unread, and no live worker reads them` })
  }
  return found
}

function toStream({ stream, openForMs, openPid }: StreamStatus, paths: Paths): readonly Attention[] {
  if (openForMs === null || openForMs < LONG_OPEN_MS) return []
  const text = `an append has been open for ${age(openForMs)} in server process ${openPid}, and blocks the groups`
  return [{ tone: 'warn', name: stream, text, href: paths.to('streams') }]
}

const LONG_OPEN_MS = 60_000
