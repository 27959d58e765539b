import { lineOfConnection } from './connection-line.ts'
import type { EndpointEvent } from './events/endpoint-event.ts'
import type { PipelineEvent } from './events/pipeline-event.ts'
import type { ScheduleEvent } from './events/schedule-event.ts'
import type { SluiceEvent } from './events.ts'
import { framesOf } from './frames-of.ts'
import { isOfPeer, lineOfPeer, relayTo } from './peer-line.ts'
import { reasonOf } from './reason-of.ts'
import { remedyOf } from './remedy-of.ts'
import { timeText } from './time-text.ts'

type Line = readonly [level: 'info' | 'warn' | 'error', text: string]

/**
 * The level and text of an event that an operator should read; undefined for others. Each kind is listed, so that the
 * compiler asks for a new one.
 */
export function lineOf(event: SluiceEvent, worker: string): Line | undefined {
  switch (event.kind) {
    case 'message.failed':
      return lineOfFailure(event, worker)
    case 'message.dead':
      return lineOfDeath(event, worker)
    case 'partition.stopped':
      return lineOfStop(event)
    case 'batch.failed':
    case 'batch.released':
      return lineOfBatch(event)
    case 'claim.failed':
      return ['warn', `a claim failed, again in ${timeText(event.retryInMs)}: ${reasonOf(event.error)}`]
    case 'worker.crashed':
      return ['warn', `worker ${event.worker} (${event.workerId}) vanished${withInHand(event.messages)}`]
    case 'connection.failed':
    case 'connection.lost':
    case 'connection.restored':
    case 'connection.pooled':
    case 'connections.planned':
    case 'listener.unavailable':
      return lineOfConnection(event)
    case 'migration.delayed':
      return lineOfMigration(event)
    case 'worker.started':
    case 'worker.stopped':
    case 'batch.claimed':
    case 'batch.committed':
    case 'maintenance.done':
    case 'message.expired':
      return undefined
    case 'message.cancelled':
      return ['info', `${attemptOf(event)} was cancelled on ${worker}`]
    default:
      return lineOfOther(event)
  }
}

function lineOfBatch(
  event: Extract<SluiceEvent, { kind: 'batch.failed' | 'batch.released' }>,
): ReturnType<typeof lineOf> {
  if (event.kind === 'batch.released')
    return event.error && ['error', `a batch of ${event.messages} was rolled back: ${reasonOf(event.error)}`]
  const error = `${event.error}${remedyOf(event.cause)}`
  return ['warn', `a batch of ${event.messages} failed, each message is handled alone now: ${error}`]
}

function lineOfMigration(event: Extract<SluiceEvent, { kind: 'migration.delayed' }>): ReturnType<typeof lineOf> {
  const which = `attempt ${event.attempt} of ${event.attempts} to migrate`
  return ['warn', `${which} was rolled back, again in ${timeText(event.retryInMs)}: ${reasonOf(event.error)}`]
}

/** A retry that a handler asked for has no cause. Nobody asks for that of a relay. */
function lineOfFailure(
  event: Extract<SluiceEvent, { kind: 'message.failed' }>,
  worker: string,
): ReturnType<typeof lineOf> {
  const { cause, error, retryInMs, destination } = event
  const again = `again in ${timeText(retryInMs)}: ${error}`
  if (cause === undefined && destination === undefined)
    return ['info', `${attemptOf(event)} is to be retried, ${again}`]
  return ['warn', `${attemptOf(event)} failed on ${worker}, ${again}${framesOf(cause)}${remedyOf(cause)}`]
}

function lineOfDeath(event: Extract<SluiceEvent, { kind: 'message.dead' }>, worker: string): ReturnType<typeof lineOf> {
  const { cause, error, reason } = event
  const why = error === null ? '' : `: ${error}${framesOf(cause)}${remedyOf(cause)}`
  return ['error', `${attemptOf(event)} went to the dead letters on ${worker}, ${reason}${why}`]
}

function lineOfStop(event: Extract<SluiceEvent, { kind: 'partition.stopped' }>): ReturnType<typeof lineOf> {
  const { partition, position, reason, error } = event
  const why = error === null ? reason : `${reason}: ${error}`
  return ['error', `partition ${partition} stops at event ${position}${toDestination(event)}, ${why}`]
}

type OtherKind =
  | 'relay.unavailable'
  | 'relay.available'
  | 'inbox.started'
  | 'inbox.stored'
  | 'inbox.unavailable'
  | 'inbox.available'
  | 'endpoint.failing'
  | 'endpoint.disabled'
  | 'endpoint.refused'
  | 'endpoint.unnoted'
  | 'retryPolicy.unknown'
  | 'queue.backlog'
  | 'retryPolicy.failed'
  | 'onError.failed'
  | 'pipeline.started'
  | 'pipeline.stopped'
  | 'group.lostEvents'
  | 'maintenance.failed'
  | 'activity.failed'
  | 'pipeline.paused'
  | 'pipeline.resumed'
  | 'lease.lost'
  | 'settlement.failed'
  | 'outcome.ignored'
  | 'request.failed'
  | 'schedule.fired'
  | 'schedule.missed'
  | 'schedule.failed'
  | 'telemetry.failed'

function isOfPipeline(event: SluiceEvent): event is PipelineEvent {
  return event.kind.startsWith('pipeline.') || event.kind === 'onError.failed' || event.kind === 'queue.backlog'
}

