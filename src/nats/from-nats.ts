import { AckPolicy, type Consumer, type ConsumerConfig, JetStreamApiError, jetstream } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { noteKind } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected, SluiceError } from '../errors.ts'
import type { Receiver, ReceiverConnection } from '../inbox/receiver.ts'
import { type ClientOptions, connectOnce, inTime, serversOf } from './connect.ts'
import { Handover } from './handover.ts'
import { NatsReceiver } from './nats-receiver.ts'
import { NO_STREAM, withRemedy } from './remedy.ts'

/** From where an inbox receives in NATS JetStream. */
export interface FromNatsOptions {
  /** The servers: of a cluster name all, because after an outage the inbox connects to any of these. */
  readonly servers: string | readonly string[]
  /** The name of the stream. */
  readonly stream: string
  /** The name of its consumer: a durable pull consumer with explicit acks, which must exist. */
  readonly consumer: string
  /** Options of the client, such as `user` and `pass`, `authenticator` or `tls`. */
  readonly connection?: ClientOptions | undefined
}

/**
 * Receives from a consumer of NATS JetStream. The id of a message is its header `Nats-Msg-Id`.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.inbox('orders-in', { from: fromNats({ servers: 'nats://localhost', stream: 'shop', consumer: 'billing' }) }).start()
 */
export function fromNats(options: FromNatsOptions): Receiver {
  checkKeys('fromNats', options, ['servers', 'stream', 'consumer', 'connection'], REMEDY)
  const servers = serversOf('fromNats.servers', options.servers, REMEDY)
  for (const name of ['stream', 'consumer'] as const) {
    if (typeof options[name] !== 'string' || options[name] === '')
      throw expected('OPTION_INVALID', `fromNats.${name}`, `the name of a ${name}`, options[name], REMEDY)
  }
  return noteKind('receiver', { system: 'nats', open: (signal) => open(options, servers, signal) })
}

const REMEDY = "As in fromNats({ servers: 'nats://a', stream: 'shop', consumer: 'billing' })"

async function open(
  options: FromNatsOptions,
  servers: readonly string[],
  signal: AbortSignal,
): Promise<ReceiverConnection> {
  const connection = await connectOnce(servers, { pingInterval: PING_MS, ...options.connection }, signal)
  try {
    const prepare = async () => {
      const consumer = await consumerOf(connection, options)
      return { consumer, info: await consumer.info(true) }
    }
    const { consumer, info } = await inTime(prepare(), connection, signal)
    checkConsumer(info.config)
    const handover = new Handover(consumer, info, ackWaitMs(info.config))
    return new NatsReceiver(connection, consumer, handover, mostOf(info.config))
  } catch (error) {
    await connection.close()
    throw withRemedy(error)
  }
}

/** @throws SluiceError OPTION_INVALID if it is missing */
async function consumerOf(connection: NatsConnection, { stream, consumer }: FromNatsOptions): Promise<Consumer> {
  try {
    return await jetstream(connection).consumers.get(stream, consumer)
  } catch (error) {
    if (!(error instanceof JetStreamApiError) || !MISSING.includes(error.code)) throw error
    const what = `expected consumer ${JSON.stringify(consumer)} of stream ${JSON.stringify(stream)}`
    const remedy = 'Make it, or correct the options stream and consumer'
    throw new SluiceError('OPTION_INVALID', `fromNats: ${what}, received: ${error.message}. ${remedy}`, {
      cause: error,
    })
  }
}

/** The consumer, or the stream. */
const MISSING: readonly number[] = [10014, NO_STREAM]

/** @throws SluiceError OPTION_INVALID if it may lose messages, or delivers them while they are being stored */
function checkConsumer(config: ConsumerConfig): void {
  const { name, durable_name: durable, ack_policy: acks, max_deliver: most = -1, backoff = [] } = config
  const consumer = durable ?? name ?? ''
  const what = `consumer ${consumer}`
  if (acks !== AckPolicy.Explicit) throw expected('OPTION_INVALID', `${what}.ack_policy`, 'explicit', acks)
  if (backoff.length > 0) throw expected('OPTION_INVALID', `${what}.backoff`, 'none, but ack_wait', backoff)
  if (most > 0) {
    const remedy = `As in nats consumer edit <stream> ${consumer} --max-deliver=-1`
    throw expected('OPTION_INVALID', `${what}.max_deliver`, '-1, any number of times', most, remedy)
  }
  const ackMs = ackWaitMs(config)
  if (ackMs < LEAST_ACK_MS) throw expected('OPTION_INVALID', `${what}.ack_wait`, 'at least one second', `${ackMs} ms`)
}

/** How many messages it delivers at a time: it waits for acks before it delivers more. */
function mostOf({ max_ack_pending: unacked = 0, max_batch: batch = 0 }: ConsumerConfig): number {
  return Math.min(...[unacked, batch].filter((most) => most > 0))
}

function ackWaitMs({ ack_wait: nanoseconds = 30e9 }: ConsumerConfig): number {
  return nanoseconds / 1e6
}

/** A connection that is cut off is lost after two of them without an answer. */
const PING_MS = 10_000
const LEAST_ACK_MS = 1_000
