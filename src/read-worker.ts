import { didYouMean, meantBy } from './basics/checks/check-keys.ts'
import { expected, SluiceError } from './errors.ts'
import type { BatchHandler, Handler, HandlerKind } from './handle/handler.ts'
import type { InboxOptions } from './inbox/options.ts'
import type { GroupPipelineOptions, LeasedPipelineOptions, Mode, PipelineOptions } from './plan/options.ts'
import type { RelayOptions } from './relay/options.ts'
import type { StreamGroup } from './streams.ts'
import type { WebhooksOptions } from './webhooks/options.ts'

/** The work of one queue, as it is run. */
export interface QueueWork {
  /** What takes its messages. Undefined: others do. */
  readonly consumer: ConsumerWork | undefined
  /** What brings it messages from a broker. The inbox checks the options. */
  readonly inbox: InboxOptions | undefined
}

/** What takes the messages of a queue. Its options are checked by what it runs. */
export type ConsumerWork =
  | HandledWork<undefined, Mode, PipelineOptions>
  | HandledWork<'transactional', 'transactional', PipelineOptions>
  | HandledWork<'leased', 'leased', LeasedPipelineOptions>
  | HandledWork<'group', 'group', GroupPipelineOptions>
  | { readonly mode: 'relay'; readonly source: string | StreamGroup; readonly options: RelayOptions }
  | { readonly mode: 'webhooks'; readonly name: string; readonly options: WebhooksOptions }

/** A handler that names no mode runs in that of the command. */
interface HandledWork<As, In extends HandlerKind, Options> {
  readonly mode: As
  /** The queue, or the stream that a group reads. */
  readonly name: string
  readonly options: Options
  readonly handler: HandlerWork<In>
}

export type HandlerWork<In extends HandlerKind> =
  | { readonly handle: Handler<unknown, undefined, In>; readonly handleBatch?: undefined }
  | { readonly handleBatch: BatchHandler<unknown, undefined, In>; readonly handle?: undefined }

/** The work of each queue that a module names. @throws SluiceError OPTION_INVALID */
export function readQueues(queues: unknown): Readonly<Record<string, QueueWork>> {
  const isObject = typeof queues === 'object' && queues !== null && !Array.isArray(queues)
  if (isObject && Object.keys(queues).length > 0)
    return Object.fromEntries(Object.entries(queues).map(([queue, work]) => [queue, readWork(queue, work)]))
  const remedy = 'As in defineWorker({ emails: async ({ payload }) => send(payload) })'
  throw expected('OPTION_INVALID', 'the worker', 'an object with a handler for each queue', queues, remedy)
}

/** What a module says of a queue. */
type GivenWork = GivenToQueue | GivenToGroup | GivenToLeave

type GivenToQueue =
  | (GivenHandler<Mode> & PipelineOptions & Fed & { readonly mode?: undefined })
  | (GivenHandler<'transactional'> & PipelineOptions & Fed & { readonly mode: 'transactional' })
  | (GivenHandler<'leased'> & LeasedPipelineOptions & Fed)

type GivenToGroup = { readonly mode: 'group'; readonly inbox?: undefined } & (
  | (GivenHandler<'group'> & Omit<GroupPipelineOptions, 'group' | 'mode'> & { readonly to?: undefined })
  | (GivenHandler<never> & RelayOptions)
)

/** Its messages leave the database, by no handler of the module. */
type GivenToLeave = GivenHandler<never> &
  Fed &
  ((RelayOptions & { readonly mode: 'relay' }) | (WebhooksOptions & { readonly mode: 'webhooks' }))

interface GivenHandler<In extends HandlerKind> {
  readonly handle?: Handler<unknown, undefined, In> | undefined
  readonly handleBatch?: BatchHandler<unknown, undefined, In> | undefined
}

/** The queue may have messages of a broker. */
export interface Fed {
  readonly inbox?: InboxOptions | undefined
}

function readWork(queue: string, work: unknown): QueueWork {
  // The compiler has checked these types of a module in TypeScript. Any other module may give anything: handlers are checked
  // here, and options by what is run.
  if (typeof work === 'function') return readGiven(queue, { handle: work as Handler<unknown, undefined, Mode> })
  if (typeof work !== 'object' || work === null) throw noHandler(queue, work)
  return readGiven(queue, work as GivenWork)
}

function readGiven(queue: string, given: GivenWork): QueueWork {
  const { inbox } = given
  const onlyReceives = inbox !== undefined && Object.keys(given).every((key) => key === 'inbox')
  return { consumer: onlyReceives ? undefined : consumerOf(queue, given), inbox }
}

