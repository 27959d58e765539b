import type { Destination, DestinationConnection, RunningPipeline, Sluice } from '../../src/index.ts'
import { nats } from '../../src/nats.ts'
import { rabbitmq } from '../../src/rabbitmq.ts'
import { STREAM } from '../environment/nats-place.ts'
import { streamFor } from '../environment/with-broker.ts'
import { RABBITMQ_QUEUE } from '../environment/with-rabbitmq.ts'
import type { LoadHandlers } from './load-handlers.ts'
import type { WorkerSetup } from './worker-orders.ts'

/**
 * A relay of the load, or one for each group, with short limits. It comes to the moment `effects` when it has its confirms,
 * before its COMMIT.
 */
export function startRelays(
  sluice: Sluice,
  { queue, groups, pipeline }: WorkerSetup,
  servers: readonly string[],
  handlers: LoadHandlers,
): readonly RunningPipeline[] {
  const { concurrency, batchSize, retry, maxAttempts } = pipeline
  const limits = {
    concurrency,
    batchSize,
    retry,
    maxAttempts,
    confirmTimeout: 1_000,
    breaker: { delay: 100, maxDelay: 300 },
  }
  const to = (stream: string) => withMoment(destinationAt(servers, stream), handlers)
  if (groups === undefined) return [sluice.relay(queue, { to: to(STREAM), ...limits }).start()]
  return groups.map((group) => sluice.relay({ stream: queue, group }, { to: to(streamFor(group)), ...limits }).start())
}

function destinationAt(servers: readonly string[], stream: string): Destination {
  if (areOfRabbitmq(servers)) return rabbitmq({ servers, exchange: '', routingKey: RABBITMQ_QUEUE })
  return nats({ servers, subject: stream, stream })
}

export function areOfRabbitmq([first = '']: readonly string[]): boolean {
  return first.startsWith('amqp:')
}

function withMoment(to: Destination, handlers: LoadHandlers): Destination {
  return { ...to, open: async (signal) => reaching(await to.open(signal), handlers) }
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
