import { type BaseOptions, Consumer } from '@platformatic/kafka'
import { noteKind } from '../basics/adapter-kinds.ts'
import { addressesOf } from '../basics/checks/addresses.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { NOT_IN_TIME } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import type { Receiver, ReceiverConnection } from '../inbox/receiver.ts'
import { withConnectionErrors } from './connection-errors.ts'
import { FETCH_WAIT_MS } from './fetches.ts'
import { GroupMember } from './group-member.ts'
import { failureOf } from './kafka-failure.ts'
import { CONNECT_MS, type KafkaClient, WITHOUT_SPACES } from './kafka-options.ts'
import { KafkaReceiver } from './kafka-receiver.ts'
import { withPartialMetadata } from './partial-metadata.ts'
import { wrongTopic } from './record.ts'
import { shareOut } from './share-out.ts'

/** From where an inbox receives in Kafka. */
export interface FromKafkaOptions {
  /** Some servers of the cluster, such as `['a:9092', 'b:9092']`: one that can be reached names the others. */
  readonly servers: string | readonly string[]
  /** The topic, or several, which must exist. */
  readonly topic: string | readonly string[]
  /** The consumer group, which shares the partitions out among its processes. */
  readonly group: string
  /**
   * After which time without a sign of life a process counts as dead, and others get its partitions, 1 s to 30 min. The server
   * has bounds of its own, by default 6 s to 30 min.
   *
   * @default '30s'
   */
  readonly sessionTimeout?: Duration | undefined
  /** Options of the client, such as `sasl`, `tls` or `clientRack`. */
  readonly connection?: Partial<Omit<BaseOptions, FixedReceiverOption>> | undefined
}

/** Options of the client that have one value here. */
type FixedReceiverOption = 'autocreateTopics' | 'bootstrapBrokers' | 'requestTimeout' | 'retries' | 'retryDelay'

/**
 * Receives from topics of Kafka as a member of a consumer group: an ack commits the offset. The id of a message is its header
 * `id`, or the source and the id of a CloudEvent, or the place of its record.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.inbox('orders-in', { from: fromKafka({ servers: 'localhost:9092', topic: 'shop.orders', group: 'billing' }) }).start()
 */
export function fromKafka(options: FromKafkaOptions): Receiver {
  const plan = resolveFromKafka(options)
  return noteKind('receiver', { system: 'kafka', open: (signal) => open(plan, signal) })
}

/** The options, complete and checked. */
interface FromKafkaPlan {
  readonly servers: readonly string[]
  readonly topics: readonly string[]
  readonly group: string
  readonly sessionMs: number
  readonly connection: NonNullable<FromKafkaOptions['connection']>
}

/** @throws SluiceError OPTION_INVALID */
function resolveFromKafka(options: FromKafkaOptions): FromKafkaPlan {
  checkKeys('fromKafka', options, ['servers', 'topic', 'group', 'sessionTimeout', 'connection'], REMEDY)
  const { group, connection = {} } = options
  if (typeof group !== 'string' || group === '')
    throw expected('OPTION_INVALID', 'fromKafka.group', 'the name of a consumer group', group, REMEDY)
  return {
    servers: addressesOf('fromKafka.servers', options.servers, REMEDY, WITHOUT_SPACES),
    topics: addressesOf('fromKafka.topic', options.topic, REMEDY, TOPICS),
    group,
    sessionMs: toMsWithin('fromKafka.sessionTimeout', options.sessionTimeout ?? '30s', '1s', '30m'),
    connection,
  }
}

const TOPICS = {
  isAddress: (topic: string) => wrongTopic(topic) === undefined,
  wanted: 'one or more names of topics, each of 1 to 249 letters, digits, dots, - and _',
}
const REMEDY = "As in fromKafka({ servers: ['a:9092', 'b:9092'], topic: 'shop.orders', group: 'billing' })"

async function open(plan: FromKafkaPlan, signal: AbortSignal): Promise<ReceiverConnection> {
  // A fetch waits on the server, which answers what came behind it on the same connection later: signs of life too.
  const reader = clientOf(plan, FETCH_WAIT_MS + ANSWER_MS)
  // The answer to a request to join comes when the last member has joined, or counts as dead.
  const member = new GroupMember(clientOf(plan, plan.sessionMs + ANSWER_MS), plan.sessionMs)
  const receiver = new KafkaReceiver(member, reader, plan.topics)
  try {
    const known = await untilAborted(reader.metadata({ topics: [...plan.topics] }), signal)
    if (known === undefined) throw new Error(`${plan.servers.join(', ')}: ${NOT_IN_TIME}`)
    // A member that was cut off may hold this up for longer: then `receive` waits.
    await untilAborted(member.join(), AbortSignal.any([signal, AbortSignal.timeout(JOIN_MS)]))
    return receiver
  } catch (error) {
    await receiver.close()
    throw failureOf(error)
  }
}

/** Without retries: the inbox has these. */
function clientOf(
  { servers, topics, group, sessionMs, connection }: FromKafkaPlan,
  requestTimeout: number,
): KafkaClient {
  const client = new Consumer<Buffer, Buffer, Buffer, Buffer>({
    clientId: 'sluice',
    connectTimeout: CONNECT_MS,
    metadataMaxAge: METADATA_MS,
    ...connection,
    bootstrapBrokers: [...servers],
    groupId: group,
    autocreateTopics: false,
    retries: 0,
    requestTimeout,
    sessionTimeout: sessionMs,
    rebalanceTimeout: sessionMs,
    heartbeatInterval: Math.ceil(sessionMs / HEARTBEATS),
    heartbeatStallTimeout: sessionMs,
    protocols: PROTOCOLS,
    partitionAssigner: shareOut,
  })
  client.topics.trackAll(...topics)
  return withPartialMetadata(withConnectionErrors(client))
}

/** How long a server may take that has nothing to wait for. */
const ANSWER_MS = 5_000
/** Less than the inbox waits for a connection. A new group waits three seconds for more members. */
const JOIN_MS = 7_000
/** Those of librdkafka's clients. Clients in Java have the first one by default. A group has one that all of its members know. */
const PROTOCOLS = [
  { name: 'range', version: 1 },
  { name: 'roundrobin', version: 1 },
]
/** In a session. */
const HEARTBEATS = 10
/** When it is asked again where partitions are, and how many there are. */
const METADATA_MS = 60_000
