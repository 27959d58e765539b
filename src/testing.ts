// For users' tests: the real queue on a real database, without mocks and without waiting.

import type { OpenTransaction } from './enqueue/open-transaction.ts'
import { executorOf } from './enqueue/transaction.ts'
import { expected, SluiceError } from './errors.ts'
import { RunnablePipeline } from './pipeline/pipeline.ts'
import { SettledCollector, type SettledMessages } from './settle/settled-messages.ts'
import { type EnqueuedMessage, enqueuedHere } from './table/enqueue/enqueued.ts'
import { type AppendedEvent, appendedHere } from './table/stream/appended.ts'

export type { SettledMessage, SettledMessages } from './settle/settled-messages.ts'
export type { EnqueuedMessage } from './table/enqueue/enqueued.ts'
export type { AppendedEvent } from './table/stream/appended.ts'
export { type AdvanceOptions, advance } from './testing/advance.ts'
export { clearQueue } from './testing/clear-queue.ts'
export {
  type ConformanceCase,
  type ConformanceSubject,
  conformance,
  type PublishedMessage,
} from './testing/conformance.ts'
export { deliver, type GroupDeliverOptions, type LeasedDeliverOptions } from './testing/deliver.ts'
export { type Answer, MemoryDestination } from './testing/memory-destination.ts'
export { type MemoryMessage, MemoryReceiver } from './testing/memory-receiver.ts'
export {
  type MessageToPublish,
  type ReceiverCase,
  type ReceiverSubject,
  receiverConformance,
} from './testing/receiver-conformance.ts'

/** After this many rounds `runDue` gives up: handlers that enqueue for one another may never finish. */
const MOST_ROUNDS = 1_000

/**
 * Handles everything that is due now in the given pipelines, including what their handlers enqueue for one another, and
 * returns the outcome of each message, as `runOnce` does.
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
 * The messages that have been enqueued so far in an open transaction, in order.
 *
 * @param tx what `sluice.enqueue` takes
 * @example expect(await enqueuedIn(tx)).toMatchObject([{ queue: 'emails', payload: { to: 'ada@example.com' } }])
 */
export async function enqueuedIn(tx: OpenTransaction): Promise<readonly EnqueuedMessage[]> {
  return enqueuedHere(await executorOf(tx))
}

/**
 * The events that have been appended so far in an open transaction, by stream, in order.
 *
 * @param tx what `sluice.append` takes
 * @example expect(await appendedIn(tx)).toMatchObject([{ stream: 'orders', payload: { id: 7 } }])
 */
export async function appendedIn(tx: OpenTransaction): Promise<readonly AppendedEvent[]> {
  return appendedHere(await executorOf(tx))
}
