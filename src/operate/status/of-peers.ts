import { durationWords } from '../../basics/duration-words.ts'
import { counted, shortened } from '../../basics/sentences.ts'
import type { PeerStatus } from '../../table/operate/peer-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

type AttentionToQueue = Extract<Attention, { readonly queue: string }>

/** What differs between relays and inboxes. */
export interface PeerWords<Status extends PeerStatus> {
  readonly kind: 'relays.unavailable' | 'inboxes.unavailable'
  /** As in 'relay'. */
  readonly what: string
  /** As in 'publish to its destination, nats,'. */
  readonly cannot: (status: Status) => string
  readonly messages: (status: Status) => number
  readonly remedy: (status: Status) => string
}

/** Of relays, or of inboxes, that have been unavailable for long: one of each queue, the one that has waited longest. */
export function attentionToPeers<Status extends PeerStatus>(
  all: readonly Status[],
  words: PeerWords<Status>,
): readonly AttentionToQueue[] {
  const out = all.filter(({ state, forMs }) => state === 'unavailable' && forMs > AFTER_MS[words.kind])
  const longestFirst = out.toSorted((a, b) => b.forMs - a.forMs)
  return [...Map.groupBy(longestFirst, ({ queue }) => queue).values()].flatMap(([longest, ...others]) =>
    longest === undefined ? [] : [unavailable(longest, others.length, words)],
  )
}

function unavailable<Status extends PeerStatus>(
  longest: Status,
  others: number,
  { kind, what, cannot, messages, remedy }: PeerWords<Status>,
): AttentionToQueue {
  const { queue, worker, forMs, cause, error } = longest
  const ofOthers = others > 0 ? ` (and of ${counted(others, 'other')})` : ''
  const because = cause === 'settings' ? ', now because of a setting' : ''
  const why = error === null ? '' : `: ${shortened(error)}`
  return {
    kind,
    severity: 'wrong',
    subject: queue,
    queue,
    messages: messages(longest),
    text: `the ${what} of worker ${worker}${ofOthers} cannot ${cannot(longest)} for ${durationWords(forMs)}${because}${why}`,
    remedy: remedy(longest),
  }
}
