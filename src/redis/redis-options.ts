import type { RedisOptions as ClientOptions } from 'ioredis'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer, LARGEST_INTEGER } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import type { OutgoingMessage } from '../relay/destination.ts'
import { type FixedOption, resolveServer, type ServerPlan } from './connect.ts'

/** Where a relay publishes in Redis. */
export interface RedisOptions {
  /**
   * The server, such as `redis://user:password@host:6379/0`, or `rediss://…` with TLS.
   * @default what `connection` says
   */
  readonly url?: string | undefined
  /**
   * The key of the stream that gets a message, or what makes it. It must give the same key for the same message. What it
   * throws is the reason of a dead letter.
   *
   * @example ({ message }) => `shop:${message.type ?? 'other'}`
   */
  readonly stream: string | ((message: OutgoingMessage) => string)
  /**
   * About how many entries a stream keeps, 1 to 2,147,483,647: each publication removes older ones, also those that no
   * consumer has read. @default no limit
   */
  readonly maxLength?: number | undefined
  /**
   * For how long, from the last try on, a stream drops a message that it has stored already, up to 7 days; 0: it drops none.
   * Redis keeps a key for each message as long. @default '2m'
   */
  readonly duplicateWindow?: Duration | undefined
  /** How many replicas must have a message before it is confirmed, 0 to 100. @default 0 */
  readonly replicas?: number | undefined
  /** Options of the client, such as `tls`, or `sentinels` and `name` in place of `url`. */
  readonly connection?: Omit<ClientOptions, FixedOption> | undefined
}

/** The options, complete and checked. */
export interface RedisPlan extends ServerPlan {
  readonly stream: RedisOptions['stream']
  /** 0: no limit. */
  readonly maxLength: number
  readonly windowMs: number
  readonly replicas: number
}

/** @throws SluiceError OPTION_INVALID */
export function resolveRedis(options: RedisOptions): RedisPlan {
  checkKeys('redis', options, KNOWN, REMEDY)
  const { stream, maxLength, duplicateWindow, replicas } = options
  const server = resolveServer('redis', options, REMEDY)
  if (typeof stream !== 'function' && (typeof stream !== 'string' || stream === ''))
    throw expected('OPTION_INVALID', 'redis.stream', 'the key of a stream, or a function', stream, REMEDY)
  return {
    ...server,
    stream,
    maxLength: integer('redis.maxLength', maxLength, 0, 1, LARGEST_INTEGER),
    windowMs: toMsWithin('redis.duplicateWindow', duplicateWindow ?? '2m', 0, '7d'),
    replicas: integer('redis.replicas', replicas, 0, 0, 100),
  }
}

const KNOWN: readonly (keyof RedisOptions)[] = [
  'url',
  'stream',
  'maxLength',
  'duplicateWindow',
  'replicas',
  'connection',
]

const REMEDY = "As in redis({ url: 'redis://localhost', stream: 'shop:orders' })"
