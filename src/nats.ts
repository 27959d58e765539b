// NATS JetStream as the destination of a relay. It needs the packages @nats-io/transport-node and @nats-io/jetstream.

export { nats } from './nats/nats.ts'
export type { NatsOptions } from './nats/nats-options.ts'
