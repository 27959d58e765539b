import type { RedisOptions as ClientOptions } from 'ioredis'
import { noteKind } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected } from '../errors.ts'
import type { Receiver } from '../inbox/receiver.ts'
import { type FixedOption, openClient, resolveServer } from './connect.ts'
import { BLOCK_MS, RedisReceiver } from './redis-receiver.ts'

/** From where an inbox receives in Redis. */
export interface FromRedisOptions {
  /**
   * The server, such as `redis://user:password@host:6379/0`, or `rediss://…` with TLS.
   * @default what `connection` says
   */
  readonly url?: string | undefined
  /** The key of the stream. */
  readonly stream: string
  /** The name of its consumer group, which must exist. */
  readonly group: string
  /** The name of the consumer: the same after a restart, and another one in each process that receives at the same time. */
  readonly consumer: string
  /** Options of the client, such as `tls`, or `sentinels` and `name` in place of `url`. */
  readonly connection?: Omit<ClientOptions, FixedOption | 'commandTimeout'> | undefined
}

/**
 * Receives from a consumer group of a stream of Redis: entries with the fields `id`, `body` and `headers`, as a relay writes
 * them, and any other entry as a JSON object of its fields.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.inbox('orders-in', { from: fromRedis({ url: 'redis://localhost', stream: 'shop', group: 'billing', consumer: 'a' }) }).start()
 */
export function fromRedis(options: FromRedisOptions): Receiver {
  checkKeys('fromRedis', options, ['url', 'stream', 'group', 'consumer', 'connection'], REMEDY)
  const { url, connection } = resolveServer('fromRedis', options, REMEDY)
  for (const name of ['stream', 'group', 'consumer'] as const) {
    if (typeof options[name] !== 'string' || options[name] === '')
      throw expected('OPTION_INVALID', `fromRedis.${name}`, `the name of a ${name}`, options[name], REMEDY)
  }
  const plan = { url, connection: { ...connection, commandTimeout: ANSWER_MS } }
  return noteKind('receiver', {
    system: 'redis',
    open: (signal) =>
      openClient(plan, signal, async (client) => {
        const receiver = new RedisReceiver(client, options)
        await receiver.check()
        return receiver
      }),
  })
}

const REMEDY = "As in fromRedis({ url: 'redis://localhost', stream: 'shop', group: 'billing', consumer: 'a' })"
/** Of a command that waits for entries; a server that takes longer is out of reach. */
const ANSWER_MS = BLOCK_MS + 5_000
