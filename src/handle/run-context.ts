import type { EnqueueOptions } from '../enqueue/options.ts'
import type { HandlerTransaction } from './transaction/message-transaction.ts'

/** What a handler gets from the pipeline, without the types of the user's queues. */
export interface RunContext {
  readonly tx: HandlerTransaction
  readonly signal: AbortSignal
  /** Undefined for a handler of whole batches. */
  readonly attempt: number | undefined
  readonly enqueue: (queue: string, payload: unknown, options?: EnqueueOptions) => Promise<string>
}

/** Enqueues in a handler's transaction. */
export type EnqueueIn = (
  tx: HandlerTransaction,
  queue: string,
  payload: unknown,
  options?: EnqueueOptions,
) => Promise<string>

/** `turn`: its signal is made when it is first asked for, because most handlers never do. */
export function runContext(
  tx: HandlerTransaction,
  turn: { readonly signal: AbortSignal },
  attempt: number | undefined,
  enqueue: EnqueueIn,
): RunContext {
  return {
    tx,
    attempt,
    enqueue: (queue, payload, options) => enqueue(tx, queue, payload, options),
    get signal() {
      return turn.signal
    },
  }
}
