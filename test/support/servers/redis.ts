import { Redis } from 'ioredis'
import { onTestFinished, type TestContext } from 'vitest'
import { RedisServer } from '../../../faults/environment/redis-server.ts'
import type { PublishedMessage } from '../../../src/testing/conformance.ts'
import type { MessageToPublish } from '../../../src/testing/receiver-conformance.ts'

/** A Redis server, and a connection beside the relay's. It goes with the test. */
export interface TestRedis {
  readonly server: RedisServer
  readonly client: Redis
}

/** Skips the test where Redis is not installed. */
export async function startRedis(skip: TestContext['skip'], args: readonly string[] = []): Promise<TestRedis> {
  const server = (await RedisServer.start(args)) ?? skip('redis-server is not installed')
  onTestFinished(() => server.stop())
  // Until its server is back, its commands wait.
  const client = new Redis(server.url, { retryStrategy: () => 50, maxRetriesPerRequest: null })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  return { server, client }
}

/** All entries of a stream, in its order. */
export async function storedIn(client: Redis, stream: string): Promise<readonly PublishedMessage[]> {
  return (await client.xrange(stream, '-', '+')).map(([, fields]) => publishedOf(fields))
}

function publishedOf([, id = '', , body = '', , headers = '']: readonly string[]): PublishedMessage {
  return { id, body, headers: JSON.parse(headers) as Record<string, string> }
}

/** Adds entries to a stream as a relay does, in their order. */
export async function addTo(client: Redis, stream: string, messages: readonly MessageToPublish[]): Promise<void> {
  for (const { id, body, headers } of messages)
    await client.xadd(stream, '*', 'id', id, 'body', body, 'headers', JSON.stringify(headers))
}
