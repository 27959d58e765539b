import { type ChannelModel, connect, type SocketOptions } from 'amqplib'
import { reasonOf } from '../relay/unavailable.ts'
import { withRemedyOfLogin } from './remedy.ts'

/**
 * Connects to a random server, and to the next one where that fails.
 *
 * @param signal destroys the connection, whatever state it is in
 * @throws why each of them could not be connected to: an AggregateError
 */
export async function connectToAny(
  servers: readonly string[],
  options: SocketOptions,
  signal: AbortSignal,
  random: () => number = Math.random,
): Promise<ChannelModel> {
  const first = Math.floor(random() * servers.length)
  const reasons = new Map<string, unknown>()
  for (const server of [...servers.slice(first), ...servers.slice(0, first)]) {
    try {
      return await connectTo(server, options, signal)
    } catch (error) {
      reasons.set(server, withRemedyOfLogin(error, server))
    }
  }
  // The address of each without its login.
  const words = [...reasons].map(([server, reason]) => `${new URL(server).host}: ${reasonOf(reason)}`)
  throw new AggregateError(reasons.values(), words.join('; '))
}

async function connectTo(server: string, options: SocketOptions, signal: AbortSignal): Promise<ChannelModel> {
  const terms = {
    // The last message of a batch must not wait for an acknowledgement of the one before it.
    noDelay: true,
    timeout: CONNECT_MS,
    clientProperties: { connection_name: 'sluice' },
    ...options,
    // What is under way fails at once when the connection ends; another one is opened with the next try.
    recovery: false,
    signal,
  }
  const connection = await connect(server, terms)
  // Whoever waits for an answer gets the error as well, and without a listener it would end the process.
  connection.on('error', () => undefined)
  return connection
}

/** A server that is stopped accepts a connection and says nothing. There may be others. */
const CONNECT_MS = 2_000
