import type { CallTime } from './call-time.ts'
import type { StatementSender } from './deadline.ts'
import type { RunContext } from './run-context.ts'

/**
 * What one call of a handler runs in, lent to it by the mode. In transactional mode it is a savepoint of the batch's
 * transaction. {@link keep} or {@link undo} ends it.
 */
export interface Attempt extends StatementSender {
  /** What the handler gets. `attempt`: which try of its message this is; undefined for a handler of whole batches. */
  context(time: CallTime, attempt: number | undefined): RunContext
  /** Why nothing can come of it any more. */
  readonly lost: Error | undefined
  /** Whether something of the handler's runs on the server. */
  readonly busy: boolean
  /** Nothing of the handler's has reached the server, or is on its way there: there is nothing to keep or to undo. */
  readonly unused: boolean
  /** Its messages are settled already, whatever the handler does. */
  readonly committed: boolean
  /** The handler has returned: whether it has begun something that it did not await. */
  readonly unfinished: boolean
  /** Waits for what a handler that has returned did not await. @throws the error of an enqueue among it */
  finished(): Promise<void>
  /** From here on the handler's statements are refused. */
  close(): void
  /** Keeps what the handler wrote. @throws where that is not possible: then {@link undo} is due. */
  keep(): Promise<void>
  /** Takes back what the handler wrote. */
  undo(): Promise<void>
}
