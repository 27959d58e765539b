import type {
  Handler,
  ReadMessage,
  ReceivedMessage,
  Receiver,
  ReceiverConnection,
  RunningPipeline,
  Sluice,
} from '../../src/index.ts'
import { fromNats } from '../../src/nats.ts'
import { fromRabbitmq } from '../../src/rabbitmq.ts'
import { STREAM } from '../environment/nats-place.ts'
import { CONSUMER, RECEIVED } from '../environment/with-inbox.ts'
import { RABBITMQ_QUEUE } from '../environment/with-rabbitmq.ts'
import type { LoadHandlers } from './load-handlers.ts'
import { areOfRabbitmq } from './relay-part.ts'
import type { WorkerSetup } from './worker-orders.ts'

/** An inbox of what the relays publish, with short limits, and the pipeline that handles it. */
export function startInbox(
  sluice: Sluice,
  { pipeline }: WorkerSetup,
  servers: readonly string[],
  handlers: LoadHandlers,
): RunningPipeline {
  const { concurrency, batchSize, timeout, retry } = pipeline
  const from = withMoments(receiverAt(servers), handlers)
  sluice.inbox(RECEIVED, { from, read, batchSize, breaker: { delay: 100, maxDelay: 300 } }).start()
  return sluice
    .pipeline(RECEIVED, { concurrency, batchSize, timeout, retry })
    .handle(handlers.handle as Handler)
    .start()
}

function receiverAt(servers: readonly string[]): Receiver {
  if (areOfRabbitmq(servers)) return fromRabbitmq({ servers, queue: RABBITMQ_QUEUE })
  return fromNats({ servers, stream: STREAM, consumer: CONSUMER })
}

/** The books have a message by the number that it had before it was published. */
function read({ body, headers }: ReceivedMessage): ReadMessage {
  const payload: unknown = JSON.parse(new TextDecoder().decode(body))
  return { payload: { ...(payload as object), of: headers['sluice-message-id'] } }
}

function withMoments(from: Receiver, handlers: LoadHandlers): Receiver {
  return {
    system: from.system,
    open: async (signal) => reaching(await from.open(signal), handlers),
  }
}

function reaching(connection: ReceiverConnection, handlers: LoadHandlers): ReceiverConnection {
  return {
    get waitMs() {
      return connection.waitMs
    },
    receive: async (most, signal) => {
      const messages = await connection.receive(most, signal)
      if (messages.length > 0) handlers.reach('received')
      return messages
    },
    ack: (messages) => {
      handlers.reach('stored')
      return connection.ack(messages)
    },
    close: () => connection.close(),
  }
}
