import { type ChannelModel, connect, type SocketOptions } from 'amqplib'
import type { Closable } from '../basics/promises/opened.ts'
import { anyServer } from '../relay/any-server.ts'
import { withRemedyOfLogin } from './remedy.ts'

/** A connection, and the host and the port of its server. */
export interface Connected extends Closable {
  readonly connection: ChannelModel
  readonly address: string
}

/**
 * Connects to a random server, and to the next one where that fails.
 *
 * @param signal destroys the connection, whatever state it is in
 * @throws why each of them could not be connected to: an AggregateError
 */
export function connectToAny(
  servers: readonly string[],
  options: SocketOptions,
  signal: AbortSignal,
  random?: () => number,
): Promise<Connected> {
  const connectWithRemedy = async (server: string) => {
    try {
      const connection = await connectTo(server, options, signal)
      return { connection, address: addressOf(server), close: () => connection.close() }
    } catch (error) {
      throw withRemedyOfLogin(error, server)
    }
  }
  return anyServer(servers, { connect: connectWithRemedy, addressOf, signal, ...(random && { random }) })
}

/** As the client connects, also where the address leaves the port out. */
function addressOf(server: string): string {
  const { protocol, hostname, port } = new URL(server)
  return `${hostname}:${port || (protocol === 'amqps:' ? 5671 : 5672)}`
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
