import type { Destination, DestinationConnection, RunningPipeline, Sluice } from '../../src/index.ts'
import { nats } from '../../src/nats.ts'
import { rabbitmq } from '../../src/rabbitmq.ts'
import { STREAM } from '../environment/with-broker.ts'
import { RABBITMQ_QUEUE } from '../environment/with-rabbitmq.ts'
import type { LoadHandlers } from './load-handlers.ts'
import type { WorkerSetup } from './worker-orders.ts'

/** A relay of the load, with short limits. It comes to the moment `effects` when it has its confirms, before its COMMIT. */
export function startRelay(
  sluice: Sluice,
  { queue, pipeline }: WorkerSetup,
  brokerUrl: string,
  handlers: LoadHandlers,
): RunningPipeline {
  const { concurrency, batchSize, retry, maxAttempts } = pipeline
  const to = withMoment(destinationAt(brokerUrl), handlers)
  const limits = { confirmTimeout: 1_000, breaker: { delay: 100, maxDelay: 300 } }
  return sluice.relay(queue, { to, concurrency, batchSize, retry, maxAttempts, ...limits }).start()
}

function destinationAt(servers: string): Destination {
  if (servers.startsWith('amqp:')) return rabbitmq({ servers, exchange: '', routingKey: RABBITMQ_QUEUE })
  return nats({ servers, subject: STREAM, stream: STREAM })
}

function withMoment(to: Destination, handlers: LoadHandlers): Destination {
  return {
    system: to.system,
    open: async (signal) => reaching(await to.open(signal), handlers),
  }
}

function reaching(connection: DestinationConnection, handlers: LoadHandlers): DestinationConnection {
  return {
    check: (message) => connection.check(message),
    publish: async (messages, signal) => {
      const verdicts = await connection.publish(messages, signal)
      handlers.reach('effects')
      return verdicts
    },
    close: () => connection.close(),
  }
}