function lineOfPipeline(event: PipelineEvent): ReturnType<typeof lineOf> {
  if (event.kind === 'pipeline.started') {
    const { mode, concurrency, batchSize } = event
    return ['info', `${startOf(event)} in ${mode} mode, concurrency ${concurrency}, batch size ${batchSize}`]
  }
  if (event.kind === 'pipeline.stopped') {
    const how = event.by === undefined ? 'could not start' : 'was stopped by onError'
    return event.error && ['error', `the pipeline ${how}: ${reasonOf(event.error)}`]
  }
  if (event.kind === 'onError.failed')
    return ['error', `onError failed, the pipeline continues: ${reasonOf(event.error)}`]
  if (event.kind === 'pipeline.paused')
    return [
      'info',
      `paused${event.by === null ? '' : ` by ${event.by}`}${event.reason === null ? '' : `: ${event.reason}`}`,
    ]
  if (event.kind === 'pipeline.resumed') return ['info', 'resumed']
  const long = event.moreThan === null ? [] : [`more than ${event.moreThan} messages`]
  const old = event.oldestMs === null ? [] : [`the oldest due for ${timeText(event.oldestMs)}`]
  return ['warn', `backlog: ${[...long, ...old].join(', ')}`]
}

function startOf({ destination }: { readonly destination?: string }): string {
  return destination === undefined ? 'started' : `${relayTo(destination)} started`
}

function lineOfOther(event: Extract<SluiceEvent, { kind: OtherKind }>): ReturnType<typeof lineOf> {
  if ('schedule' in event) return lineOfSchedule(event)
  if (isOfPeer(event)) return lineOfPeer(event)
  if ('endpoint' in event) return lineOfEndpoint(event)
  if (isOfPipeline(event)) return lineOfPipeline(event)
  if (event.kind === 'request.failed')
    return ['error', `${event.request} was answered with ${event.status}: ${reasonOf(event.error)}`]
  if (event.kind === 'retryPolicy.failed')
    return ['error', `the retry policy failed for message ${event.id}, again in 1 s: ${reasonOf(event.error)}`]
  if (event.kind === 'telemetry.failed')
    return [
      'warn',
      `OpenTelemetry failed, which disturbs no message; further failures are not shown: ${reasonOf(event.error)}`,
    ]
  if (event.kind === 'group.lostEvents') return ['error', reasonOf(event.error)]
  if (event.kind === 'maintenance.failed')
    return ['warn', `the maintenance of ${event.task} failed: ${reasonOf(event.error)}`]
  if (event.kind === 'activity.failed') return ['warn', `the activity cannot be written: ${reasonOf(event.error)}`]
  if (event.kind === 'outcome.ignored')
    return ['warn', `${attemptOf(event)} was settled by its transaction() before its handler failed: ${event.error}`]
  if (event.kind === 'retryPolicy.unknown')
    return ['warn', `message ${event.id} has the retry policy "${event.name}", which this process does not know`]
  if (event.kind === 'lease.lost')
    return ['warn', `message ${event.id}, attempt ${event.attempt}, lost its lease and is delivered again`]
  return ['warn', `a settlement failed, again in ${timeText(event.retryInMs)}: ${reasonOf(event.error)}`]
}

function lineOfEndpoint(event: EndpointEvent): ReturnType<typeof lineOf> {
  const { endpoint } = event
  if (event.kind === 'endpoint.unnoted')
    return ['warn', `an attempt of endpoint ${endpoint} cannot be noted: ${reasonOf(event.error)}`]
  if (event.kind === 'endpoint.refused')
    return [
      'warn',
      `the URL of endpoint ${endpoint} leads to ${event.address}, which the option networks does not allow`,
    ]
  if (event.kind === 'endpoint.disabled') return ['error', `endpoint ${endpoint} is disabled: ${event.reason}`]
  return ['warn', `endpoint ${endpoint} has failed since ${event.since.toISOString()}: ${event.error}`]
}

interface OfMessage {
  readonly destination?: string
  readonly id: string
  readonly type: string | null
  readonly traceId?: string
  readonly attempt: number
}

function attemptOf(event: OfMessage): string {
  const trace = event.traceId === undefined ? '' : ` trace ${event.traceId},`
  const type = event.type === null ? '' : ` (${event.type})`
  return `message ${event.id}${type}${toDestination(event)}, attempt ${event.attempt},${trace}`
}

function toDestination({ destination }: { readonly destination?: string }): string {
  return destination === undefined ? '' : ` to ${destination}`
}

/** That a slow job is not enqueued a second time is what its schedule asks for. */
function lineOfSchedule(event: ScheduleEvent): ReturnType<typeof lineOf> {
  if (event.kind === 'schedule.failed') {
    const again = `again in ${timeText(event.retryInMs)}`
    return ['error', `schedule ${event.schedule} failed, ${again}: ${reasonOf(event.error)}`]
  }
  if (event.kind === 'schedule.fired' || event.reason === 'overlap') return undefined
  const count = event.occurrences === 1 ? '1 occurrence' : `${event.occurrences} occurrences`
  return ['warn', `schedule ${event.schedule} missed ${count}`]
}

/** ' with 3 messages in flight, which are available again', or nothing */
function withInHand(messages: number): string {
  if (messages === 0) return ''
  return messages === 1
    ? ' with 1 message in flight, which is available again'
    : ` with ${messages} messages in flight, which are available again`
}