function consumerOf(queue: string, given: GivenWork): ConsumerWork {
  switch (given.mode) {
    case 'relay':
    case 'webhooks':
      return leavingOf(queue, given)
    case 'group':
      return groupOf(queue, given)
    default:
      return handledOf(queue, given)
  }
}

/** The branches are alike, but in each the compiler knows which handler goes with which options. */
function handledOf(queue: string, given: GivenToQueue): ConsumerWork {
  switch (given.mode) {
    case 'leased': {
      const { inbox: _inbox, handle, handleBatch, ...options } = given
      return { mode: 'leased', name: queue, options, handler: handlerOf(queue, given, { handle, handleBatch }) }
    }
    case 'transactional': {
      const { inbox: _inbox, handle, handleBatch, ...options } = given
      return { mode: 'transactional', name: queue, options, handler: handlerOf(queue, given, { handle, handleBatch }) }
    }
    default: {
      const { inbox: _inbox, handle, handleBatch, ...options } = given
      return { mode: undefined, name: queue, options, handler: handlerOf(queue, given, { handle, handleBatch }) }
    }
  }
}

function groupOf(queue: string, given: GivenToGroup): ConsumerWork {
  if (given.inbox !== undefined)
    throw expected('OPTION_INVALID', nameOf(queue), 'no inbox, because a group reads a stream', given.inbox)
  const source = streamGroupOf(queue)
  if (given.to !== undefined) {
    const { mode: _mode, inbox: _inbox, handle: _handle, handleBatch: _handleBatch, ...options } = given
    refuseHandler(queue, given, "As in { mode: 'group', to: nats({ … }) }")
    return { mode: 'relay', source, options }
  }
  const { mode, inbox: _inbox, to: _to, handle, handleBatch, ...others } = given
  const options = { ...others, group: source.group }
  return { mode, name: source.stream, options, handler: handlerOf(queue, given, { handle, handleBatch }) }
}

function leavingOf(queue: string, given: GivenToLeave): ConsumerWork {
  if (given.mode === 'relay') {
    const { mode, inbox: _inbox, handle: _handle, handleBatch: _handleBatch, ...options } = given
    refuseHandler(queue, given, "As in { mode: 'relay', to: nats({ … }) }")
    return { mode, source: queue, options }
  }
  const { mode, inbox: _inbox, handle: _handle, handleBatch: _handleBatch, ...options } = given
  refuseHandler(queue, given, "As in { mode: 'webhooks' }")
  return { mode, name: queue, options }
}

/** @throws SluiceError OPTION_INVALID */
function streamGroupOf(queue: string): StreamGroup {
  const [stream = '', group] = queue.split(/:(.*)/s, 2)
  if (group !== undefined) return { stream, group }
  const remedy = "As in 'orders:billing': { mode: 'group', handle: … }"
  throw expected('OPTION_INVALID', 'a worker with the mode group', 'a name <stream>:<group>', queue, remedy)
}

/** @throws SluiceError OPTION_INVALID */
function handlerOf<In extends HandlerKind>(
  queue: string,
  given: object,
  { handle, handleBatch }: GivenHandler<In>,
): HandlerWork<In> {
  if (typeof handle === 'function' && handleBatch === undefined) return { handle }
  if (typeof handleBatch === 'function' && handle === undefined) return { handleBatch }
  checkKind(queue, given)
  throw noHandler(queue, given)
}

/** @throws SluiceError OPTION_INVALID */
function refuseHandler(queue: string, given: GivenHandler<never>, remedy: string): void {
  const handler = KINDS.find((kind) => given[kind] !== undefined)
  if (handler === undefined) return
  const wanted = 'no handler, because its messages leave the database'
  throw expected('OPTION_INVALID', nameOf(queue), wanted, handler, remedy)
}

const KINDS = ['handle', 'handleBatch'] as const

/** What is wrong with the handler's name, or with two of them. @throws SluiceError OPTION_INVALID */
function checkKind(queue: string, work: object): void {
  const given = KINDS.filter((kind) => Reflect.get(work, kind) !== undefined)
  if (given.length > 1)
    throw new SluiceError('OPTION_INVALID', `${nameOf(queue)}: expected either handle or handleBatch, received both`)
  const other = Object.keys(work).find((key) => meantBy(key, KINDS).length > 0)
  if (given.length === 0 && other !== undefined)
    throw expected('OPTION_INVALID', nameOf(queue), 'handle or handleBatch', other, didYouMean(meantBy(other, KINDS)))
}

function noHandler(queue: string, work: unknown): SluiceError {
  const wanted = 'a handler, or an object with either handle or handleBatch and the options of a pipeline'
  return expected('OPTION_INVALID', nameOf(queue), wanted, work)
}

function nameOf(queue: string): string {
  return `the worker's ${JSON.stringify(queue)}`
}
