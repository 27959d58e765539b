import type { SocketOptions } from 'amqplib'
import { noteKind } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected } from '../errors.ts'
import type { Receiver, ReceiverConnection } from '../inbox/receiver.ts'
import { RabbitmqReceiver } from './rabbitmq-receiver.ts'
import { serversOf } from './servers.ts'
import { openSession, type Session } from './session.ts'

/** From where an inbox receives in RabbitMQ. */
export interface FromRabbitmqOptions {
  /**
   * The servers, each with its login and virtual host: `amqp://user:password@host:5672/vhost`, or `amqps://…` with TLS. Name all
   * servers of a cluster: the inbox connects to a random one, and to the next one if that does not answer within 2 seconds. A
   * connection that is silent for 20 to 30 seconds is lost; with `?heartbeat=60` at the end of the address that is 120 to 180.
   */
  readonly servers: string | readonly string[]
  /** The name of the queue, which must exist, 1 to 255 bytes. */
  readonly queue: string
  /** Options of the client's socket, such as `ca`, `cert`, `credentials` or `timeout`. */
  readonly connection?: SocketOptions | undefined
}

/**
 * Receives from a queue of RabbitMQ. The id of a message is its property `message_id`, and the type its property `type`.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.inbox('orders-in', { from: fromRabbitmq({ servers: 'amqp://localhost', queue: 'billing' }) }).start()
 */
export function fromRabbitmq(options: FromRabbitmqOptions): Receiver {
  checkKeys('fromRabbitmq', options, ['servers', 'queue', 'connection'], REMEDY)
  const { queue, connection } = options
  const servers = serversOf('fromRabbitmq.servers', options.servers, REMEDY).map(withHeartbeat)
  if (typeof queue !== 'string' || queue === '' || Buffer.byteLength(queue) > LONGEST_NAME)
    throw expected('OPTION_INVALID', 'fromRabbitmq.queue', 'the name of a queue', queue, REMEDY)
  return noteKind('receiver', {
    system: 'rabbitmq',
    open: (signal) => openSession(servers, connection, signal, (session) => receiverOf(session, queue)),
  })
}

/** @throws if the queue is missing, or closed to the login */
async function receiverOf(session: Session, queue: string): Promise<ReceiverConnection> {
  const channel = await session.connection.createChannel()
  const receiver = new RabbitmqReceiver(session, channel, queue)
  await channel.checkQueue(queue)
  return receiver
}

/** A receiver that waits sends nothing, and would not find out that its connection is cut off. */
function withHeartbeat(server: string): string {
  const url = new URL(server)
  if (!url.searchParams.has('heartbeat')) url.searchParams.set('heartbeat', String(HEARTBEAT_S))
  return url.href
}

const REMEDY = "As in fromRabbitmq({ servers: 'amqp://localhost', queue: 'billing' })"
/** After two of them without a frame the connection is lost, for both sides. */
const HEARTBEAT_S = 10
/** In bytes. */
const LONGEST_NAME = 255
