// For users' tests: no mocks, the real queue on a real database, without waiting.

import type { MessageToEnqueue } from './enqueue/enqueue.ts'
import { readMessage } from './enqueue/read-message.ts'
import { executorOf } from './enqueue/transaction.ts'
import { expected, SluiceError } from './errors.ts'
import type { Outcome } from './message.ts'
import { BatchConnection } from './pipeline/batch-connection.ts'
import { DeliveredMessage } from './pipeline/delivered-message.ts'
import { type Handler, toOutcome } from './pipeline/handler.ts'
import { MessageTransaction } from './pipeline/message-transaction.ts'
import type { RunnablePipeline } from './pipeline/pipeline.ts'
import { type EnqueueIn, runContext } from './pipeline/run-context.ts'
import type { SettledMessage } from './pipeline/settlement.ts'
import {
  checkQueueName,
  type OutputOf,
  type PayloadOf,
  type QueueDefinitions,
  type QueueName,
  validatePayload,
} from './queues.ts'
import { internalsOf, type Sluice } from './sluice.ts'
import { type EnqueuedMessage, enqueuedHere } from './table/enqueued.ts'

export type { SettledMessage } from './pipeline/settlement.ts'
export type { EnqueuedMessage } from './table/enqueued.ts'

/** A handler that never comes to an end would run for ever: after this many rounds `runDue` gives up. */
const MOST_ROUNDS = 1_000

/**
 * Handles everything that is due now in the given pipelines, what their handlers enqueue for one another included, and
 * returns what became of each message.
 *
 * @example
 * const [settled] = await runDue([emails, audit])
 * expect(settled.outcome).toEqual({ kind: 'ack' })
 */
export async function runDue(
  pipelines: RunnablePipeline | readonly RunnablePipeline[],
): Promise<readonly SettledMessage[]> {
  const all = Array.isArray(pipelines) ? pipelines : [pipelines]
  const settled: SettledMessage[] = []
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const before = settled.length
    for (const pipeline of all) settled.push(...(await pipeline.runOnce()))
    if (settled.length === before) return settled
  }
  throw new SluiceError(
    'OPTION_INVALID',
    `runDue: expected an end within ${MOST_ROUNDS} rounds, received none. Does a handler snooze without delay?`,
  )
}

/**
 * Hands messages straight to a handler, in one transaction, and returns the outcomes. Nothing is enqueued. Payloads
 * go through JSON and their schema, as in the queue. If the handler throws, the transaction is rolled back and the
 * error thrown; otherwise it is committed, without the writes of messages whose outcome is a retry or a dead letter.
 *
 * @example const [outcome] = await deliver(sluice, 'emails', sendEmail, [{ payload: { to: 'ada@example.com' } }])
 */
export async function deliver<Definitions extends QueueDefinitions | undefined, Name extends QueueName<Definitions>>(
  sluice: Sluice<Definitions>,
  queue: Name,
  handler: Handler<OutputOf<Definitions, Name>, Definitions>,
  messages: readonly MessageToEnqueue<PayloadOf<Definitions, Name>>[],
): Promise<readonly Outcome[]> {
  const { pool, enqueueContext, enqueueIn } = internalsOf(sluice)
  const name = checkQueueName(queue, enqueueContext.definitions)
  const delivered = await Promise.all(messages.map((message, at) => toDelivered(enqueueContext, name, message, at)))
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
export async function enqueuedIn(tx: unknown): Promise<readonly EnqueuedMessage[]> {
  return enqueuedHere(await executorOf(tx))
}

type CallHandler = (message: unknown, context: unknown) => unknown

async function callHandler(
  connection: BatchConnection,
  handle: CallHandler,
  message: DeliveredMessage,
  enqueue: EnqueueIn,
): Promise<Outcome> {
  const tx = new MessageTransaction(connection)
  const outcome = toOutcome(await handle(message, runContext(tx, new AbortController(), message.attempt, enqueue)))
  await (outcome.kind === 'retry' || outcome.kind === 'deadLetter' ? tx.undo() : tx.keep())
  return outcome
}

async function toDelivered(
  rules: Parameters<typeof readMessage>[0],
  queue: string,
  { payload, ...options }: MessageToEnqueue,
  at: number,
): Promise<DeliveredMessage> {
  const what = `messages[${at}]`
  const row = await readMessage(rules, queue, { payload, options }, { payload: `${what}.payload`, options: what })
  const nowUs = Date.now() * 1_000
  const claimed = { ...row, id: String(at + 1), slot: null, attempt: 0, dueUs: nowUs, enqueuedUs: nowUs }
  const message = new DeliveredMessage(queue, claimed)
  const checked = await validatePayload(rules.definitions?.[queue], message.payload)
  if ('issues' in checked) throw expected('PAYLOAD_SCHEMA', `${what}.payload`, 'what the schema takes', checked.issues)
  message.accept(checked.value)
  return message
}
