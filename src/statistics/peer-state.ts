import type { UnavailableCause } from '../basics/errors/unavailable-cause.ts'

/** Whether what a relay publishes to, or what an inbox needs, is within reach. */
export interface PeerState {
  /** The name of its kind, such as `nats`. */
  readonly system: string
  /** Since when it is, or is not, by the clock of this process. */
  readonly since: Date
  /** Why it cannot be used, and when it is tried again. Null: it can be. */
  readonly failure: {
    /** Of an inbox: which of the two that it needs. */
    readonly side?: 'receiver' | 'database' | undefined
    /** Of the last try: it may change while it cannot be used. */
    readonly cause: UnavailableCause
    readonly error: string
    readonly retryAt: Date
  } | null
}

/** What has such a state. Undefined: nothing has been tried yet. */
export interface HasPeer {
  readonly peer: PeerState | undefined
}

/** Of several the one that has been out of reach for longest, or else the one that came within reach last. */
export function worstOf(several: Iterable<HasPeer>): PeerState | undefined {
  const known = [...several].flatMap(({ peer }) => peer ?? [])
  const bySince = known.toSorted((a, b) => a.since.getTime() - b.since.getTime())
  return bySince.find(({ failure }) => failure !== null) ?? bySince.at(-1)
}

/**
 * For the heartbeat: `sluice.relays` and `sluice.inboxes` read it.
 *
 * @param fitting makes a text such that the database can hold it
 */
export function peerJson({ system, since, failure }: PeerState, fitting: (text: string) => string): object {
  const about = { system: fitting(storable(system)), sinceMs: since.getTime() }
  if (failure === null) return about
  const { side, cause, error, retryAt } = failure
  return { ...about, side, cause, error: fitting(storable(error)), retryAtMs: retryAt.getTime() }
}

/** An adapter may say anything, and the heartbeat comes again and again. */
function storable(text: unknown): string {
  return String(text).replaceAll('\0', '\uFFFD').slice(0, MOST_CHARACTERS).toWellFormed()
}

const MOST_CHARACTERS = 1_000
