import type { DedupedOptions, EnqueueOptions } from '../enqueue/options.ts'
import type { EnqueueResult } from '../table/enqueue/insert-deduped.ts'
import type { HandlerTransaction } from './transaction/handler-transaction.ts'

/** What a handler gets from the mode of its pipeline, without the types of the user's queues. */
export type RunContext = TransactionalRunContext | LeasedRunContext

/** Enqueues in a handler's transaction. */
export type EnqueueIn = (
  tx: HandlerTransaction,
  queue: string,
  payload: unknown,
  options?: EnqueueOptions | DedupedOptions,
) => Promise<string | EnqueueResult>

/** The time of one call of a handler. Its signal is made when it is first asked for, because most handlers never do. */
export interface RunTurn {
  readonly signal: AbortSignal
  /** It has its whole time again. */
  restart(): void
}

interface TransactionalRunContext {
  readonly tx: HandlerTransaction
  readonly signal: AbortSignal
  /** Undefined for a handler of whole batches. */
  readonly attempt: number | undefined
  readonly enqueue: (
    queue: string,
    payload: unknown,
    options?: EnqueueOptions | DedupedOptions,
  ) => Promise<string | EnqueueResult>
}

export interface LeasedRunContext {
  readonly signal: AbortSignal
  readonly attempt: number | undefined
  readonly idempotencyKey: string | undefined
  readonly leaseUntil: Date
  readonly extend: () => Promise<void>
  readonly transaction: <T>(work: (tx: HandlerTransaction) => T | Promise<T>) => Promise<T>
}

export function transactionalContext(
  tx: HandlerTransaction,
  turn: RunTurn,
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
