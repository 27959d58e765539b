import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { opened } from '../../../src/basics/promises/opened.ts'
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { fromRedis } from '../../../src/redis/from-redis.ts'
import { redis } from '../../../src/redis/redis.ts'
import { soon } from '../../support/inboxes.ts'

/** What answers the first request that a client sends. */
const SERVERS: Readonly<Record<string, (socket: Socket) => void>> = {
  'breaks off': (socket) => socket.end(),
  'resets the connection': (socket) => socket.resetAndDestroy(),
  'speaks another protocol': (socket) => socket.write(Buffer.alloc(64)),
}

const redisAt = (address: string) => ({ url: `redis://${address}`, stream: 'shop' })
const kafkaAt = (servers: string) => ({ servers, topic: 'orders' })
const ADAPTERS = {
  redis: (address: string) => redis(redisAt(address)),
  fromRedis: (address: string) => fromRedis({ ...redisAt(address), group: 'billing', consumer: 'a' }),
  kafka: (address: string) => kafka(kafkaAt(address)),
  fromKafka: (address: string) => fromKafka({ ...kafkaAt(address), group: 'billing' }),
} as const

describe.for(Object.entries(ADAPTERS))('%s names a server', ([, at]) => {
  test.for(Object.keys(SERVERS))('that %s', async (what) => {
    const address = await listening((socket) => SERVERS[what]?.(socket))
    await expect(opened<{ close(): Promise<void> }>(at(address), soon())).rejects.toThrow(`${address}: `)
  })
})

async function listening(answer: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => answer(socket))
    onTestFinished(() => void socket.destroy())
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}
