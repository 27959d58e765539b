import type { Consumer, ProducerOptions } from '@platformatic/kafka'
import { addressesOf } from '../basics/checks/addresses.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected } from '../errors.ts'
import type { OutgoingMessage } from '../relay/destination.ts'
import { wrongTopic } from './record.ts'

/** Where a relay publishes in Kafka. */
export interface KafkaOptions {
  /** Some servers of the cluster, such as `['a:9092', 'b:9092']`: one that can be reached names the others. */
  readonly servers: string | readonly string[]
  /**
   * The topic of a message, or what makes it. It must give the same topic for the same message. What it throws, and what is no
   * name of a topic, is the reason of a dead letter.
   *
   * @example ({ message }) => `shop.${message.type ?? 'other'}`
   */
  readonly topic: string | ((message: OutgoingMessage) => string)
  /** Options of the client, such as `sasl`, `tls` or `compression`. */
  readonly connection?: Partial<Omit<ClientOptions, FixedOption>> | undefined
}

/** The client of a receiver. */
export type KafkaClient = Consumer<Buffer, Buffer, Buffer, Buffer>

export type ClientOptions = ProducerOptions<Buffer, Buffer, Buffer, Buffer>

/** Options of the client that have one value here. */
export type FixedOption =
  | 'acks'
  | 'beforeSerialization'
  | 'bootstrapBrokers'
  | 'idempotent'
  | 'partitioner'
  | 'producerEpoch'
  | 'producerId'
  | 'registry'
  | 'repeatOnStaleMetadata'
  | 'retries'
  | 'retryDelay'
  | 'serializers'
  | 'transactionalId'

/** The options, complete and checked. */
export interface KafkaPlan {
  readonly servers: string[]
  readonly topic: KafkaOptions['topic']
  readonly connection: Partial<Omit<ClientOptions, FixedOption>>
}

/** @throws SluiceError OPTION_INVALID */
export function resolveKafka(options: KafkaOptions): KafkaPlan {
  checkKeys('kafka', options, ['servers', 'topic', 'connection'], REMEDY)
  const { servers, topic, connection } = options
  const named = addressesOf('kafka.servers', servers, REMEDY, WITHOUT_SPACES)
  const wrong = typeof topic === 'function' ? undefined : wrongTopic(topic)
  if (wrong !== undefined) throw expected('OPTION_INVALID', 'kafka.topic', `${wrong}, or a function`, topic, REMEDY)
  return { servers: [...named], topic, connection: connection ?? {} }
}

/** What the address of a server is. */
export const WITHOUT_SPACES = { isAddress: (server: string) => /^\S+$/.test(server), wanted: 'one or more addresses' }
/** A server that is stopped accepts a connection and says nothing. There may be others. */
export const CONNECT_MS = 2_000
const REMEDY = "As in kafka({ servers: ['a:9092', 'b:9092'], topic: 'shop.orders' })"
