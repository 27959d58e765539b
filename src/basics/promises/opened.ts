import { pause } from '../time/pause.ts'
import { within } from '../time/within.ts'
import { untilAborted } from './until-aborted.ts'

/** A connection of an adapter. */
export interface Closable {
  close(): Promise<void>
}

/**
 * @throws what the adapter throws, which is given a moment to say what it was trying to reach, or that it took too long: a
 * connection that comes too late is closed
 */
export async function opened<Connection extends Closable>(
  adapter: { open(signal: AbortSignal): Promise<Connection> },
  signal: AbortSignal,
): Promise<Connection> {
  const opening = adapter.open(signal)
  const connection = await untilAborted(opening, signal)
  if (connection !== undefined) return connection
  opening.then(closed).catch(() => undefined)
  await Promise.race([opening, pause(LAST_WORDS_MS)])
  throw new Error(NOT_IN_TIME)
}

/** Nothing is lost with a connection that does not close, or not in time. */
export async function closed(connection: Closable): Promise<void> {
  const closing = async () => connection.close()
  await within(CLOSE_MS, closing(), () => undefined).catch(() => undefined)
}

/** An adapter puts before it what it was trying to reach. */
export const NOT_IN_TIME = 'no connection in time'

const CLOSE_MS = 1_000
const LAST_WORDS_MS = 100
