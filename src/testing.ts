// For users' tests: the real queue on a real database, without mocks and without waiting.

import { DeliveredMessage } from './claim/delivered-message.ts'
import type { MessageToEnqueue } from './enqueue/enqueue.ts'
import type { OpenTransaction } from './enqueue/open-transaction.ts'
import { readMessage } from './enqueue/read-message.ts'
import { executorOf } from './enqueue/transaction.ts'
import { expected, SluiceError } from './errors.ts'
import { checkFunction, type Handler, toOutcome } from './handle/handler.ts'
import type { EnqueueIn } from './handle/run-context.ts'
import { MessageTransaction } from './handle/transaction/message-transaction.ts'
import { internalsOf } from './internals.ts'
import type { Outcome } from './message.ts'
import { RunnablePipeline } from './pipeline/pipeline.ts'
import {
  checkQueueName,
  type InputOf,
  type OutputOf,
  type QueueDefinitions,
  type QueueName,
  validatePayload,
} from './queues.ts'
import { SettledCollector, type SettledMessages } from './settle/settled-messages.ts'
import type { Sluice } from './sluice.ts'
import { type EnqueuedMessage, enqueuedHere } from './table/enqueue/enqueued.ts'
import { BatchConnection } from './transaction/batch-connection.ts'

export type { SettledMessages } from './settle/settled-messages.ts'
export type { SettledMessage } from './settle/settlement.ts'
export type { EnqueuedMessage } from './table/enqueue/enqueued.ts'

/** After this many rounds `runDue` gives up: handlers that enqueue for one another may never come to an end. */
const MOST_ROUNDS = 1_000

/**
 * Handles everything that is due now in the given pipelines, including what their handlers enqueue for one another, and
 * returns what became of each message, as `runOnce` does.
 *
 * @example
 * const [settled] = await runDue([emails, audit])
 * expect(settled.outcome).toEqual({ kind: 'ack' })
 */
export async function runDue(pipelines: RunnablePipeline | readonly RunnablePipeline[]): Promise<SettledMessages> {
  const all = pipelinesOf(pipelines)
  const settled = new SettledCollector()
  for (let round = 0; round < MOST_ROUNDS; round++) {
    let found = false
    for (const pipeline of all) {
      const messages = await pipeline.runOnce()
      settled.merge(messages)
      found ||= messages.length > 0
    }
    if (!found) return settled.messages
  }
  throw new SluiceError(
    'OPTION_INVALID',
    `runDue: expected an end within ${MOST_ROUNDS} rounds, received none. Does a handler snooze without delay?`,
  )
}

function pipelinesOf(given: unknown): readonly RunnablePipeline[] {
  const all: readonly unknown[] = Array.isArray(given) ? given : [given]
  if (all.every((pipeline) => pipeline instanceof RunnablePipeline)) return all
  const wrong = all.find((pipeline) => !(pipeline instanceof RunnablePipeline))
  throw expected(
    'OPTION_INVALID',
    'runDue',
    'pipelines with a handler',
    wrong,
    'sluice.pipeline(…).handle(…) makes one',
  )
}

/**
 * Gives messages straight to a handler, in one transaction, and returns the outcomes. The messages are not enqueued.
 * Their payloads go through JSON and the schema, as in the queue. If the handler throws, the transaction is rolled back
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
): Promise<readonly Outcome[]> {
  const { pools, enqueueContext, enqueueIn } = internalsOf(sluice)
  const name = checkQueueName(queue, enqueueContext.definitions)
  checkFunction('deliver', handler)
  if (!Array.isArray(messages)) {
    throw expected('OPTION_INVALID', 'deliver', 'an array of messages', messages, 'As in [{ payload: … }]')
  }
  const delivered = await Promise.all(messages.map((message, at) => toDelivered(enqueueContext, name, message, at)))
  const { pool } = await pools()
  const connection = await BatchConnection.acquire(pool)
  try {
    connection.begin()
    const outcomes: Outcome[] = []
    for (const message of delivered)
      outcomes.push(await callHandler(connection, handler as CallHandler, message, enqueueIn))
    await connection.commit()
    return outcomes
  } finally {
    connection.release()
  }
}

/**
 * The messages that have been enqueued so far in an open transaction, in order.
 *
 * @param tx what `sluice.enqueue` takes
 * @example expect(await enqueuedIn(tx)).toMatchObject([{ queue: 'emails', payload: { to: 'ada@example.com' } }])
 */
export async function enqueuedIn(tx: OpenTransaction): Promise<readonly EnqueuedMessage[]> {
  return enqueuedHere(await executorOf(tx))
}

type CallHandler = (message: unknown, context: unknown) => unknown

async function callHandler(
  connection: BatchConnection,
  handle: CallHandler,
  message: DeliveredMessage,
  enqueue: EnqueueIn,
): Promise<Outcome> {
  const tx = new MessageTransaction(connection, enqueue)
  const outcome = toOutcome(
    await handle(
      message.handed,
      tx.context({ signal: new AbortController().signal, restart: () => undefined }, message.attempt),
    ),
  )
  if (tx.unfinished) await tx.finished()
  await (outcome.kind === 'retry' || outcome.kind === 'deadLetter' ? tx.undo() : tx.keep())
  return outcome
}

async function toDelivered(
  rules: Parameters<typeof readMessage>[0],
  queue: string,
  given: MessageToEnqueue,
  at: number,
): Promise<DeliveredMessage> {
  const what = `messages[${at}]`
  if (typeof given !== 'object' || given === null) {
    throw expected('OPTION_INVALID', what, 'an object with a payload and options', given)
  }
  const { payload, ...options } = given
  const row = await readMessage(rules, queue, { payload, options }, { payload: `${what}.payload`, options: what })
  const nowUs = Date.now() * 1_000
  const claimed = {
    ...row,
    id: String(at + 1),
    slot: null,
    attempt: 0,
    expired: false,
    dueUs: nowUs,
    enqueuedUs: nowUs,
  }
  const message = new DeliveredMessage(queue, claimed)
  const checked = await validatePayload(rules.definitions?.[queue], message.payload)
  if ('issues' in checked) throw expected('PAYLOAD_SCHEMA', `${what}.payload`, 'what the schema takes', checked.issues)
  message.accept(checked.value)
  return message
}
