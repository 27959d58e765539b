import { didYouMean, meantBy } from './basics/check-keys.ts'
import { expected, SluiceError } from './errors.ts'
import type { BatchHandler, Handler, HandlerKind } from './handle/handler.ts'
import type { GroupPipelineOptions, LeasedPipelineOptions, PipelineOptions } from './plan/options.ts'
import type { OutputOf, QueueDefinitions, QueueName } from './queues.ts'
import type { RelayOptions } from './relay/options.ts'
import type { Sluice } from './sluice.ts'
import type { StreamDefinitions, StreamGroup } from './streams.ts'
import type { WebhooksOptions } from './webhooks/options.ts'

/**
 * What `sluice work` runs: for each queue a handler, or a handler with the options of its pipeline. A group that reads
 * a stream has the key `<stream>:<group>` and the mode `group`. A queue with the mode `relay` is published, and so is a group
 * that has a destination (`to`) instead of a handler. A queue with the mode `webhooks` is sent to its endpoints.
 *
 * @example
 * export default defineWorker(sluice, {
 *   emails: async ({ payload }) => send(payload),
 *   reports: { mode: 'leased', concurrency: 50, handle: async ({ payload }) => render(payload) },
 *   'orders:billing': { mode: 'group', batchSize: 500, handle: async (event, { tx }) => bill(tx, event) },
 *   shipments: { mode: 'relay', to: nats({ servers, subject: 'shop.shipments' }) },
 *   'orders:to-nats': { mode: 'group', to: nats({ servers, subject: 'shop.orders' }) },
 * })
 *
 * @param sluice your own, with its connection, queues and schemas. Without it `sluice work` makes one for DATABASE_URL,
 * and any queue may be named.
 * @throws SluiceError OPTION_INVALID
 */
export function defineWorker<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
>(sluice: Sluice<Definitions, Streams>, queues: WorkerQueues<Definitions, Streams>): WorkerDefinition
/** The same without a Sluice of your own. */
export function defineWorker(queues: WorkerQueues<undefined, undefined>): WorkerDefinition
export function defineWorker(first: unknown, second?: unknown): WorkerDefinition {
  const [sluice, queues] = second === undefined ? [undefined, first] : [first, second]
  return branded({ sluice: sluice as Sluice | undefined, queues: checkQueues(queues) })
}

/** What {@link defineWorker} returns. */
export interface WorkerDefinition {
  /** The Sluice that consumes; undefined: one for DATABASE_URL. */
  readonly sluice: Sluice | undefined
  /** The work of each queue. */
  readonly queues: Readonly<Record<string, QueueWork>>
}

/** A handler for each queue, and each group of a stream, that a worker consumes. */
export type WorkerQueues<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined = undefined,
> = Definitions extends QueueDefinitions
  ? { readonly [Name in QueueName<Definitions>]?: WorkOfQueue<Definitions, Name> } & WorkOfGroups<Definitions, Streams>
  : { readonly [name: string]: WorkOfQueue<Definitions, never> | WorkOfGroup<Definitions, Streams, QueueName<Streams>> }

/** The groups that read streams, by `<stream>:<group>`. */
type WorkOfGroups<Definitions extends QueueDefinitions | undefined, Streams extends StreamDefinitions | undefined> = {
  readonly [Name in QueueName<Streams> as `${Name}:${string}`]?: WorkOfGroup<Definitions, Streams, Name>
}

type WorkOfQueue<Definitions extends QueueDefinitions | undefined, Name extends QueueName<Definitions>> =
  | Handler<OutputOf<Definitions, Name>, Definitions>
  | WorkFor<OutputOf<Definitions, Name>, Definitions, 'transactional', Transactional>
  | WorkFor<OutputOf<Definitions, Name>, Definitions, 'leased', LeasedPipelineOptions>
  | (Relayed & { readonly mode: 'relay' })
  | Sent

type WorkOfGroup<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
  Name extends QueueName<Streams>,
> = WorkFor<OutputOf<Streams, Name>, Definitions, 'group', OfGroup> | (Relayed & { readonly mode: 'group' })

/** An object says its mode: by that the compiler knows what the handler gets. */
type Transactional = PipelineOptions & { readonly mode: 'transactional' }
type Relayed = RelayOptions & { readonly handle?: undefined; readonly handleBatch?: undefined }
type OfGroup = Omit<GroupPipelineOptions, 'group' | 'mode'> & { readonly mode: 'group'; readonly to?: undefined }
type Sent = WebhooksOptions & {
  readonly mode: 'webhooks'
  readonly handle?: undefined
  readonly handleBatch?: undefined
}

type WorkFor<Payload, Definitions extends QueueDefinitions | undefined, In extends HandlerKind, Options> = Options &
  (
    | { readonly handle: Handler<Payload, Definitions, In>; readonly handleBatch?: undefined }
    | { readonly handleBatch: BatchHandler<Payload, Definitions, In>; readonly handle?: undefined }
  )

/** The work of one queue, as it is run. */
export type QueueWork = HandledWork | OutgoingWork

export interface HandledWork {
  readonly kind: 'handle' | 'handleBatch'
  /** The queue, or the stream that a group reads. */
  readonly name: string
  /** The options of its pipeline, which checks them. */
  readonly options: Readonly<Record<string, unknown>>
  readonly handler: (message: never, context: never) => unknown
}

/** Work whose messages leave the database, by no handler of the worker's. */
type OutgoingWork = RelayedWork | SentWork

