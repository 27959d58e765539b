import { durationWords } from '../../basics/time/duration-words.ts'
import { counted, shortened } from '../../basics/words/sentences.ts'
import type { PeerStatus } from '../../table/operate/peer-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { AttentionToQueue } from './attention.ts'

/** What differs between relays and inboxes. */
export interface PeerWords<Status extends PeerStatus> {
  readonly kind: 'relays.unavailable' | 'inboxes.unavailable'
  /** As in 'relay'. */
  readonly what: string
  /** As in 'publish to its destination, nats,'. */
  readonly cannot: (status: Status) => string
  readonly messages: (status: Status) => number
  readonly otherEnd: (status: Status) => 'destination' | 'broker' | 'database'
}

/** Of relays, or of inboxes, that have been unavailable for long: one of each queue, the one that has waited longest. */
export function attentionToPeers<Status extends PeerStatus>(
  all: readonly Status[],
  words: PeerWords<Status>,
): readonly AttentionToQueue[] {
  const out = all.filter(({ cause, forMs }) => cause !== null && forMs > AFTER_MS[words.kind][cause])
  const longestFirst = out.toSorted((a, b) => b.forMs - a.forMs)
  return [...Map.groupBy(longestFirst, ({ queue }) => queue).values()].flatMap(([longest, ...others]) =>
    longest === undefined ? [] : [unavailable(longest, others.length, words)],
  )
}

function unavailable<Status extends PeerStatus>(
  longest: Status,
  others: number,
  words: PeerWords<Status>,
): AttentionToQueue {
  const { kind, what, cannot, messages } = words
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
    remedy: `npx sluice doctor # ${hintOf(longest, words)}`,
  }
}

/** The doctor and explain say the same: `sluice_private.peer_remedy`. */
function hintOf<Status extends PeerStatus>(status: Status, { what, otherEnd }: PeerWords<Status>): string {
  if (status.cause === 'settings')
    return `change what the error says; after a change of its options restart the worker, else the ${what} goes on by itself`
  const end = otherEnd(status)
  const check =
    // One that is out of reach takes no heartbeat.
    end === 'database'
      ? 'look into the database for what the error says'
      : `check that the ${end} runs and that the worker can reach it`
  return `${check}; the ${what} then goes on by itself`
}
