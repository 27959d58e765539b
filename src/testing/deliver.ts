import { checkKeys } from '../basics/check-keys.ts'
import { DeliveredMessage } from '../claim/delivered-message.ts'
import type { MessageToEnqueue } from '../enqueue/enqueue.ts'
import { readMessage } from '../enqueue/read-message.ts'
import { expected } from '../errors.ts'
import type { Work } from '../handle/batch-run-options.ts'
import { checkFunction, type Handler } from '../handle/handler.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import { toOutcome } from '../handle/to-outcome.ts'
import { MessageTransaction } from '../handle/transaction/message-transaction.ts'
import type { Outcome } from '../message.ts'
import { type LeasedPipelineOptions, resolveLeased } from '../plan/options.ts'
import { internalsOf, type SluiceInternals } from '../process/internals.ts'
import {
  checkQueueName,
  type InputOf,
  type OutputOf,
  type QueueDefinitions,
  type QueueName,
  validatePayload,
} from '../queues.ts'
import type { Sluice } from '../sluice.ts'
import type { RowOptions } from '../table/claim/claim.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { BatchConnection } from '../transaction/batch-connection.ts'

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
export async function deliver<Definitions extends QueueDefinitions | undefined, Name extends QueueName<Definitions>>(
  sluice: Sluice<Definitions>,
  queue: Name,
  handler: Handler<OutputOf<Definitions, Name>, Definitions, never>,
  messages: readonly MessageToEnqueue<InputOf<Definitions, Name>>[],
  options?: LeasedDeliverOptions,
): Promise<readonly Outcome[]> {
  const internals = internalsOf(sluice)
  const name = checkQueueName(queue, internals.enqueueContext.definitions)
  checkFunction('deliver', handler)
  if (!Array.isArray(messages)) {
    throw expected('OPTION_INVALID', 'deliver', 'an array of messages', messages, 'As in [{ payload: … }]')
  }
  const rows = await Promise.all(messages.map((message, at) => toRow(internals, name, message, at)))
  const handle = handler as Handle
  return options === undefined
    ? deliverInTransaction(internals, name, handle, rows)
    : deliverUnderLeases(internals, name, handle, rows, options)
}

/** A handler of either mode, whose context and payload have the types that the overloads have checked. */
type Handle = Extract<Work, { readonly kind: 'each' }>['handle']

async function deliverUnderLeases(
  { enqueueContext, enqueueIn, workers }: SluiceInternals,
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
    definition: enqueueContext.definitions?.[queue],
    work: { kind: 'each', handle } as const,
    enqueue: enqueueIn,
  }
  return (await workers()).visit(async (worker) => {
    const outcomes: Outcome[] = []
    for (const row of rows) outcomes.push(await worker.deliver(consumption, row))
    return outcomes
  })
}

async function deliverInTransaction(
  { enqueueContext, enqueueIn, pools }: SluiceInternals,
  queue: string,
  handle: Handle,
  rows: readonly InsertRow[],
): Promise<readonly Outcome[]> {
  const definition = enqueueContext.definitions?.[queue]
  const messages = rows.map((row, at) => toMessage(queue, row, at))
  for (const [at, message] of messages.entries()) {
    const checked = await validatePayload(definition, message.payload)
    if ('issues' in checked)
      throw expected('PAYLOAD_SCHEMA', `messages[${at}].payload`, 'what the schema takes', checked.issues)
    message.accept(checked.value)
  }
  const { pool } = await pools()
  const connection = await BatchConnection.acquire(pool)
  try {
    connection.begin()
    const outcomes: Outcome[] = []
    for (const message of messages) outcomes.push(await callHandler(connection, handle, message, enqueueIn))
    await connection.commit()
    return outcomes
  } finally {
    connection.release()
  }
}

async function callHandler(
  connection: BatchConnection,
  handle: Handle,
  message: DeliveredMessage,
  enqueue: EnqueueIn,
): Promise<Outcome> {
  const tx = new MessageTransaction(connection, enqueue)
  const turn = { signal: new AbortController().signal, restart: () => undefined }
  const outcome = toOutcome(await handle(message.handed, tx.context(turn, message.attempt)))
  if (tx.unfinished) await tx.finished()
  await (outcome.kind === 'retry' || outcome.kind === 'deadLetter' ? tx.undo() : tx.keep())
  return outcome
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

function toMessage(queue: string, row: InsertRow, at: number): DeliveredMessage {
  const nowUs = Date.now() * 1_000
  const times = { dueUs: nowUs, enqueuedUs: nowUs }
  const fresh = { slot: null, attempt: 0, expired: false, options: optionsOf(row) }
  return new DeliveredMessage(queue, { ...row, ...times, ...fresh, id: String(at + 1) })
}

function optionsOf({ tenant }: InsertRow): RowOptions | null {
  if (tenant === null) return null
  return {
    expiresUs: null,
    retryPolicy: null,
    leaseMs: null,
    dedupeKey: null,
    dedupeMs: null,
    tenant,
    eventPosition: null,
  }
}
