import { allWordsOf } from '../basics/errors/all-words-of.ts'
import { type Closable, closed, NOT_IN_TIME } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'

/** How to connect to one of several servers. */
interface Way<T> {
  readonly connect: (server: string) => Promise<T>
  /** The host and the port, without a login. */
  readonly addressOf: (server: string) => string
  /** Aborts when no further server is to be tried. */
  readonly signal: AbortSignal
  readonly random?: () => number
}

/**
 * Connects to a random server, and to the next one where that fails. A connection that comes after the signal is closed.
 *
 * @throws why each of them could not be connected to: an AggregateError
 */
export async function anyServer<T extends Closable>(servers: readonly string[], way: Way<T>): Promise<T> {
  const { connect, addressOf, signal, random = Math.random } = way
  const first = Math.floor(random() * servers.length)
  const reasons = new Map<string, unknown>()
  for (const server of [...servers.slice(first), ...servers.slice(0, first)]) {
    if (signal.aborted) break
    try {
      const connecting = connect(server)
      const connection = await untilAborted(connecting, signal)
      if (connection !== undefined) return connection
      connecting.then(closed).catch(() => undefined)
      reasons.set(addressOf(server), NOT_IN_TIME)
    } catch (error) {
      reasons.set(addressOf(server), error)
    }
  }
  // As they were given, and not as they were tried: the same fault has the same words each time.
  const tried = [...new Set(servers.map(addressOf))].filter((address) => reasons.has(address))
  throw notConnected(new Map(tried.map((address) => [address, reasons.get(address)])))
}

/** Why there is no connection, by the address of each server that was tried. */
export function notConnected(reasons: ReadonlyMap<string, unknown>): AggregateError {
  const words = [...reasons].map(([address, reason]) => `${address}: ${allWordsOf(reason)}`)
  return new AggregateError(reasons.values(), words.join('; ') || NOT_IN_TIME)
}
