import type { OutgoingMessage } from '../relay/destination.ts'
import type { ClientOptions } from './connect.ts'

/** Where a relay publishes in NATS JetStream. */
export interface NatsOptions {
  /** The servers: of a cluster name all, because after an outage the relay connects to any of these. */
  readonly servers: string | readonly string[]
  /**
   * The subject of a message, or what makes it. It must give the same subject for the same message. What it throws, and a
   * subject with wildcards, spaces or empty tokens, is the reason of a dead letter.
   *
   * @example ({ message }) => `shop.${message.type ?? 'other'}`
   */
  readonly subject: string | ((message: OutgoingMessage) => string)
  /**
   * The stream that must store the messages: another one refuses them. Its existence is checked before the first message.
   * @default the stream that has the subject
   */
  readonly stream?: string | undefined
  /** Options of the client, such as `user` and `pass`, `authenticator` or `tls`. */
  readonly connection?: ClientOptions | undefined
}
