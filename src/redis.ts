// Redis Streams as the destination of a relay, and as the receiver of an inbox. It needs the package ioredis.

export { type FromRedisOptions, fromRedis } from './redis/from-redis.ts'
export { redis } from './redis/redis.ts'
export type { RedisOptions } from './redis/redis-options.ts'
