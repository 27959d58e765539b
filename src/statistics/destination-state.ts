import type { UnavailableCause } from '../basics/unavailable-cause.ts'

/** Whether the destination of a relay is within reach. */
export interface DestinationState {
  /** The name of its kind, such as `nats`. */
  readonly system: string
  /** Since when it is, or is not, by the clock of this process. */
  readonly since: Date
  /** Why it cannot be used, and when it is tried again. Null: it can be. */
  readonly failure: {
    /** Of the last try: it may change while it cannot be used. */
    readonly cause: UnavailableCause
    readonly error: string
    readonly retryAt: Date
  } | null
}

/** What has such a state. Undefined: nothing has been tried yet. */
export interface HasDestination {
  readonly destination: DestinationState | undefined
}

/** Of several relays of a queue the one that has been out of reach for longest, or else any. */
export function worstOf(relays: Iterable<HasDestination>): DestinationState | undefined {
  const known = [...relays].flatMap(({ destination }) => destination ?? [])
  const out = known.filter(({ failure }) => failure !== null).toSorted((a, b) => a.since.getTime() - b.since.getTime())
  return out[0] ?? known[0]
}

/**
 * For the heartbeat: `sluice.relays` reads it.
 *
 * @param fitting makes a text such that the database can hold it
 */
export function destinationJson(
  { system, since, failure }: DestinationState,
  fitting: (text: string) => string,
): object {
  const about = { system: fitting(storable(system)), sinceMs: since.getTime() }
  if (failure === null) return about
  const { cause, error, retryAt } = failure
  return { ...about, cause, error: fitting(storable(error)), retryAtMs: retryAt.getTime() }
}

/** An adapter may say anything, and the heartbeat comes again and again. */
function storable(text: unknown): string {
  return String(text).replaceAll('\0', '\uFFFD').slice(0, MOST_CHARACTERS).toWellFormed()
}

const MOST_CHARACTERS = 1_000
