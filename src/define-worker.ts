import type { BatchHandler, Handler, HandlerKind } from './handle/handler.ts'
import type { InboxOptions } from './inbox/options.ts'
import type { GroupPipelineOptions, LeasedPipelineOptions, PipelineOptions } from './plan/options.ts'
import type { OutputOf, QueueDefinitions, QueueName } from './queues.ts'
import { type Fed, type QueueWork, readQueues } from './read-worker.ts'
import type { RelayOptions } from './relay/options.ts'
import type { Sluice } from './sluice.ts'
import type { StreamDefinitions } from './streams.ts'
import { warnIfUnrun } from './unrun-worker.ts'
import type { WebhooksOptions } from './webhooks/options.ts'

/**
 * What `sluice work` runs: for each queue a handler, or a handler with the options of its pipeline. A group that reads
 * a stream has the key `<stream>:<group>` and the mode `group`. A queue with the mode `relay` is published, and so is a group
 * that has a destination (`to`) instead of a handler. A queue with the mode `webhooks` is sent to its endpoints. A queue with
 * an `inbox` receives from a broker, and needs no handler.
 *
 * @example
 * export default defineWorker(sluice, {
 *   emails: async ({ payload }) => send(payload),
 *   reports: { mode: 'leased', concurrency: 50, handle: async ({ payload }) => render(payload) },
 *   'orders:billing': { mode: 'group', batchSize: 500, handle: async (event, { tx }) => bill(tx, event) },
 *   shipments: { mode: 'relay', to: nats({ servers, subject: 'shop.shipments' }) },
 *   'orders:to-nats': { mode: 'group', to: nats({ servers, subject: 'shop.orders' }) },
 *   'payments-in': { inbox: { from: fromNats({ servers, stream: 'payments', consumer: 'billing' }) } },
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
  const definition = { sluice: sluice as Sluice | undefined, queues: readQueues(queues) }
  warnIfUnrun(definition.sluice)
  return branded(definition)
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
  | WorkFor<OutputOf<Definitions, Name>, Definitions, 'transactional', Transactional & Fed>
  | WorkFor<OutputOf<Definitions, Name>, Definitions, 'leased', LeasedPipelineOptions & Fed>
  | (Relayed & Fed & { readonly mode: 'relay' })
  | (Sent & Fed)
  | Received

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

/** The worker only receives: others handle the queue. */
interface Received {
  readonly inbox: InboxOptions
  readonly mode?: undefined
  readonly handle?: undefined
  readonly handleBatch?: undefined
}

type WorkFor<Payload, Definitions extends QueueDefinitions | undefined, In extends HandlerKind, Options> = Options &
  (
    | { readonly handle: Handler<Payload, Definitions, In>; readonly handleBatch?: undefined }
    | { readonly handleBatch: BatchHandler<Payload, Definitions, In>; readonly handle?: undefined }
  )

/** Of any copy of the package: `sluice work` may run from another one. */
const WORKER = Symbol.for('sluice.worker')

/**
 * What a module exports for `sluice work`: what defineWorker returned, or its argument. @throws SluiceError OPTION_INVALID
 */
export function readWorker(exported: unknown): WorkerDefinition {
  if (typeof exported === 'object' && exported !== null && WORKER in exported)
    return exported as unknown as WorkerDefinition
  return { sluice: undefined, queues: readQueues(exported) }
}

function branded(definition: WorkerDefinition): WorkerDefinition {
  return Object.defineProperty(definition, WORKER, { value: true })
}
