import type { InboxStatus } from '../../table/operate/peer-status.ts'
import { attentionToPeers } from './of-peers.ts'

/** Of inboxes that have received, or stored, nothing for long, because they cannot. */
export function attentionToInboxes(inboxes: readonly InboxStatus[]) {
  return attentionToPeers(inboxes, {
    kind: 'inboxes.unavailable',
    what: 'inbox',
    cannot: ({ side, receiver }) =>
      `${side === 'database' ? 'store what it has received from' : 'receive from'} its broker, ${receiver ?? 'unnamed'},`,
    // Its broker knows how many wait there.
    messages: () => 0,
    remedy: ({ queue, cause, side }) => `npx sluice explain ${queue} # ${hintOf(cause, side)}`,
  })
}

/** The doctor and explain say the same. */
function hintOf(cause: InboxStatus['cause'], side: InboxStatus['side']): string {
  if (cause === 'settings') return 'the error says what to change; the inbox goes on by itself then'
  return `the inbox goes on by itself when ${side === 'database' ? 'it can store again' : 'its broker answers'}`
}
