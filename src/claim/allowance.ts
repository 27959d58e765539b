import { pause } from '../basics/time/pause.ts'
import type { Control } from '../connection/control.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import { leasePermits, lockPermits, lockShares, type Prepared, returnTokens, type Turn } from '../table/limit/limits.ts'
import type { Execute } from '../table/statement.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import type { TransactionLimit } from '../transaction/transaction-settings.ts'
import type { Admission, Admitted, Nothing } from './admission.ts'
import type { ClaimAnswer, SentClaim } from './claim-answer.ts'
import { hasExpired } from './has-expired.ts'

/** The source of an allowance: it records what a claim found, and says whether to claim again at once. */
export interface AllowedBy {
  readonly queue: string
  readonly control: Pick<Control, 'execute'>
  claimed(found: number, isHandled: boolean, of: ClaimedOf): boolean
  /** Nobody was looked at, so whoever had the turn keeps it. */
  keepTurn(allowed: Allowed): void
  /** The round of a claim is over: its messages are no longer in flight or, in leased mode, they are leased now. */
  ended(): void
}

/** What was prepared for a claim. */
export interface Allowed extends Prepared {
  readonly granted: number
  /** Where it began among the tenants. */
  readonly from: Turn | undefined
}

/** Whose messages a claim was for: those of the whole queue, those of tenants, or those with ordering keys beside tenants. */
export type ClaimedOf = 'queue' | 'tenants' | 'keys'

/** What a claim of a queue with limits may take. Tokens that it does not use go back. */
export class Allowance implements Admission {
  readonly isSingle = true
  readonly #prepared: Allowed
  readonly #limiter: AllowedBy
  #used: readonly ClaimedRow[] = []

  constructor(limiter: AllowedBy, prepared: Allowed) {
    this.#limiter = limiter
    this.#prepared = prepared
  }

  /** Locks the permits first and, for tenants, the messages. */
  async begin<Sent>(
    connection: BatchConnection,
    limit: TransactionLimit,
    send: (terms: Admitted) => Sent,
  ): Promise<Sent | Nothing> {
    connection.begin(limit)
    const { most, locked, kind } = await this.#lock(connection.execute)
    if (most > 0 && locked?.length !== 0) return send({ most, locked, kind })
    await connection.rollback()
    if (locked !== undefined) return this.#nothing(0)
    // Others have all permits.
    this.#limiter.keepTurn(this.#prepared)
    return { kind: 'sleep', nextDueMs: null, partial: false }
  }

  nothing({ rows, nextDueMs, partial }: ClaimAnswer): Nothing {
    const { keyed, waitMs } = this.#prepared
    // Messages that are not handled because the pipeline pauses or ends say nothing about the tenants.
    const missed = rows.length === 0 && this.#nothing(0).partial
    // The tenants have not been asked, or wait for longer than the messages with keys.
    const dueMs = keyed === undefined ? nextDueMs : earlier(nextDueMs, waitMs ?? null)
    return { kind: 'sleep', nextDueMs: dueMs, partial: partial || missed || (keyed === 'turn' && rows.length === 0) }
  }

  /** The transaction would keep permits without messages. */
  goesBack({ rows }: ClaimAnswer, { terms: { most = rows.length } }: SentClaim): Nothing | undefined {
    return this.#prepared.takesPermits && rows.length < most ? this.#nothing(rows.length) : undefined
  }

  async lease({ execute }: BatchConnection, rows: readonly ClaimedRow[], lease: string): Promise<void> {
    if (!this.#prepared.takesPermits) return
    const ids = rows.map(({ id }) => id)
    await leasePermits(execute, this.#limiter.queue, ids, lease)
  }

  /** The messages of a claim begin, except those that had expired by then. */
  took({ rows, nowUs }: ClaimAnswer): void {
    this.#limiter.claimed(rows.length, true, this.#of)
    this.#used = [...this.#used, ...rows.filter((row) => !hasExpired(row, nowUs))]
  }

  /** Nothing waits for the return of tokens, and tokens that cannot be returned are lost. */
  close(): void {
    if (this.#used.length > 0) this.#limiter.ended()
    if (this.#prepared.takesTokens) void this.#giveBack(this.#unused).catch(() => undefined)
  }

  #nothing(found: number): Nothing {
    return { kind: 'sleep', nextDueMs: null, partial: this.#limiter.claimed(found, false, this.#of) }
  }

  get #of(): ClaimedOf {
    const { shares, keyed } = this.#prepared
    if (keyed !== undefined) return 'keys'
    return shares === undefined ? 'queue' : 'tenants'
  }

  async #lock(execute: Execute): Promise<Admitted & { readonly most: number }> {
    const { queue } = this.#limiter
    const { granted, takesPermits, shares, keyed } = this.#prepared
    const kind = keyed === undefined ? undefined : 'keyed'
    if (shares === undefined) return { most: takesPermits ? await lockPermits(execute, queue, granted) : granted, kind }
    const { ids, surplus } = await lockShares(execute, queue, granted, shares)
    // With permits to spare, one more is asked for: the claim goes back.
    return { most: (ids?.length ?? 0) + (surplus ? 1 : 0), locked: ids }
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
    const { control, queue } = this.#limiter
    let left = unused
    for (let tries = 0; left.size > 0 && tries < MOST_TRIES; tries += 1) {
      if (tries > 0) await pause(tries)
      const busy = await returnTokens(control.execute, queue, left)
      left = new Map([...left].filter(([tenant]) => busy.includes(tenant)))
    }
  }
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b)
}

const MOST_TRIES = 10
