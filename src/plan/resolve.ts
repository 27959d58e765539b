import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { toMsWithin } from '../basics/time/duration.ts'
import { expected, SluiceError } from '../errors.ts'
import { MAX_ATTEMPTS, retryPolicy } from '../retry-policy.ts'
import { checkGroupName, groupQueue } from '../streams.ts'
import { resolveBacklog } from './backlog.ts'
import type {
  AnyPipelineOptions,
  GroupPipelineOptions,
  LeasedPipelineOptions,
  LeasedPlan,
  Mode,
  OnError,
  PipelineOptions,
  PipelinePlan,
  TransactionalPlan,
} from './options.ts'

/** What differs between the modes: their options, in the order in which errors list them, defaults and bounds. */
export const MODES = {
  transactional: {
    options: [
      'mode',
      'concurrency',
      'batchSize',
      'timeout',
      'retry',
      'maxAttempts',
      'ordered',
      'throttle',
      'onError',
      'backlog',
      'group',
    ] satisfies readonly (keyof PipelineOptions)[],
    concurrency: 1,
    /** Batches, each on a connection. */
    mostConcurrency: 1_000,
    batchSize: () => 10,
    timeout: '30s',
    longestTimeout: '1h',
  },
  leased: {
    options: [
      'mode',
      'concurrency',
      'batchSize',
      'lease',
      'timeout',
      'retry',
      'maxAttempts',
      'throttle',
      'onError',
      'backlog',
    ] satisfies readonly (keyof LeasedPipelineOptions)[],
    concurrency: 10,
    /** Messages. */
    mostConcurrency: 10_000,
    batchSize: (concurrency: number) => Math.min(concurrency, 100),
    timeout: '15m',
    longestTimeout: '7d',
  },
} as const

/** @throws SluiceError OPTION_INVALID */
export function resolvePipeline(queue: string, options: AnyPipelineOptions): PipelinePlan {
  const what = `pipeline(${JSON.stringify(queue)})`
  return options?.mode === 'leased' ? resolveLeased(what, queue, options) : resolveTransactional(what, queue, options)
}

/** @throws SluiceError OPTION_INVALID, in which `what` names the call */
export function resolveLeased(what: string, queue: string, options: LeasedPipelineOptions): LeasedPlan {
  if ('group' in options && options.group !== undefined) {
    const remedy = "Leave out mode: 'leased': a group's progress moves in the transaction that handles its events"
    throw new SluiceError('OPTION_INVALID', `${what}.group is not an option of leased mode. ${remedy}`)
  }
  if ('ordered' in options && options.ordered) {
    const remedy = 'Give the messages an orderingKey: those of one key are handled in order in both modes'
    throw new SluiceError('OPTION_INVALID', `${what}.ordered is not an option of leased mode. ${remedy}`)
  }
  checkElsewhere(what, options)
  checkKeys(what, options, MODES.leased.options)
  const leaseMs = toMsWithin(`${what}.lease`, options.lease ?? '5m', '1s', '24h')
  return { queue, mode: 'leased', leaseMs, ...resolveCommon(what, 'leased', options) }
}

/** @throws SluiceError OPTION_INVALID, in which `what` names the call */
export function resolveTransactional(
  what: string,
  name: string,
  options: PipelineOptions | GroupPipelineOptions,
): TransactionalPlan {
  checkElsewhere(what, options)
  checkKeys(what, options, MODES.transactional.options)
  const { mode = 'transactional', ordered = false } = options
  if (mode !== 'transactional') throw expected('OPTION_INVALID', `${what}.mode`, "'transactional' or 'leased'", mode)
  if (typeof ordered !== 'boolean') throw expected('OPTION_INVALID', `${what}.ordered`, 'true or false', ordered)
  const log = logOf(what, name, options)
  const queue = log === undefined ? name : groupQueue(log)
  return { queue, log, mode, ordered, ...resolveCommon(what, mode, options) }
}

function resolveCommon(
  what: string,
  mode: Mode,
  options: AnyPipelineOptions,
): Omit<LeasedPlan, 'queue' | 'mode' | 'leaseMs'> {
  const rules = MODES[mode]
  const { timeout = rules.timeout, throttle } = options
  const most = rules.mostConcurrency
  const concurrency = integer(`${what}.concurrency`, options.concurrency, rules.concurrency, 1, most)
  return {
    concurrency,
    batchSize: integer(`${what}.batchSize`, options.batchSize, rules.batchSize(concurrency), 1, 1_000),
    timeoutMs: toMsWithin(`${what}.timeout`, timeout, '1ms', rules.longestTimeout),
    retry: retryPolicy(options.retry, Math.random, `${what}.retry`),
    maxAttempts: integer(`${what}.maxAttempts`, options.maxAttempts, MAX_ATTEMPTS, 1, 1_000_000),
    throttleMs: throttle === undefined ? undefined : toMsWithin(`${what}.throttle`, throttle, '1ms', '1h'),
    onError: onErrorIn(what, options),
    backlog: resolveBacklog(`${what}.backlog`, options.backlog),
  }
}

/** What a pipeline with a group consumes. @throws SluiceError OPTION_INVALID */
function logOf(
  what: string,
  stream: string,
  { group, ordered }: { readonly group?: string | undefined; readonly ordered?: boolean | undefined },
): TransactionalPlan['log'] {
  if (group === undefined) return undefined
  if (ordered === true) {
    const remedy = 'Events of one ordering key are handled in order; a stream with one partition is in order as a whole'
    throw new SluiceError('OPTION_INVALID', `${what}.ordered is not an option of a group. ${remedy}`)
  }
  return { stream, group: checkGroupName(`${what}.group`, group) }
}

/** Options that are there, but not here. @throws SluiceError OPTION_INVALID */
function checkElsewhere(what: string, options: object | undefined): void {
  if (typeof options !== 'object' || options === null) return
  const { mode, lease }: { readonly mode?: unknown; readonly lease?: unknown } = options
  if (mode !== 'leased' && lease !== undefined) {
    const remedy = "Add mode: 'leased'; in transactional mode the transaction holds the messages"
    throw new SluiceError('OPTION_INVALID', `${what}.lease is not an option of transactional mode. ${remedy}`)
  }
  const ofQueue = OF_THE_QUEUE.find((name) => Object.hasOwn(options, name))
  if (ofQueue === undefined) return
  const remedy = `It is a setting of the queue: operate.queues.settings.set(queue, { ${ofQueue} })`
  throw expected('OPTION_INVALID', what, 'the options of a pipeline', ofQueue, remedy)
}

const OF_THE_QUEUE = ['rate', 'tenantRate', 'tenantConcurrency'] as const

function onErrorIn(what: string, { onError }: Pick<PipelineOptions, 'onError'>): OnError | undefined {
  if (onError === undefined || typeof onError === 'function') return onError
  const wanted = "a function that returns 'continue', 'pause' or 'stop'"
  throw expected('OPTION_INVALID', `${what}.onError`, wanted, onError)
}
