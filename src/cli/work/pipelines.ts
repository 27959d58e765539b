import type { HandledWork, QueueWork } from '../../define-worker.ts'
import { SluiceError } from '../../errors.ts'
import type {
  BatchHandler,
  Handler,
  PipelineOptions,
  RelayOptions,
  RunnablePipeline,
  Sluice,
  WebhooksOptions,
} from '../../index.ts'

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
  const queues = named.length > 0 ? [...new Set(named)] : Object.keys(work)
  return queues.map((queue) => {
    const own = Object.hasOwn(work, queue) ? work[queue] : undefined
    if (own === undefined) {
      const wanted = `one of ${Object.keys(work).join(', ')}`
      throw new SluiceError('OPTION_INVALID', `--queue: expected ${wanted}, received ${JSON.stringify(queue)}`)
    }
    return pipelineOf(sluice, queue, own, overrides)
  })
}

function pipelineOf(sluice: Sluice, queue: string, work: QueueWork, overrides: Overrides): WorkPipeline {
  const given = Object.fromEntries(Object.entries(overrides).filter(([, value]) => value !== undefined))
  const mode = modeOf(work)
  if (overrides.mode !== undefined && mode !== undefined && mode !== overrides.mode) {
    const text = `--mode: expected ${String(mode)}, the mode of the module's handler of "${queue}"`
    throw new SluiceError('OPTION_INVALID', `${text}, received ${overrides.mode}`)
  }
  // The pipeline checks them: the module may be JavaScript.
  const options = { ...work.options, ...given } as PipelineOptions
  const runnable = runnableOf(sluice, work, options)
  const isLeased = (options.mode as unknown) === 'leased' || work.kind === 'webhooks'
  return {
    queue,
    mode: typeof mode === 'string' ? mode : 'transactional',
    pipeline: runnable,
    runs: isLeased ? 1 : (options.concurrency ?? 1),
  }
}

function runnableOf(sluice: Sluice, work: QueueWork, options: PipelineOptions): RunnablePipeline {
  if (work.kind === 'relay') return sluice.relay(work.source, options as unknown as RelayOptions)
  if (work.kind === 'webhooks') return sluice.webhooks(work.name, options as unknown as WebhooksOptions)
  return handledBy(sluice, work, options)
}

function modeOf(work: QueueWork): unknown {
  if (work.kind === 'webhooks') return 'webhooks'
  if (work.kind === 'relay') return typeof work.source === 'string' ? 'relay' : 'group'
  return 'group' in work.options ? 'group' : work.options.mode
}

function handledBy(sluice: Sluice, { name, kind, handler }: HandledWork, options: PipelineOptions): RunnablePipeline {
  const pipeline = sluice.pipeline(name, options)
  return kind === 'handle'
    ? pipeline.handle(handler as unknown as Handler<unknown>)
    : pipeline.handleBatch(handler as unknown as BatchHandler<unknown>)
}
