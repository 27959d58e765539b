import { checkKeys } from '../basics/checks/check-keys.ts'
import { RunnablePipeline } from '../pipeline/pipeline.ts'
import type { Consumers } from '../process/consumers.ts'
import { checkQueueName } from '../queues.ts'
import { checkGroupName, checkStreamName, type KnownNames, refuseStream, type StreamGroup } from '../streams.ts'
import { type RelayOptions, resolveRelay } from './options.ts'
import { RelayHandler } from './relay-handler.ts'
import { RelayOutlet } from './relay-outlet.ts'

/**
 * A pipeline that publishes what it claims. Each of its consumers has a connection of its own to the destination.
 *
 * @param source a queue, or a group of a stream
 * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID
 */
export function relayOf(
  source: string | StreamGroup,
  options: RelayOptions,
  known: KnownNames,
  consumers: Consumers,
): RunnablePipeline {
  const plan = resolveRelay(checkSource(source, known), options)
  return new RunnablePipeline(
    plan.pipeline,
    (life) => {
      const outlet = new RelayOutlet(plan, consumers.report, life === 'on')
      return { handler: new RelayHandler(plan, outlet), outlet }
    },
    consumers,
  )
}

function checkSource(source: string | StreamGroup, known: KnownNames): string | StreamGroup {
  if (typeof source === 'object' && source !== null) {
    checkKeys('relay', source, ['stream', 'group'], REMEDY)
    const stream = checkStreamName(source.stream, known.streams)
    return { stream, group: checkGroupName('relay.group', source.group) }
  }
  refuseStream(source, known, `name a group that reads it. ${REMEDY}`)
  return checkQueueName(source, known.definitions)
}

const REMEDY = "As in relay({ stream: 'orders', group: 'to-nats' }, { to: nats({ … }) })"
