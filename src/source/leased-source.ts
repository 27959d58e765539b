import type { Admission, Admitted, AdmittedDemand, Nothing } from '../claim/admission.ts'
import type { ClaimAnswer, SentClaim } from '../claim/claim-answer.ts'
import { Claimer } from '../claim/claimer.ts'
import { Limiter } from '../claim/limiter.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { LeasedPlan } from '../plan/options.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import { leaseOf } from '../table/claim/lease.ts'
import { groupQueueCheck } from '../table/stream/group-queue.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import { WITHOUT_DISK } from '../transaction/transaction-settings.ts'
import type { SourceRuntime } from './rules-of.ts'
import type { Source } from './source.ts'

/** A claim on its way, and the number under which it records what it leases. */
export interface SentLease {
  readonly batchId: number
  readonly lease: string
  readonly claim: SentClaim
}

/** The messages of a queue: a short transaction leases them, and they are settled as long as the lease is theirs. */
export class LeasedSource implements Source<SentLease> {
  readonly #runtime: LeasingRuntime
  readonly #plan: LeasedPlan
  readonly #claimer: Claimer
  readonly #limiter: Limiter

  constructor(runtime: LeasingRuntime, plan: LeasedPlan) {
    const { queue, batchSize } = plan
    const { control, settings } = runtime
    this.#runtime = runtime
    this.#plan = plan
    this.#limiter = new Limiter(queue, control, settings)
    const check = groupQueueCheck(queue)
    this.#claimer = new Claimer({ queue, batchSize, concurrency: 1, ordered: false }, control, check)
  }

  admit(demand: AdmittedDemand, most: number): Promise<Admission | Nothing> {
    return this.#limiter.admit(demand, most, 1)
  }

  send(connection: BatchConnection, terms: Admitted = {}): SentLease {
    const { inHand, serverVersion } = this.#runtime
    const batchId = inHand.reserve()
    const lease = leaseOf(inHand.workerId, batchId)
    connection.sendSoon(WITHOUT_DISK)
    const written = { lease, ms: this.#plan.leaseMs, serverVersion: serverVersion() }
    return { batchId, lease, claim: this.#claimer.send(connection, { ...terms, lease: written }) }
  }

  take(connection: BatchConnection, { claim }: SentLease): Promise<ClaimAnswer> {
    return this.#claimer.take(connection, claim)
  }

  unsend(sent: SentLease | undefined): void {
    this.#claimer.unsend(sent?.claim)
  }

  release(rows: readonly ClaimedRow[]): void {
    this.#claimer.release(rows)
  }

  /** Whether the end of a message may let another one be claimed: the next of its key, or one that waits for its permit. */
  opens({ slot }: ClaimedRow): boolean {
    return slot !== null || this.#limiter.hasPermits
  }
}

type LeasingRuntime = SourceRuntime & { readonly inHand: Pick<InHand, 'reserve' | 'workerId'> }
