import { jetstream } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { noteKind } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected } from '../errors.ts'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import { percentEncoded } from '../relay/percent-encoded.ts'
import { checkStream } from './check-stream.ts'
import { connectOnce, inTime, serversOf } from './connect.ts'
import type { NatsOptions } from './nats-options.ts'
import { NatsPublisher } from './nats-publisher.ts'
import { withRemedy } from './remedy.ts'
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
  const { subject, stream } = options
  const servers = serversOf('nats.servers', options.servers, REMEDY)
  if (stream !== undefined && typeof stream !== 'string')
    throw expected('OPTION_INVALID', 'nats.stream', 'the name of a stream', stream, REMEDY)
  checkSubject(subject)
  // A publisher sends the next message of a key when the one before it is confirmed.
  return noteKind('destination', {
    system: 'nats',
    keepsOrder: true,
    cloudEventHeader,
    open: (signal) => open(options, servers, signal),
  })
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

async function open(
  options: NatsOptions,
  servers: readonly string[],
  signal: AbortSignal,
): Promise<DestinationConnection> {
  const connection = await connectOnce(servers, options.connection, signal)
  try {
    const publisher = new NatsPublisher(connection, options)
    const prepare = async () => {
      await publisher.ready()
      await checkPlace(connection, options)
      return publisher
    }
    return await inTime(prepare(), connection, signal)
  } catch (error) {
    await connection.close()
    throw withRemedy(error)
  }
}

/** @throws if the stream is missing, or none has the subject, where that is one text */
async function checkPlace(connection: NatsConnection, { stream, subject }: NatsOptions): Promise<void> {
  const client = jetstream(connection)
  if (stream !== undefined) return checkStream(client, stream)
  if (typeof subject === 'function') return
  const { streams } = await client.jetstreamManager(false)
  await streams.find(subject)
}
