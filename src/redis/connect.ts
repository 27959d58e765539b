import { type RedisOptions as ClientOptions, Redis } from 'ioredis'
import { NOT_IN_TIME } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { expected, isSluiceError } from '../errors.ts'
import { notConnected } from '../relay/any-server.ts'
import { withRemedy } from './remedy.ts'

/** Options of the client that have one value here: a client with a queue of its own, or one that resends, is a second outbox. */
export type FixedOption =
  | 'autoResendUnfulfilledCommands'
  | 'enableAutoPipelining'
  | 'enableOfflineQueue'
  | 'enableReadyCheck'
  | 'keyPrefix'
  | 'lazyConnect'
  | 'maxRetriesPerRequest'
  | 'monitor'
  | 'reconnectOnError'
  | 'retryStrategy'

/** A server, and how to connect to it. */
export interface ServerPlan {
  readonly url: string | undefined
  readonly connection: ClientOptions
}

/** @throws SluiceError OPTION_INVALID */
export function resolveServer(
  what: string,
  { url, connection }: { readonly url?: string | undefined; readonly connection?: ClientOptions | undefined },
  remedy: string,
): ServerPlan {
  if (url === undefined ? connection === undefined : typeof url !== 'string' || !/^rediss?:\/\//.test(url))
    throw expected('OPTION_INVALID', `${what}.url`, 'an address that begins with redis:// or rediss://', url, remedy)
  return { url, connection: connection ?? {} }
}

/**
 * Connects once, and makes of the client what it is for. The client ends if that fails, or the signal aborts meanwhile.
 *
 * @throws why there is no connection, or what `make` throws; OPTION_INVALID if that waits for a change by hand
 */
export async function openClient<T>(
  plan: ServerPlan,
  signal: AbortSignal,
  make: (client: Redis) => Promise<T>,
): Promise<T> {
  const client = clientOf(plan)
  // Without a listener the client writes its errors to the console. That of connect() only says that there is no connection.
  let reason: unknown
  let isConnected = false
  client.on('error', (error: unknown) => {
    reason ??= error
  })
  const open = async () => {
    await client.connect()
    isConnected = true
    return { made: await make(client) }
  }
  const failed = (error: unknown) => notConnected(new Map([[addressOf(client.options), error]]))
  try {
    // A server that accepts a connection and says nothing would keep it.
    const opened = await untilAborted(open(), signal)
    if (opened !== undefined) return opened.made
  } catch (error) {
    client.disconnect()
    const failure = withRemedy(reason ?? error)
    throw isConnected && isAnswer(failure) ? failure : failed(failure)
  }
  client.disconnect()
  throw failed(NOT_IN_TIME)
}

/** What a server says about a stream, a command or a login needs no address. */
function isAnswer(error: unknown): boolean {
  return isSluiceError(error) || (error instanceof Error && error.name === 'ReplyError')
}

/** Of the server or, where sentinels name it, of these. */
function addressOf({ host, port, path, sentinels }: ClientOptions): string {
  if (!Array.isArray(sentinels)) return path ?? `${host}:${port}`
  return sentinels.map((one) => `${one.host}:${one.port ?? SENTINEL_PORT}`).join(', ')
}

function clientOf({ url, connection }: ServerPlan): Redis {
  const options = { connectionName: 'sluice', connectTimeout: CONNECT_MS, ...connection, ...FIXED }
  return url === undefined ? new Redis(options) : new Redis(url, options)
}

/** What is under way fails at once when the connection ends; another one is opened with the next try. */
const FIXED = {
  autoResendUnfulfilledCommands: false,
  enableAutoPipelining: false,
  enableOfflineQueue: false,
  enableReadyCheck: false,
  keyPrefix: '',
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  monitor: false,
  reconnectOnError: null,
  retryStrategy: () => null,
} as const satisfies Record<FixedOption, unknown>

/** The client's default. */
const SENTINEL_PORT = 26_379
/** A server that is stopped accepts a connection and says nothing. */
const CONNECT_MS = 2_000
