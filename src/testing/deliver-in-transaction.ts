import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { CallTime } from '../handle/call-time.ts'
import type { AnyHandler } from '../handle/consumption.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import { toOutcome } from '../handle/to-outcome.ts'
import { MessageTransaction } from '../handle/transaction/message-transaction.ts'
import type { Outcome } from '../message.ts'
import type { SluiceInternals } from '../process/internals.ts'
import { type QueueDefinition, validatePayload } from '../queues.ts'
import { BatchConnection } from '../transaction/batch-connection.ts'

/** A handler. The overloads of `deliver` have checked the types of its context and payload. */
export type Handle = Extract<AnyHandler, { readonly kind: 'each' }>['handle']

/** Gives messages to a handler in one transaction, which commits unless the handler throws. */
export async function deliverInTransaction(
  { enqueueIn, pools }: SluiceInternals,
  definition: QueueDefinition | undefined,
  handle: Handle,
  messages: readonly DeliveredMessage[],
): Promise<readonly Outcome[]> {
  for (const [at, message] of messages.entries()) {
    message.accept(await validatePayload(definition, message.payload, `messages[${at}].payload`))
  }
  const { connections } = await pools()
  const connection = await BatchConnection.acquire(connections.calls)
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
  const outcome = toOutcome(await handle(message.handed, tx.context(new CallTime(), message.attempt)))
  if (tx.unfinished) await tx.finished()
  await (outcome.kind === 'retryLater' || outcome.kind === 'deadLetter' ? tx.undo() : tx.keep())
  return outcome
}
