import { durationWords } from '../../basics/duration-words.ts'
import { counted, shortened } from '../../basics/sentences.ts'
import type { QueueStatus } from '../../table/operate/queue-status.ts'
import type { RelayStatus } from '../../table/operate/relay-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

type AttentionToQueue = Extract<Attention, { readonly queue: string }>

/** Of relays that have not reached their destination for long: one of each queue, the one that has waited longest. */
export function attentionToRelays(
  relays: readonly RelayStatus[],
  queues: readonly QueueStatus[],
): readonly AttentionToQueue[] {
  const out = relays.filter(({ state, forMs }) => state === 'unavailable' && forMs > AFTER_MS['relays.unavailable'])
  const byQueue = Map.groupBy(out, ({ queue }) => queue)
  return [...byQueue].map(([queue, ofQueue]) => {
    const { ready = 0 } = queues.find((status) => status.queue === queue) ?? {}
    return unavailable(queue, ofQueue, ready)
  })
}

function unavailable(queue: string, relays: readonly RelayStatus[], ready: number): AttentionToQueue {
  const [longest] = relays.toSorted((a, b) => b.forMs - a.forMs)
  const { worker = '', destination = null, forMs = 0, cause = null, error = null } = longest ?? {}
  const others = relays.length > 1 ? ` (and of ${counted(relays.length - 1, 'other')})` : ''
  const because = cause === 'settings' ? ', now because of a setting' : ''
  const why = error === null ? '' : `: ${shortened(error)}`
  return {
    kind: 'relays.unavailable',
    severity: 'wrong',
    subject: queue,
    queue,
    messages: ready,
    text: `the relay of worker ${worker}${others} cannot publish to its destination, ${destination ?? 'unnamed'}, for ${durationWords(forMs)}${because}${why}`,
    remedy: `npx sluice explain ${queue} # ${hintOf(cause)}`,
  }
}

/** The doctor and explain say the same. */
function hintOf(cause: RelayStatus['cause']): string {
  return cause === 'settings'
    ? 'change what the error says; the relay then goes on by itself'
    : 'check that the destination runs and that the worker can reach it; the relay then goes on by itself'
}
