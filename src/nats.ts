// NATS JetStream as the destination of a relay. It needs the packages @nats-io/transport-node and @nats-io/jetstream.

export { type NatsOptions, nats } from './nats/nats.ts'
