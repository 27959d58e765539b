import { jetstream } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { checkKeys } from '../basics/check-keys.ts'
import { expected } from '../errors.ts'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import { percentEncoded } from '../relay/percent-encoded.ts'
import type { NatsOptions } from './nats-options.ts'
import { NatsPublisher } from './nats-publisher.ts'
import { wrongSubject } from './subject.ts'

/**
 * Publishes to NATS JetStream, which confirms a message when its stream has stored it. The id is the `Nats-Msg-Id`, by which
 * the stream drops duplicates within its `duplicate_window`.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.relay('orders', { to: nats({ servers: 'nats://localhost', subject: 'shop.orders' }) }).start()
 */
export function nats(options: NatsOptions): Destination {
  checkKeys('nats', options, ['servers', 'subject', 'stream', 'connection'], REMEDY)
  const { servers, subject, stream } = options
  const all = typeof servers === 'string' ? [servers] : servers
  if (!Array.isArray(all) || all.length === 0 || !all.every((server) => typeof server === 'string'))
    throw expected('OPTION_INVALID', 'nats.servers', 'one or more addresses', servers, REMEDY)
  if (stream !== undefined && typeof stream !== 'string')
    throw expected('OPTION_INVALID', 'nats.stream', 'the name of a stream', stream, REMEDY)
  checkSubject(subject)
  return { system: 'nats', cloudEventHeader, open: () => open(options, all) }
}

/** By the binding of CloudEvents for NATS. */
function cloudEventHeader(attribute: string, value: string): readonly [name: string, value: string] {
  return [`ce-${attribute}`, percentEncoded(value)]
}

const REMEDY = "As in nats({ servers: ['nats://a', 'nats://b'], subject: 'shop.orders' })"

function checkSubject(subject: unknown): void {
  if (typeof subject === 'function') return
  if (typeof subject !== 'string')
    throw expected('OPTION_INVALID', 'nats.subject', 'text or a function', subject, REMEDY)
  const wrong = wrongSubject(subject)
  if (wrong !== undefined) throw expected('OPTION_INVALID', 'nats.subject', wrong, subject, REMEDY)
}

async function open(options: NatsOptions, servers: readonly string[]): Promise<DestinationConnection> {
  const connection = await connect({
    name: 'sluice',
    timeout: CONNECT_MS,
    // They make two errors with a stack for each message: a fifth of the processor.
    noAsyncTraces: true,
    ...options.connection,
    servers: [...servers],
    // What is under way fails at once when the connection ends; the relay opens another one when it tries again.
    reconnect: false,
    waitOnFirstConnect: false,
  })
  try {
    await checkStream(connection, options)
    return new NatsPublisher(connection, options)
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** @throws if the stream is missing */
async function checkStream(connection: NatsConnection, { stream, subject }: NatsOptions): Promise<void> {
  if (stream === undefined && typeof subject === 'function') return
  const { streams } = await jetstream(connection).jetstreamManager(false)
  if (stream !== undefined) await streams.info(stream)
  else if (typeof subject === 'string') await streams.find(subject)
}

/** A server that is stopped accepts a connection and says nothing. There may be others. */
const CONNECT_MS = 2_000
