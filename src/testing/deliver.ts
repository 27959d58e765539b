import { checkKeys } from '../basics/checks/check-keys.ts'
import { EVENTS, type EventToAppend, readEvent } from '../enqueue/append.ts'
import type { MessageToEnqueue } from '../enqueue/enqueue.ts'
import { readList } from '../enqueue/read-list.ts'
import { readMessage } from '../enqueue/read-message.ts'
import { expected } from '../errors.ts'
import { checkFunction, type Handler } from '../handle/handler.ts'
import type { Outcome } from '../message.ts'
import type { LeasedPipelineOptions } from '../plan/options.ts'
import { resolveLeased } from '../plan/resolve.ts'
import { internalsOf, type SluiceInternals } from '../process/internals.ts'
import { checkQueueName, type InputOf, type OutputOf, type QueueDefinitions, type QueueName } from '../queues.ts'
import type { Sluice } from '../sluice.ts'
import { Meter } from '../statistics/meter.ts'
import { checkGroupName, checkStreamName, groupQueue, refuseStream, type StreamDefinitions } from '../streams.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { deliverInTransaction, type Handle } from './deliver-in-transaction.ts'
import { toEvents, toMessages } from './given-messages.ts'

/** For which group `deliver` calls a handler. */
export interface GroupDeliverOptions {
  readonly group: string
}

/** How `deliver` calls a handler of leased mode. */
export type LeasedDeliverOptions = Pick<LeasedPipelineOptions, 'mode' | 'lease' | 'timeout'>

/**
 * Gives messages to a handler of leased mode, one after another, as a pipeline does: each is in the queue under a lease
 * while its handler runs, so that `transaction()`, `extend()` and the lease's loss are real. Then it is removed, whatever
 * its outcome is. If a handler throws or takes longer than `timeout`, the error is thrown, and what `transaction()` has
 * committed before stays. If a lease is lost, LEASE_LOST is thrown and the message stays in the queue.
 *
 * @example const [outcome] = await deliver(sluice, 'reports', render, [{ payload: { id: 7 } }], { mode: 'leased' })
 */
export async function deliver<Definitions extends QueueDefinitions | undefined, Name extends QueueName<Definitions>>(
  sluice: Sluice<Definitions>,
  queue: Name,
  handler: Handler<OutputOf<Definitions, Name>, Definitions, 'leased'>,
  messages: readonly MessageToEnqueue<InputOf<Definitions, Name>>[],
  options: LeasedDeliverOptions,
): Promise<readonly Outcome[]>
/**
 * Gives messages straight to a handler, in one transaction, and returns the outcomes. The messages are not enqueued.
 * Their payloads go through JSON and the schema, as in the queue; they take no dedupe keys. If the handler throws, the transaction is rolled back
 * and the error is thrown. Otherwise it is committed, without the writes of messages whose outcome is a retry or a dead
 * letter.
 *
 * @example const [outcome] = await deliver(sluice, 'emails', sendEmail, [{ payload: { to: 'ada@example.com' } }])
 */
export async function deliver<Definitions extends QueueDefinitions | undefined, Name extends QueueName<Definitions>>(
  sluice: Sluice<Definitions>,
  queue: Name,
  handler: Handler<OutputOf<Definitions, Name>, Definitions>,
  messages: readonly MessageToEnqueue<InputOf<Definitions, Name>>[],
): Promise<readonly Outcome[]>
/**
 * Gives events straight to a handler of a group, in one transaction, as messages are given to one of a queue. The events are not
 * appended, neither the stream nor the group need be there, and nothing moves.
 *
 * @example const [outcome] = await deliver(sluice, 'orders', bill, [{ payload: { id: 7 } }], { group: 'billing' })
 */
export async function deliver<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
  Name extends QueueName<Streams>,
>(
  sluice: Sluice<Definitions, Streams>,
  stream: Name,
  handler: Handler<OutputOf<Streams, Name>, Definitions, 'group'>,
  events: readonly EventToAppend<InputOf<Streams, Name>>[],
  options: GroupDeliverOptions,
): Promise<readonly Outcome[]>
export async function deliver(
  sluice: object,
  queue: string,
  handler: unknown,
  messages: readonly MessageToEnqueue[] | readonly EventToAppend[],
  options?: LeasedDeliverOptions | GroupDeliverOptions,
): Promise<readonly Outcome[]> {
  const internals = internalsOf(sluice)
  checkFunction('deliver', handler)
  if (!Array.isArray(messages)) {
    throw expected('OPTION_INVALID', 'deliver', 'an array of messages', messages, 'As in [{ payload: … }]')
  }
  const handle = handler as Handle
  if (options !== undefined && 'group' in options) return deliverEvents(internals, queue, handle, messages, options)
  refuseStream(queue, internals.enqueueContext, "give the group that reads it, as in { group: 'billing' }")
  const name = checkQueueName(queue, internals.enqueueContext.definitions)
  const rows = await Promise.all(messages.map((message, at) => toRow(internals, name, message, at)))
  return options === undefined
    ? deliverInTransaction(internals, internals.enqueueContext.definitions?.[name], handle, toMessages(name, rows))
    : deliverUnderLeases(internals, name, handle, rows, options)
}

async function deliverUnderLeases(
  { worker: current }: SluiceInternals,
  queue: string,
  handle: Handle,
  rows: readonly InsertRow[],
  options: LeasedDeliverOptions,
): Promise<readonly Outcome[]> {
  checkKeys('deliver', options, ['mode', 'lease', 'timeout'], "As in { mode: 'leased' }")
  if (options.mode !== 'leased') {
    const remedy = 'A handler of transactional mode needs no options'
    throw expected('OPTION_INVALID', 'deliver.mode', "'leased'", options.mode, remedy)
  }
  const consumption = {
    plan: resolveLeased('deliver', queue, options),
    handler: { kind: 'each', handle } as const,
    meter: new Meter(),
  }
  return (await current()).visit(async (worker) => {
    const outcomes: Outcome[] = []
    for (const row of rows) outcomes.push(await worker.deliver(consumption, row))
    return outcomes
  })
}

function toRow(
  { enqueueContext }: SluiceInternals,
  queue: string,
  given: MessageToEnqueue,
  at: number,
): InsertRow | Promise<InsertRow> {
  const what = `messages[${at}]`
  if (typeof given !== 'object' || given === null) {
    throw expected('OPTION_INVALID', what, 'an object with a payload and options', given)
  }
  const { payload, ...options } = given
  return readMessage(enqueueContext, queue, { payload, options }, { payload: `${what}.payload`, options: what })
}

async function deliverEvents(
  internals: SluiceInternals,
  given: string,
  handle: Handle,
  entries: readonly EventToAppend[],
  options: GroupDeliverOptions,
): Promise<readonly Outcome[]> {
  checkKeys('deliver', options, ['group'], "As in { group: 'billing' }")
  const { enqueueContext } = internals
  const stream = checkStreamName(given, enqueueContext.streams)
  const queue = groupQueue({ stream, group: checkGroupName('deliver.group', options.group) })
  const rows = await readList(EVENTS, entries, (entry, names) => readEvent(enqueueContext, stream, entry, names))
  return deliverInTransaction(internals, enqueueContext.streams?.[stream], handle, toEvents(queue, rows))
}
