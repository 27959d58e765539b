import type { RelayStatus } from '../../table/operate/peer-status.ts'
import type { QueueStatus } from '../../table/operate/queues/queue-status.ts'
import type { AttentionToQueue } from './attention.ts'
import { attentionToPeers } from './of-peers.ts'

/** Of relays that have not reached their destination for long. */
export function attentionToRelays(
  relays: readonly RelayStatus[],
  queues: readonly QueueStatus[],
): readonly AttentionToQueue[] {
  return attentionToPeers(relays, {
    kind: 'relays.unavailable',
    what: 'relay',
    cannot: ({ destination }) => `publish to its destination, ${destination ?? 'unnamed'},`,
    messages: ({ queue }) => queues.find((status) => status.queue === queue)?.ready ?? 0,
    otherEnd: () => 'destination',
  })
}
