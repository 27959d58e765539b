import type { Redis } from 'ioredis'
import { noteKind } from '../basics/adapter-kinds.ts'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import { openClient } from './connect.ts'
import { PublishScript } from './publish-script.ts'
import { type RedisOptions, type RedisPlan, resolveRedis } from './redis-options.ts'
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
  return noteKind('destination', {
    system: 'redis',
    keepsOrder: true,
    open: (signal) => openClient(plan, signal, (client) => publisherOf(client, plan)),
  })
}

async function publisherOf(client: Redis, plan: RedisPlan): Promise<DestinationConnection> {
  const script = new PublishScript(client, plan)
  // A server that is loading its data, or does not let this login run scripts, says so here.
  await script.run([], [])
  return new RedisPublisher(client, script, plan, await mostBytesOf(client))
}

/** The largest value that the server takes: it closes the connection of who sends more. Not every login may ask. */
async function mostBytesOf(client: Redis): Promise<number> {
  const [, bytes] = await client.config('GET', 'proto-max-bulk-len').then(asStrings, () => [])
  return bytes === undefined ? DEFAULT_MOST_BYTES : Number(bytes)
}

function asStrings(answer: unknown): readonly string[] {
  return Array.isArray(answer) ? answer.map(String) : []
}

const DEFAULT_MOST_BYTES = 512 * 2 ** 20
