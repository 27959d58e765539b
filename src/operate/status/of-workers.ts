import { counted } from '../../basics/sentences.ts'
import { formatAge, formatAgo } from '../../basics/spans.ts'
import type { WorkerStatus } from '../../table/operate/worker-status.ts'
import type { Attention } from './attention.ts'

/** Of a worker that is gone with messages in flight, or that does nothing: its process hangs or is stopped. */
export function attentionToWorker({ name, id, alive, inFlight, seenAgoMs }: WorkerStatus): readonly Attention[] {
  const inHand = `${counted(inFlight, 'message')} in flight`
  const about = { severity: 'wrong', subject: `worker ${name} (${id})`, worker: name, messages: inFlight } as const
  if (!alive && inFlight > 0) {
    const text = `gone with ${inHand}, last seen ${formatAgo(seenAgoMs)}`
    return [{ ...about, kind: 'workers.gone', text, remedy: 'npx sluice work <module>' }]
  }
  if (!alive || seenAgoMs <= SILENT_MS) return []
  const text = `silent for ${formatAge(seenAgoMs)}, with ${inHand}`
  return [{ ...about, kind: 'workers.stale', text, remedy: 'npx sluice doctor' }]
}

/** A worker writes its heartbeat at least every 30 s, whatever its poll interval is. One that hangs keeps its connection. */
const SILENT_MS = 90_000
