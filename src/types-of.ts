import type { BatchHandler, Handler } from './handle/handler.ts'
import type { Message } from './message.ts'
import type { Mode } from './plan/options.ts'
import type { InputOf, OutputOf, QueueDefinitions, QueueName } from './queues.ts'
import type { Sluice } from './sluice.ts'

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

/** The names of the queues of a Sluice. */
export type QueueNameOf<Of extends Sluice> = QueueName<DefinitionsOf<Of>>

type DefinitionsOf<Of extends Sluice> =
  Of extends Sluice<infer Definitions extends QueueDefinitions | undefined> ? Definitions : never
