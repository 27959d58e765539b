import type { Duration } from '../../basics/time/duration.ts'
import type { Message, Outcome } from '../../message.ts'
import type { Claim, ClaimSettlement } from '../../pull/claim.ts'
import type { ClaimStore } from '../../pull/claim-store.ts'
import type { OutputOf, QueueDefinitions, QueueName } from '../../queues.ts'
import { type ClaimStatus, readClaims } from '../../table/operate/messages/claim-status.ts'
import type { Operations } from '../operations.ts'
import { limit, readFields } from '../options.ts'

/** `sluice.operate.claims`: claims by their ids, without a {@link Claim} object. */
export type Claims<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Lists the claims that have not expired, by queue and id.
   *
   * @param options.queue only of this queue.
   * @param options.limit 1 to 10,000. @default 100
   * @throws SluiceError as {@link Operate}
   */
  list(options?: { readonly queue?: QueueName<Definitions>; readonly limit?: number }): Promise<readonly ClaimStatus[]>

  /**
   * Reads a claim with its messages that are not settled yet.
   *
   * @throws SluiceError CLAIM_OVER, CLAIM_UNKNOWN, and as {@link Operate}
   */
  get<Name extends QueueName<Definitions>>(queue: Name, id: string): Promise<Claim<OutputOf<Definitions, Name>>>

  /**
   * Makes a claim last for `lease` from now, and its messages live until `grace` after that. Both default to their last
   * values.
   *
   * @returns when it ends.
   * @throws SluiceError as {@link get}
   */
  renew(queue: QueueName<Definitions>, id: string, lease?: Duration, grace?: Duration): Promise<Date>

  /**
   * Releases the messages of a claim in their old order, without counting an attempt. It ignores a claim that is unknown
   * or over.
   *
   * @returns how many messages.
   * @throws SluiceError as {@link Operate}
   */
  release(queue: QueueName<Definitions>, id: string): Promise<number>

  /**
   * Settles messages of a claim, all with the same outcome; `ack()` if none is given.
   *
   * @param which messages, or their ids.
   * @throws SluiceError as {@link get}
   *
   * @example await sluice.operate.claims.settle('emails', claimId, ['4711'], retryLater())
   */
  settle(
    queue: QueueName<Definitions>,
    id: string,
    which: Message | string | readonly (Message | string)[],
    outcome?: Outcome,
  ): Promise<ClaimSettlement>
}

/** Answers the calls of {@link Claims}. */
export class ClaimsInDatabase implements Claims {
  readonly #operations: Operations
  readonly #store: ClaimStore

  constructor(operations: Operations, store: ClaimStore) {
    this.#operations = operations
    this.#store = store
  }

  async list(options: { readonly queue?: string; readonly limit?: number } = {}): Promise<readonly ClaimStatus[]> {
    const readers = { queue: this.#operations.queueOrNull, limit: limit(100) }
    const page = readFields('claims.list', options, readers, "As in claims.list({ queue: 'emails' })")
    return this.#operations.count((execute) => readClaims(execute, page.queue, page.limit))
  }

  async get<Name extends string>(queue: Name, id: string): Promise<Claim<OutputOf<undefined, Name>>> {
    return (await this.#store.get(queue, id)) as Claim<OutputOf<undefined, Name>>
  }

  async renew(queue: string, id: string, lease?: Duration, grace?: Duration): Promise<Date> {
    return this.#store.renew(queue, id, lease, grace)
  }

  async release(queue: string, id: string): Promise<number> {
    return this.#store.release(queue, id)
  }

  async settle(
    queue: string,
    id: string,
    which: Message | string | readonly (Message | string)[],
    outcome?: Outcome,
  ): Promise<ClaimSettlement> {
    return this.#store.settle(queue, id, which, outcome)
  }
}
