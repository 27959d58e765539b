// NATS JetStream as the destination of a relay, and as the receiver of an inbox. It needs the packages @nats-io/transport-node and
// @nats-io/jetstream.

export type { ClientOptions } from './nats/connect.ts'
export { type FromNatsOptions, fromNats } from './nats/from-nats.ts'
export { nats } from './nats/nats.ts'
export type { NatsOptions } from './nats/nats-options.ts'
