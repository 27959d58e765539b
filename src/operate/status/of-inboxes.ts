import type { InboxStatus } from '../../table/operate/peer-status.ts'
import type { AttentionToQueue } from './attention.ts'
import { attentionToPeers } from './of-peers.ts'

/** Of inboxes that have received, or stored, nothing for long, because they cannot. */
export function attentionToInboxes(inboxes: readonly InboxStatus[]): readonly AttentionToQueue[] {
  return attentionToPeers(inboxes, {
    kind: 'inboxes.unavailable',
    what: 'inbox',
    cannot: ({ side, receiver }) =>
      `${side === 'database' ? 'store what it has received from' : 'receive from'} its broker, ${receiver ?? 'unnamed'},`,
    // Its broker knows how many wait there.
    messages: () => 0,
    otherEnd: ({ side }) => (side === 'database' ? 'database' : 'broker'),
  })
}
