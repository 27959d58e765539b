import { pause } from '../basics/pause.ts'
import type { Control } from '../connection/control.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import { claimLocked } from '../table/claim/claim-locked.ts'
import type { Lease } from '../table/claim/lease.ts'
import { leasePermits, lockPermits, lockShares, type Prepared, returnTokens } from '../table/limit/limits.ts'
import type { Execute } from '../table/statement.ts'
import { refuseGroupQueue } from '../table/stream/group-queue.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import type { TransactionLimit } from '../transaction/transaction-settings.ts'
import type { Admission, Nothing, Senders } from './admission.ts'
import type { ClaimAnswer, SentClaim } from './claim-answer.ts'
import { hasExpired } from './has-expired.ts'

export interface AllowanceOptions {
  readonly queue: string
  readonly control: Pick<Control, 'execute'>
  /** Hears what a claim has found. Returns whether to claim again at once, if nothing of it is handled. */
  readonly claimed: (found: number, isHandled: boolean, ofTenants: boolean) => boolean
}

/** What a claim of a queue with limits may take. Tokens that it does not use go back. */
export class Allowance implements Admission {
  readonly isSingle = true
  readonly #prepared: Prepared & { readonly granted: number }
  readonly #options: AllowanceOptions
  #used: readonly ClaimedRow[] = []

  constructor(options: AllowanceOptions, prepared: Prepared & { readonly granted: number }) {
    this.#options = options
    this.#prepared = prepared
  }

  /** Locks the permits first, and of tenants the messages. */
  async begin<Sent>(
    connection: BatchConnection,
    limit: TransactionLimit,
    { open, given }: Senders<Sent>,
  ): Promise<Sent | Nothing> {
    const { execute } = connection
    connection.begin(limit)
    const { most, ids } = await this.#lock(execute)
    if (most > 0 && ids === undefined) return open(most)
    if (most > 0 && ids !== undefined && ids.length > 0) return given(most, (lease) => this.#claim(execute, ids, lease))
    await connection.rollback()
    return this.#nothing(0)
  }

  nothing({ rows, nextDueMs, partial }: ClaimAnswer): Nothing {
    // What was found, and is not handled because the pipeline pauses or ends, says nothing about the tenants.
    const missed = rows.length === 0 && this.#nothing(0).partial
    return { kind: 'sleep', nextDueMs, partial: partial || missed }
  }

  /** The transaction would keep permits that it has no messages for. */
  goesBack({ rows }: ClaimAnswer, { most = rows.length }: SentClaim): Nothing | undefined {
    return this.#prepared.takesPermits && rows.length < most ? this.#nothing(rows.length) : undefined
  }

  async lease({ execute }: BatchConnection, rows: readonly ClaimedRow[], lease: string): Promise<void> {
    if (!this.#prepared.takesPermits) return
    const ids = rows.map(({ id }) => id)
    await leasePermits(execute, this.#options.queue, ids, lease)
  }

  /** What a claim has found begins, but for messages whose life had ended by then. */
  took({ rows, nowUs }: ClaimAnswer): void {
    this.#options.claimed(rows.length, true, this.#ofTenants)
    this.#used = [...this.#used, ...rows.filter((row) => !hasExpired(row, nowUs))]
  }

  /** Nothing waits for what it gives back, and what cannot be given back is lost. */
  close(): void {
    if (this.#prepared.takesTokens) void this.#giveBack(this.#unused).catch(() => undefined)
  }

  #nothing(found: number): Nothing {
    return { kind: 'sleep', nextDueMs: null, partial: this.#options.claimed(found, false, this.#ofTenants) }
  }

  get #ofTenants(): boolean {
    return this.#prepared.shares !== undefined
  }

  async #lock(execute: Execute): Promise<Locked> {
    const { queue } = this.#options
    const { granted, takesPermits, shares } = this.#prepared
    if (shares === undefined) return { most: takesPermits ? await lockPermits(execute, queue, granted) : granted }
    const { ids, surplus } = await lockShares(execute, queue, granted, shares)
    return { most: ids.length + (surplus ? 1 : 0), ids }
  }

  /** The messages that are locked, and their leases, as a claim that has found them. */
  async #claim(execute: Execute, ids: readonly string[], lease?: Lease): Promise<ClaimAnswer> {
    const sentAtMs = performance.now()
    const { queue } = this.#options
    // Behind the claim: see Claimer.
    const [claim] = await Promise.all([claimLocked(execute, queue, ids, lease), refuseGroupQueue(execute, queue)])
    const answeredAtMs = performance.now()
    return {
      ...claim,
      kind: 'unkeyed',
      sentAtMs,
      answeredAtMs,
      full: true,
      nextDueMs: null,
      partial: false,
      void: false,
    }
  }

  get #unused(): ReadonlyMap<string, number> {
    const { granted, shares } = this.#prepared
    const left = new Map([...(shares ?? []), ['', granted - this.#used.length]])
    for (const { options } of this.#used) {
      const tenant = options?.tenant
      if (typeof tenant === 'string' && left.has(tenant)) left.set(tenant, (left.get(tenant) ?? 0) - 1)
    }
    return new Map([...left].filter(([, count]) => count > 0))
  }

  async #giveBack(unused: ReadonlyMap<string, number>): Promise<void> {
    const { control, queue } = this.#options
    let left = unused
    for (let tries = 0; left.size > 0 && tries < MOST_TRIES; tries += 1) {
      if (tries > 0) await pause(tries)
      const busy = await returnTokens(control.execute, queue, left)
      left = new Map([...left].filter(([tenant]) => busy.includes(tenant)))
    }
  }
}

/** What a transaction has locked for its claim. */
interface Locked {
  /** The messages that it may take, by its permits: with fewer, some are left over. */
  readonly most: number
  /** The messages, where they are locked already. */
  readonly ids?: readonly string[]
}

const MOST_TRIES = 10
