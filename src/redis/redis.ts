import { Redis } from 'ioredis'
import { toError } from '../errors.ts'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import { PublishScript } from './publish-script.ts'
import { type FixedOption, type RedisOptions, type RedisPlan, resolveRedis } from './redis-options.ts'
import { RedisPublisher } from './redis-publisher.ts'

/**
 * Publishes to streams of Redis, each message as an entry with the fields `id`, `body` and `headers`. A script stores the
 * messages of a batch in one step, drops those that it has stored before within `duplicateWindow`, and keeps the order of each
 * key. A server of a Redis Cluster refuses it.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.relay('orders', { to: redis({ url: 'redis://localhost', stream: 'shop:orders' }) }).start()
 */
export function redis(options: RedisOptions): Destination {
  const plan = resolveRedis(options)
  return { system: 'redis', keepsOrder: true, open: (signal) => open(plan, signal) }
}

async function open(plan: RedisPlan, signal: AbortSignal): Promise<DestinationConnection> {
  const client = clientOf(plan)
  // Without a listener the client writes its errors to the console. That of connect() only says that there is no connection.
  let reason: unknown
  client.on('error', (error: unknown) => {
    reason ??= error
  })
  // Without this, a server that accepts a connection and says nothing would keep it.
  const end = () => client.disconnect()
  signal.addEventListener('abort', end)
  try {
    await client.connect()
    const script = new PublishScript(client, plan)
    // A server that is loading its data, or does not let this login run scripts, says so here.
    await script.run([], [])
    return new RedisPublisher(client, script, plan, await mostBytesOf(client))
  } catch (error) {
    end()
    throw reasonOf(reason ?? error)
  } finally {
    signal.removeEventListener('abort', end)
  }
}

function clientOf({ url, connection }: RedisPlan): Redis {
  const options = { connectionName: 'sluice', connectTimeout: CONNECT_MS, ...connection, ...FIXED }
  return url === undefined ? new Redis(options) : new Redis(url, options)
}

/** What is under way fails at once when the connection ends; the relay opens another one when it tries again. */
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

/** The largest value that the server takes: it closes the connection of who sends more. Not every login may ask. */
async function mostBytesOf(client: Redis): Promise<number> {
  const [, bytes] = await client.config('GET', 'proto-max-bulk-len').then(asStrings, () => [])
  return bytes === undefined ? DEFAULT_MOST_BYTES : Number(bytes)
}

function asStrings(answer: unknown): readonly string[] {
  return Array.isArray(answer) ? answer.map(String) : []
}

/** A name with several addresses, none of which answers, gives an error without a message. */
function reasonOf(error: unknown): Error {
  return error instanceof AggregateError && error.message === '' ? toError(error.errors[0]) : toError(error)
}

/** A server that is stopped accepts a connection and says nothing. */
const CONNECT_MS = 2_000
const DEFAULT_MOST_BYTES = 512 * 2 ** 20
