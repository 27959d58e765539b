import type { QueueDefinitions, QueueName } from '../queues.ts'
import { type InFlightMessage, readInFlight, readWorkers, type WorkerStatus } from '../table/operate/worker-status.ts'
import type { Operations } from './operations.ts'
import { limit, readFields } from './options.ts'

/** `sluice.operate.workers` */
export type Workers<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Worker processes in the order in which they started. A worker that vanished is listed until another one notices it.
   *
   * @param options.queue only those that consume this queue.
   * @throws SluiceError as {@link Operate}
   */
  list(options?: { readonly queue?: QueueName<Definitions> }): Promise<readonly WorkerStatus[]>

  /**
   * Lists the messages that workers and claims have in flight, the longest-running first.
   *
   * @param options.queue only of this queue.
   * @param options.limit 1 to 10,000. @default 100
   * @throws SluiceError as {@link Operate}
   */
  inFlight(options?: {
    readonly queue?: QueueName<Definitions>
    readonly limit?: number
  }): Promise<readonly InFlightMessage[]>
}

/** Answers the calls of {@link Workers}. */
export class WorkersInDatabase implements Workers {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async list(options: { readonly queue?: string } = {}): Promise<readonly WorkerStatus[]> {
    const readers = { queue: this.#operations.queueOrNull }
    const { queue } = readFields('workers.list', options, readers, "As in workers.list({ queue: 'emails' })")
    return this.#operations.count((execute) => readWorkers(execute, queue))
  }

  async inFlight(
    options: { readonly queue?: string; readonly limit?: number } = {},
  ): Promise<readonly InFlightMessage[]> {
    const readers = { queue: this.#operations.queueOrNull, limit: limit(100) }
    const page = readFields('workers.inFlight', options, readers, "As in workers.inFlight({ queue: 'emails' })")
    return this.#operations.count((execute) => readInFlight(execute, page.queue, page.limit))
  }
}
