// Redis Streams as the destination of a relay. It needs the package ioredis.

export { redis } from './redis/redis.ts'
export type { RedisOptions } from './redis/redis-options.ts'
