import type { QueueStatus, WorkerStatus } from '../table/inspect.ts'
import { formatAge } from './format-age.ts'

/** Something that an operator should look at: what, how many messages it concerns, and a sentence with what to do. */
export type Attention =
  | { readonly kind: 'noWorker'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'deadLetters'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'workerGone'; readonly worker: string; readonly messages: number; readonly text: string }

/** What needs attention: ready messages that nobody consumes, workers that vanished with messages in hand, dead letters. */
export function attentionTo(queues: readonly QueueStatus[], workers: readonly WorkerStatus[]): readonly Attention[] {
  return [
    ...queues.filter((queue) => queue.ready > 0 && queue.workers === 0).map(noWorker),
    ...workers.filter((worker) => !worker.alive && worker.inFlight > 0).map(workerGone),
    ...queues.filter((queue) => queue.dead > 0).map(deadLetters),
  ]
}

function noWorker({ queue, ready, oldestReadyAgeMs }: QueueStatus): Attention {
  const since = oldestReadyAgeMs === null ? '' : `, the oldest for ${formatAge(oldestReadyAgeMs)}`
  return {
    kind: 'noWorker',
    queue,
    messages: ready,
    text: `${queue}: ${ready} ready${since}, and no live worker consumes it`,
  }
}

function workerGone({ name, id, inFlight, seenAgoMs }: WorkerStatus): Attention {
  const text = `worker ${name} (${id}) is gone with ${messages(inFlight)} in hand, last seen ${formatAge(seenAgoMs)} ago`
  return { kind: 'workerGone', worker: name, messages: inFlight, text }
}

function deadLetters({ queue, dead }: QueueStatus): Attention {
  const what = `${dead} dead ${dead === 1 ? 'letter' : 'letters'}`
  return { kind: 'deadLetters', queue, messages: dead, text: `${queue}: ${what}, see: sluice dead list ${queue}` }
}

function messages(count: number): string {
  return `${count} ${count === 1 ? 'message' : 'messages'}`
}
