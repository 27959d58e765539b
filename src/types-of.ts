import type { BatchHandler, Handler } from './handle/handler.ts'
import type { EventMessage, Message } from './message.ts'
import type { Mode } from './plan/options.ts'
import type { InputOf, OutputOf, QueueDefinitions, QueueName } from './queues.ts'
import type { Sluice } from './sluice.ts'
import type { StreamDefinitions } from './streams.ts'

/**
 * What may be enqueued to a queue of a Sluice.
 *
 * @example type Signup = PayloadOf<typeof sluice, 'emails'>
 */
export type PayloadOf<Of extends Sluice, Name extends QueueNameOf<Of>> = InputOf<DefinitionsOf<Of>, Name>

/**
 * A message of a queue as its handler gets it.
 *
 * @example function subjectOf({ payload }: MessageOf<typeof sluice, 'emails'>) { … }
 */
export type MessageOf<Of extends Sluice, Name extends QueueNameOf<Of>> = Message<OutputOf<DefinitionsOf<Of>, Name>>

/**
 * The type of a handler of a queue, for a handler in a file of its own.
 *
 * @example export const sendEmail: HandlerFor<typeof sluice, 'emails'> = async ({ payload }, { tx }) => { … }
 */
export type HandlerFor<Of extends Sluice, Name extends QueueNameOf<Of>, In extends Mode = 'transactional'> = Handler<
  OutputOf<DefinitionsOf<Of>, Name>,
  DefinitionsOf<Of>,
  In
>

/** The type of a handler of whole batches of a queue. */
export type BatchHandlerFor<
  Of extends Sluice,
  Name extends QueueNameOf<Of>,
  In extends Mode = 'transactional',
> = BatchHandler<OutputOf<DefinitionsOf<Of>, Name>, DefinitionsOf<Of>, In>

/**
 * An event of a stream as a group's handler gets it.
 *
 * @example function totalOf({ payload }: EventOf<typeof sluice, 'orders'>) { … }
 */
export type EventOf<Of extends Sluice, Name extends StreamNameOf<Of>> = EventMessage<OutputOf<StreamsOf<Of>, Name>>

/**
 * The type of a group's handler of events, for a handler in a file of its own.
 *
 * @example export const bill: EventHandlerFor<typeof sluice, 'orders'> = async ({ payload, position }, { tx }) => { … }
 */
export type EventHandlerFor<Of extends Sluice, Name extends StreamNameOf<Of>> = Handler<
  OutputOf<StreamsOf<Of>, Name>,
  DefinitionsOf<Of>,
  'group'
>

/** The type of a group's handler of whole batches of events. */
export type EventBatchHandlerFor<Of extends Sluice, Name extends StreamNameOf<Of>> = BatchHandler<
  OutputOf<StreamsOf<Of>, Name>,
  DefinitionsOf<Of>,
  'group'
>

/** The names of the streams of a Sluice. */
export type StreamNameOf<Of extends Sluice> = QueueName<StreamsOf<Of>>

/** The names of the queues of a Sluice. */
export type QueueNameOf<Of extends Sluice> = QueueName<DefinitionsOf<Of>>

type DefinitionsOf<Of extends Sluice> =
  Of extends Sluice<infer Definitions extends QueueDefinitions | undefined> ? Definitions : never

type StreamsOf<Of extends Sluice> =
  Of extends Sluice<QueueDefinitions | undefined, infer Streams extends StreamDefinitions | undefined> ? Streams : never
