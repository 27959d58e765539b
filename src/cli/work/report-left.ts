import { counted } from '../../basics/words/sentences.ts'
import { type GroupStatus, isSluiceError, type Operate, type QueueSettingsStatus, type Sluice } from '../../index.ts'
import { streamOf } from '../../streams.ts'
import { note } from '../output.ts'
import type { WorkPipeline } from './pipelines.ts'

/**
 * Notes on stderr how many due messages and events are left, and why: a pause, limits, a blocked partition, or a relay's destination.
 *
 * @param unavailable the queues of relays whose destination was out of reach at the end
 */
export async function reportLeft(
  { operate }: Sluice,
  pipelines: readonly WorkPipeline[],
  unavailable: ReadonlySet<string>,
): Promise<void> {
  try {
    for (const queue of new Set(pipelines.map((pipeline) => pipeline.queue)))
      await reportMessages(operate, queue, unavailable.has(queue))
    const groups = new Set(pipelines.filter(({ mode }) => mode === 'group').map(({ queue }) => queue))
    for (const queue of groups) await reportEvents(operate, queue, unavailable.has(queue))
  } catch (error) {
    // A login may be allowed to handle messages but not to count them.
    if (!isSluiceError(error, 'PRIVILEGE_MISSING')) throw error
  }
}

async function reportMessages(operate: Operate, queue: string, isAway: boolean): Promise<void> {
  const settings = await operate.queues.settings.get(queue)
  const why = (settings && whyMessages(settings)) ?? (isAway ? AWAY : undefined)
  if (why === undefined) return
  const [status] = await operate.queues.list({ queue })
  if (status !== undefined && status.ready > 0) note(`${queue}: ${counted(status.ready, 'due message')} left: ${why}`)
}

async function reportEvents(operate: Operate, queue: string, isAway: boolean): Promise<void> {
  const groups = await operate.groups.list({ stream: streamOf(queue) })
  const group = groups.find((one) => one.queue === queue)
  if (group === undefined || group.unread === 0) return
  const why = whyEvents(group) ?? (isAway ? AWAY : undefined)
  if (why !== undefined) note(`${queue}: ${counted(group.unread, 'event')} left: ${why}`)
}

function whyMessages(settings: QueueSettingsStatus): string | undefined {
  if (settings.pausedAt !== null) return `the queue is paused, see: sluice queue get ${settings.queue}`
  const { rate, tenantRate, concurrency, tenantConcurrency } = settings
  const limits = [rate, tenantRate, concurrency, tenantConcurrency]
  return limits.every((limit) => limit === null) ? undefined : 'the limits of the queue, see the view sluice.limits'
}

function whyEvents({ stream, pausedAt, lost, partitionsStopped, partitionsHeldBack }: GroupStatus): string | undefined {
  const see = `see: sluice group list ${stream}`
  if (pausedAt !== null) return `the group is paused, ${see}`
  if (lost !== null) return `the group has lost events and needs a seek, ${see}`
  if (partitionsStopped > 0) return `${counted(partitionsStopped, 'partition')} stopped, ${see}`
  return partitionsHeldBack > 0 ? `behind an open append, ${see}` : undefined
}

const AWAY = 'the destination of its relay is unavailable'
