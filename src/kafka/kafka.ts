import { Producer } from '@platformatic/kafka'
import { noteKind } from '../basics/adapter-kinds.ts'
import { NOT_IN_TIME } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import { withConnectionErrors } from './connection-errors.ts'
import { failureOf } from './kafka-failure.ts'
import {
  type ClientOptions,
  CONNECT_MS,
  type FixedOption,
  type KafkaOptions,
  type KafkaPlan,
  resolveKafka,
} from './kafka-options.ts'
import { KafkaPublisher } from './kafka-publisher.ts'
import { withPartialMetadata } from './partial-metadata.ts'

/**
 * Publishes to topics of Kafka, which confirms a message when all of its replicas in sync have it. The ordering key is the
 * key of the record, and the id its header `id`, by which consumers drop copies: Kafka drops none.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.relay('orders', { to: kafka({ servers: 'localhost:9092', topic: 'shop.orders' }) }).start()
 */
export function kafka(options: KafkaOptions): Destination {
  const plan = resolveKafka(options)
  return noteKind('destination', { system: 'kafka', cloudEventHeader, open: (signal) => open(plan, signal) })
}

/** As the Kafka binding of CloudEvents says. */
function cloudEventHeader(attribute: string, value: string): readonly [name: string, value: string] {
  return [attribute === 'datacontenttype' ? 'content-type' : `ce_${attribute}`, value]
}

async function open(plan: KafkaPlan, signal: AbortSignal): Promise<DestinationConnection> {
  const client = new Producer<Buffer, Buffer, Buffer, Buffer>({
    clientId: 'sluice',
    connectTimeout: CONNECT_MS,
    ...plan.connection,
    ...FIXED,
    bootstrapBrokers: plan.servers,
  })
  const producer = withPartialMetadata(withConnectionErrors(client))
  try {
    const topics = typeof plan.topic === 'string' ? [plan.topic] : []
    const known = await untilAborted(producer.metadata({ topics }), signal)
    if (known === undefined) throw new Error(`${plan.servers.join(', ')}: ${NOT_IN_TIME}`)
    return new KafkaPublisher(producer, plan)
  } catch (error) {
    await producer.close(true).catch(() => undefined)
    throw failureOf(error)
  }
}

/**
 * Without retries: the relay has these. Not idempotent: such a producer sends again by itself, and what it lost the state of it
 * may store out of order.
 */
const FIXED = {
  idempotent: false,
  retries: 0,
  repeatOnStaleMetadata: false,
} as const satisfies Partial<Pick<ClientOptions, FixedOption>>
