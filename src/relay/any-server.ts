import { allWordsOf } from '../basics/all-words-of.ts'

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
 * Connects to a random server, and to the next one where that fails.
 *
 * @throws why each of them could not be connected to: an AggregateError
 */
export async function anyServer<T>(servers: readonly string[], way: Way<T>): Promise<T> {
  const { connect, addressOf, signal, random = Math.random } = way
  const first = Math.floor(random() * servers.length)
  const reasons = new Map<string, unknown>()
  for (const server of [...servers.slice(first), ...servers.slice(0, first)]) {
    if (signal.aborted) break
    try {
      return await connect(server)
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
  return new AggregateError(reasons.values(), words.join('; ') || 'no connection in time')
}
