import { agoWords, durationWords } from '../../basics/time/duration-words.ts'
import { counted } from '../../basics/words/sentences.ts'
import type { WorkerStatus } from '../../table/operate/worker-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

/** Of workers that are gone with messages in flight, which no other one has noticed or can take, or that are stale. */
export function attentionToWorkers(workers: readonly WorkerStatus[]): readonly Attention[] {
  const live = workers.filter(({ alive }) => alive)
  return [
    ...workers.filter(({ alive, inFlight }) => !alive && inFlight > 0).flatMap((worker) => gone(worker, live)),
    ...live.filter(({ stale }) => stale).map(toStale),
  ]
}

/** A live worker of the same queues is given some time to notice. */
function gone(worker: WorkerStatus, live: readonly WorkerStatus[]): readonly Attention[] {
  const { queues, seenAgoMs } = worker
  const isAlone = !live.some((other) => other.queues.some((queue) => queues.includes(queue)))
  if (!isAlone && seenAgoMs <= AFTER_MS['workers.gone']) return []
  const text = `gone with ${inFlightText(worker)}, last seen ${agoWords(seenAgoMs)}, and ${isAlone ? 'no live worker consumes its queues' : 'no other worker has noticed'}`
  const severity = isAlone ? 'wrong' : 'watch'
  return [
    {
      ...aboutWorker(worker),
      kind: 'workers.gone',
      severity,
      text,
      remedy: 'node worker.ts # or npx sluice work ./worker.ts',
    },
  ]
}

function toStale(worker: WorkerStatus): Attention {
  const text = `no heartbeat for ${durationWords(worker.seenAgoMs)}, with ${inFlightText(worker)}`
  return { ...aboutWorker(worker), kind: 'workers.stale', severity: 'wrong', text, remedy: 'npx sluice doctor' }
}

const inFlightText = ({ inFlight }: WorkerStatus) => `${counted(inFlight, 'message')} in flight`

const aboutWorker = ({ name, id, inFlight }: WorkerStatus) => ({
  subject: `worker ${name} (${id})`,
  worker: name,
  messages: inFlight,
})
