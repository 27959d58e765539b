import { SluiceError } from '../../errors.ts'
import type { Inbox, Pipeline, RunnablePipeline, Sluice } from '../../index.ts'
import type { ConsumerWork, HandlerWork, QueueWork } from '../../read-worker.ts'

/** Options of the command for all pipelines; undefined: the module's. */
export interface Overrides {
  readonly mode: 'transactional' | 'leased' | undefined
  readonly concurrency: number | undefined
  readonly batchSize: number | undefined
}

/** A pipeline that can be run, and how. */
export interface WorkPipeline {
  readonly queue: string
  readonly mode: string
  readonly pipeline: RunnablePipeline
  /** How many runs go side by side with `--once`. */
  readonly runs: number
}

/** An inbox that can be run, and the kind of its broker. */
export interface WorkInbox {
  readonly queue: string
  readonly system: string
  readonly inbox: Inbox
}

/**
 * The pipelines of a worker, for all of its queues or those that are named.
 *
 * @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, QUEUE_UNKNOWN
 */
export function pipelinesOf(
  sluice: Sluice,
  work: Readonly<Record<string, QueueWork>>,
  named: readonly string[],
  overrides: Overrides,
): readonly WorkPipeline[] {
  return selected(work, named).flatMap(([queue, { consumer }]) =>
    consumer === undefined ? [] : [pipelineOf(sluice, queue, consumer, overrides)],
  )
}

/** The inboxes of the same queues. @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, QUEUE_UNKNOWN */
export function inboxesOf(
  sluice: Sluice,
  work: Readonly<Record<string, QueueWork>>,
  named: readonly string[],
): readonly WorkInbox[] {
  return selected(work, named).flatMap(([queue, { inbox: options }]) => {
    if (options === undefined) return []
    const inbox = sluice.inbox(queue, options)
    return [{ queue, system: options.from.system, inbox }]
  })
}

function selected(
  work: Readonly<Record<string, QueueWork>>,
  named: readonly string[],
): readonly (readonly [queue: string, work: QueueWork])[] {
  const queues = named.length > 0 ? [...new Set(named)] : Object.keys(work)
  return queues.map((queue) => {
    const own = Object.hasOwn(work, queue) ? work[queue] : undefined
    if (own !== undefined) return [queue, own]
    const wanted = `one of ${Object.keys(work).join(', ')}`
    throw new SluiceError('OPTION_INVALID', `--queue: expected ${wanted}, received ${JSON.stringify(queue)}`)
  })
}

function pipelineOf(sluice: Sluice, queue: string, work: ConsumerWork, overrides: Overrides): WorkPipeline {
  const own = 'source' in work && typeof work.source !== 'string' ? 'group' : work.mode
  if (overrides.mode !== undefined && own !== undefined && own !== overrides.mode) {
    const text = `--mode: expected ${own}, the mode of the module's handler of "${queue}"`
    throw new SluiceError('OPTION_INVALID', `${text}, received ${overrides.mode}`)
  }
  const mode = own ?? overrides.mode ?? 'transactional'
  const isLeased = mode === 'leased' || mode === 'webhooks'
  return {
    queue,
    mode,
    pipeline: runnableOf(sluice, work, overrides),
    runs: isLeased ? 1 : (overrides.concurrency ?? work.options.concurrency ?? 1),
  }
}

/** Some branches are alike, but in each the compiler knows which handler goes with which mode. */
function runnableOf(sluice: Sluice, work: ConsumerWork, { mode, concurrency, batchSize }: Overrides): RunnablePipeline {
  const sizes = { ...(concurrency !== undefined && { concurrency }), ...(batchSize !== undefined && { batchSize }) }
  switch (work.mode) {
    case 'relay':
      return sluice.relay(work.source, { ...work.options, ...sizes })
    case 'webhooks':
      return sluice.webhooks(work.name, { ...work.options, ...sizes })
    case 'group':
      return handled(sluice.pipeline(work.name, { ...work.options, ...sizes }), work.handler)
    case 'leased':
      return handled(sluice.pipeline(work.name, { ...work.options, ...sizes }), work.handler)
    case 'transactional':
      return handled(sluice.pipeline(work.name, { ...work.options, ...sizes }), work.handler)
    case undefined:
      return mode === 'leased'
        ? handled(sluice.pipeline(work.name, { ...work.options, ...sizes, mode }), work.handler)
        : handled(sluice.pipeline(work.name, { ...work.options, ...sizes }), work.handler)
  }
}

function handled<In extends 'transactional' | 'leased' | 'group'>(
  pipeline: Pipeline<unknown, undefined, In>,
  handler: HandlerWork<In>,
): RunnablePipeline {
  return handler.handle === undefined ? pipeline.handleBatch(handler.handleBatch) : pipeline.handle(handler.handle)
}
