import { agoWords, durationWords } from '../../basics/time/duration-words.ts'
import { counted, shortened } from '../../basics/words/sentences.ts'
import type { QueueSettingsStatus } from '../../queue-settings.ts'
import type { HeldKeys } from '../../table/operate/queues/held-keys.ts'
import type { QueueStatus } from '../../table/operate/queues/queue-status.ts'
import { pauseText } from '../queues/pause-text.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

/**
 * In what state a queue needs attention.
 *
 * @param isExplained whether why its messages wait is said elsewhere: for a limit of the queue as a whole, or for its relay
 * @param isUnconsumed whether none of {@link mayBeUnconsumed} consumes it
 */
export function attentionToQueue(
  queue: QueueStatus,
  isExplained: boolean,
  isUnconsumed: boolean,
): readonly Attention[] {
  const found: Attention[] = []
  if (isUnconsumed) found.push(noWorker(queue))
  if (isStuck(queue) && !isExplained) found.push(stuck(queue))
  if (queue.dead > 0) found.push(deadLetters(queue))
  return found
}

/** No worker consumes the queue, it is not paused, and it has been due for long: unless claims consume it. */
export function mayBeUnconsumed({ ready, workers, pausedAt, oldestReadyAgeMs }: QueueStatus): boolean {
  return ready > 0 && workers === 0 && pausedAt === null && (oldestReadyAgeMs ?? 0) > AFTER_MS['queues.no_worker']
}

function noWorker({ queue, ready, oldestReadyAgeMs }: QueueStatus): Attention {
  return {
    kind: 'queues.no_worker',
    severity: 'wrong',
    subject: queue,
    queue,
    messages: ready,
    text: `${readyText(ready, oldestReadyAgeMs)}, and no live worker consumes it`,
    remedy: `npx sluice explain ${queue}`,
  }
}

/** Live workers consume the queue, and take nothing although it has been due for long. */
function isStuck({ ready, inFlight, workers, pausedAt, oldestReadyAgeMs }: QueueStatus): boolean {
  return (
    ready > 0 &&
    workers > 0 &&
    inFlight === 0 &&
    pausedAt === null &&
    (oldestReadyAgeMs ?? 0) > AFTER_MS['queues.stuck']
  )
}

function stuck({ queue, ready, oldestReadyAgeMs, workers }: QueueStatus): Attention {
  const although = `${counted(workers, 'live worker')} ${workers === 1 ? 'consumes' : 'consume'} it`
  return {
    kind: 'queues.stuck',
    severity: 'wrong',
    subject: queue,
    queue,
    messages: ready,
    text: `${readyText(ready, oldestReadyAgeMs)}, and nothing is in flight although ${although}`,
    remedy: `npx sluice explain ${queue}`,
  }
}

function readyText(ready: number, oldestMs: number | null): string {
  return oldestMs === null ? `${ready} ready` : `${ready} ready, the oldest for ${durationWords(oldestMs)}`
}

function deadLetters({ queue, dead }: QueueStatus): Attention {
  return {
    kind: 'queues.dead_letters',
    severity: 'wrong',
    subject: queue,
    queue,
    messages: dead,
    text: counted(dead, 'dead letter'),
    remedy: `npx sluice dead list ${queue}`,
  }
}

/** Of a queue that is paused. */
export function attentionToPause(
  settings: QueueSettingsStatus,
  queues: readonly QueueStatus[],
  at: Date,
): readonly Attention[] {
  const { queue } = settings
  const since = pauseText(settings, at)
  const { ready = 0 } = queues.find((status) => status.queue === queue) ?? {}
  if (since === null) return []
  const text = `paused ${since}; ${ready} ready`
  const remedy = `npx sluice queue resume ${queue}`
  return [{ kind: 'queues.paused', severity: 'watch', subject: queue, queue, messages: ready, text, remedy }]
}

/** Of ordering keys whose messages wait for one that has failed. */
export function attentionToKeys(held: HeldKeys): Attention {
  const { queue, keys, messages, key, messageId, failedAgoMs, error } = held
  const waiting = counted(messages, 'due message')
  const wait = messages === 1 ? 'waits' : 'wait'
  const why = error === null ? '' : `: ${shortened(error)}`
  const failed = `message ${messageId}, which failed ${agoWords(failedAgoMs)}${why}`
  const ofKeys = `${waiting} of ${counted(keys, 'ordering key')} ${wait}; "${shortened(key ?? '', 60)}" longest, for ${failed}`
  return {
    kind: 'queues.held',
    severity: 'watch',
    subject: queue,
    queue,
    messages,
    text: key === null ? `${waiting} ${wait} for ${failed}` : ofKeys,
    remedy: `npx sluice explain ${queue} ${messageId}`,
  }
}
