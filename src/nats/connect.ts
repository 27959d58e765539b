import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import { addressesOf } from '../basics/checks/addresses.ts'
import { NOT_IN_TIME } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { SluiceError } from '../errors.ts'
import { anyServer } from '../relay/any-server.ts'
import { withRemedy } from './remedy.ts'

/** Options of the client that a user may give. */
export type ClientOptions = Omit<NodeConnectionOptions, 'servers' | 'reconnect' | 'waitOnFirstConnect'>

/**
 * Connects once: to any of the servers, and not again. The client is given one after another: of several it would throw the last
 * error, without the server.
 *
 * @param signal aborts when no further server is to be tried
 * @throws why each of them could not be connected to: an AggregateError
 */
export function connectOnce(
  servers: readonly string[],
  options: ClientOptions | undefined,
  signal: AbortSignal,
): Promise<NatsConnection> {
  const way = { connect: (server: string) => connectTo(server, options), addressOf, signal }
  return anyServer(servers, options?.noRandomize === true ? { ...way, random: () => 0 } : way)
}

/** As the client connects, also where the address leaves the port out. */
function addressOf(server: string): string {
  const host = server.replace(/^.*:\/\//, '')
  return /:\d+$/.test(host) ? host : `${host}:4222`
}

/** @throws what the client throws; OPTION_INVALID if the login is refused */
async function connectTo(server: string, options: ClientOptions | undefined): Promise<NatsConnection> {
  const terms = {
    name: 'sluice',
    timeout: CONNECT_MS,
    // They make two errors with a stack for each message: a fifth of the processor.
    noAsyncTraces: true,
    ...options,
    servers: [server],
    // What is under way fails at once when the connection ends; another one is opened with the next try.
    reconnect: false,
    waitOnFirstConnect: false,
  }
  try {
    return await connect(terms)
  } catch (error) {
    throw withRemedy(error)
  }
}

/** @throws that the first requests have had no answer in time: a server that was stopped says nothing, and not all of them have a limit */
export async function inTime<T extends object>(
  work: Promise<T>,
  connection: NatsConnection,
  signal: AbortSignal,
): Promise<T> {
  const done = await untilAborted(work, signal)
  if (done === undefined) throw new Error(`${connection.getServer()}: ${NOT_IN_TIME}`)
  return done
}

/** The addresses of servers. The client drops a login in one without a word. @throws SluiceError OPTION_INVALID */
export function serversOf(what: string, given: unknown, remedy: string): readonly string[] {
  const servers = addressesOf(what, given, remedy)
  if (servers.every((server) => !server.includes('@'))) return servers
  const text = `${what}: expected addresses without a login, received one with a login. Give it as connection: { user, pass }`
  throw new SluiceError('OPTION_INVALID', text)
}

/** A server that is stopped accepts a connection and says nothing. There may be others. */
const CONNECT_MS = 2_000
