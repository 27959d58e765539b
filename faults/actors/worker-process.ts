/**
 * The program of a worker process: consumes a queue as a user's would, keeps books about what it begins and what it
 * does, and dies where it is told to.
 */
import type { Handler, RunningPipeline } from '../../src/index.ts'
import { startOutside } from './outside-part.ts'
import { playWorker, tell } from './worker-part.ts'

let running: readonly RunningPipeline[] = []
const { setup, sluice, ledger, held, handlers } = await playWorker((order) => {
  if (order.kind === 'stop') void stop(order.timeoutMs)
  if (order.kind === 'concurrency') for (const one of running) one.setConcurrency(order.to)
})

const { queue, groups, pipeline: options } = setup
if (setup.outside !== undefined) {
  running = startOutside(sluice, setup, setup.outside, handlers)
} else if (options.mode === 'leased') {
  const pipeline = sluice.pipeline(queue, options)
  if (setup.wholeBatches) running = [pipeline.handleBatch(handlers.handleAllLeased).start()]
  else running = [pipeline.handle(handlers.handleLeased as Handler<unknown, undefined, 'leased'>).start()]
} else if (groups !== undefined) {
  const pipelines = groups.map((group) => sluice.pipeline(queue, { ...options, ordered: undefined, group }))
  running = pipelines.map((pipeline) => pipeline.handle(handlers.handle as Handler).start())
} else {
  const pipeline = sluice.pipeline(queue, options)
  if (setup.wholeBatches) running = [pipeline.handleBatch(handlers.handleAll).start()]
  else running = [pipeline.handle(handlers.handle as Handler).start()]
}

async function stop(timeoutMs?: number): Promise<void> {
  held.goAll()
  await sluice.stop(timeoutMs === undefined ? {} : { timeout: timeoutMs })
  await ledger.end()
  tell({ kind: 'stopped' }, () => process.exit())
}
