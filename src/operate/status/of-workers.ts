import { agoWords, durationWords } from '../../basics/duration-words.ts'
import { counted } from '../../basics/sentences.ts'
import type { WorkerStatus } from '../../table/operate/worker-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

/**
 * Of a worker that is gone with messages in flight, which no other one has noticed, or that is stale.
 *
 * @param all the workers that may consume the same queues: if none that lives does, nobody is waited for
 */
export function attentionToWorker(worker: WorkerStatus, all: readonly WorkerStatus[]): readonly Attention[] {
  const { name, id, alive, stale, inFlight, seenAgoMs, queues } = worker
  const isAlone = !all.some((other) => other.alive && other.queues.some((queue) => queues.includes(queue)))
  const inHand = `${counted(inFlight, 'message')} in flight`
  const about = { subject: `worker ${name} (${id})`, worker: name, messages: inFlight } as const
  if (!alive && inFlight > 0 && (isAlone || seenAgoMs > AFTER_MS['workers.gone'])) {
    const text = `gone with ${inHand}, last seen ${agoWords(seenAgoMs)}`
    return [
      {
        ...about,
        kind: 'workers.gone',
        severity: isAlone ? 'wrong' : 'watch',
        text,
        remedy: 'npx sluice work <module>',
      },
    ]
  }
  if (!stale) return []
  const text = `no heartbeat for ${durationWords(seenAgoMs)}, with ${inHand}`
  return [{ ...about, kind: 'workers.stale', severity: 'wrong', text, remedy: 'npx sluice doctor' }]
}