interface RelayedWork {
  readonly kind: 'relay'
  readonly source: string | StreamGroup
  /** Those of the relay, which checks them. */
  readonly options: Readonly<Record<string, unknown>>
}

/** The options are those of `webhooks`, which checks them. */
interface SentWork {
  readonly kind: 'webhooks'
  readonly name: string
  readonly options: Readonly<Record<string, unknown>>
}

/** Of any copy of the package: `sluice work` may run from another one. */
const WORKER = Symbol.for('sluice.worker')

/**
 * What a module exports for `sluice work`: what defineWorker returned, or its argument. @throws SluiceError OPTION_INVALID
 */
export function readWorker(exported: unknown): WorkerDefinition {
  if (typeof exported === 'object' && exported !== null && WORKER in exported)
    return exported as unknown as WorkerDefinition
  return { sluice: undefined, queues: checkQueues(exported) }
}

function branded(definition: WorkerDefinition): WorkerDefinition {
  return Object.defineProperty(definition, WORKER, { value: true })
}

function checkQueues(queues: unknown): WorkerDefinition['queues'] {
  const isObject = typeof queues === 'object' && queues !== null && !Array.isArray(queues)
  if (isObject && Object.keys(queues).length > 0)
    return Object.fromEntries(Object.entries(queues).map(([queue, work]) => [queue, readWork(queue, work)]))
  const remedy = 'As in defineWorker({ emails: async ({ payload }) => send(payload) })'
  throw expected('OPTION_INVALID', 'the worker', 'an object with a handler for each queue', queues, remedy)
}

function readWork(queue: string, work: unknown): QueueWork {
  if (typeof work === 'function')
    return { name: queue, options: {}, kind: 'handle', handler: work as HandledWork['handler'] }
  if (typeof work === 'object' && work !== null) {
    const { handle, handleBatch, ...options } = work as Record<string, unknown>
    const leaving = outgoing(queue, work as Record<string, unknown>)
    if (leaving !== undefined) return leaving
    const kind = handleBatch === undefined ? 'handle' : 'handleBatch'
    const handler = kind === 'handle' ? handle : handleBatch
    if (typeof handler === 'function' && (handle === undefined || handleBatch === undefined))
      return { ...consumed(queue, options), kind, handler: handler as HandledWork['handler'] }
  }
  const name = `the worker's ${JSON.stringify(queue)}`
  if (typeof work === 'object' && work !== null) checkKind(name, work)
  const wanted = 'a handler, or an object with either handle or handleBatch and the options of a pipeline'
  throw expected('OPTION_INVALID', name, wanted, work)
}

/** What a pipeline is given: of a group the stream and `{ group }`. @throws SluiceError OPTION_INVALID */
function consumed(queue: string, options: Readonly<Record<string, unknown>>): Pick<HandledWork, 'name' | 'options'> {
  const { mode, ...others } = options
  if (mode !== 'group') return { name: queue, options }
  const { stream, group } = groupOf(queue)
  return { name: stream, options: { ...others, group } }
}

/** Undefined: a handler of the worker's gets the messages. @throws SluiceError OPTION_INVALID */
function outgoing(queue: string, work: Readonly<Record<string, unknown>>): OutgoingWork | undefined {
  const { mode, to } = work
  if (mode === 'relay' || (mode === 'group' && to !== undefined)) return relayed(queue, work)
  return mode === 'webhooks' ? sent(queue, work) : undefined
}

/** @throws SluiceError OPTION_INVALID */
function groupOf(queue: string): StreamGroup {
  const [stream = '', group] = queue.split(/:(.*)/s, 2)
  if (group !== undefined) return { stream, group }
  const remedy = "As in 'orders:billing': { mode: 'group', handle: … }"
  throw expected('OPTION_INVALID', 'a worker with the mode group', 'a name <stream>:<group>', queue, remedy)
}

/** @throws SluiceError OPTION_INVALID */
function relayed(queue: string, work: Readonly<Record<string, unknown>>): RelayedWork {
  const { mode, ...options } = work
  refuseHandler(queue, work, "As in { mode: 'relay', to: nats({ … }) }")
  return { kind: 'relay', source: mode === 'group' ? groupOf(queue) : queue, options }
}

/** @throws SluiceError OPTION_INVALID */
function sent(name: string, work: Readonly<Record<string, unknown>>): SentWork {
  const { mode: _, ...options } = work
  refuseHandler(name, work, "As in { mode: 'webhooks' }")
  return { kind: 'webhooks', name, options }
}

function refuseHandler(queue: string, work: Readonly<Record<string, unknown>>, remedy: string): void {
  const handler = KINDS.find((kind) => work[kind] !== undefined)
  if (handler === undefined) return
  const what = `the worker's ${JSON.stringify(queue)}`
  throw expected('OPTION_INVALID', what, 'no handler, because its messages leave the database', handler, remedy)
}

const KINDS = ['handle', 'handleBatch'] as const

/** What is wrong with the handler's name, or with two of them. @throws SluiceError OPTION_INVALID */
function checkKind(name: string, work: object): void {
  const given = KINDS.filter((kind) => Reflect.get(work, kind) !== undefined)
  if (given.length > 1)
    throw new SluiceError('OPTION_INVALID', `${name}: expected either handle or handleBatch, received both`)
  const other = Object.keys(work).find((key) => meantBy(key, KINDS).length > 0)
  if (given.length === 0 && other !== undefined)
    throw expected('OPTION_INVALID', name, 'handle or handleBatch', other, didYouMean(meantBy(other, KINDS)))
}
