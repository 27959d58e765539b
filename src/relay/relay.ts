import { RunnablePipeline } from '../pipeline/pipeline.ts'
import type { Consumers } from '../process/consumers.ts'
import { type RelayOptions, resolveRelay } from './options.ts'
import { RelayHandler } from './relay-handler.ts'
import { RelayOutlet } from './relay-outlet.ts'

/** A pipeline that publishes what it claims. Each of its consumers has a connection of its own to the destination. */
export function relayOf(queue: string, options: RelayOptions, consumers: Consumers): RunnablePipeline {
  const plan = resolveRelay(queue, options)
  return new RunnablePipeline(
    plan.pipeline,
    (life) => {
      const outlet = new RelayOutlet(plan, consumers.report, life === 'on')
      return { handler: new RelayHandler(plan, outlet), outlet }
    },
    consumers,
  )
}
