import { Backoff } from '../basics/backoff.ts'
import { pause } from '../basics/pause.ts'
import type { Control } from '../connection/control.ts'
import type { Settings } from '../settings/settings.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import { claimLocked } from '../table/claim/claim-locked.ts'
import type { Lease } from '../table/claim/lease.ts'
import { scanQueue } from '../table/claim/queue-scan.ts'
import { lockPermits, lockShares, type Prepared, prepareClaim, returnTokens, type Turn } from '../table/limit/limits.ts'
import type { Execute } from '../table/statement.ts'
import { refuseGroupQueue } from '../table/stream/group-queue.ts'
import type { ClaimAnswer } from './claim-answer.ts'
import { hasExpired } from './has-expired.ts'

export interface LimiterOptions {
  readonly queue: string
  readonly control: Pick<Control, 'execute'>
  readonly settings: Settings
}

/** To whoever claims: what it is to hear of a limit. */
export interface LimitedDemand {
  readonly draining: AbortSignal
  /** As before and after a claim. */
  sent(): void
  answered(): void
  /** The limits have changed: something may be claimed now. */
  opened(): void
}

/** Nothing may be claimed for now. */
export interface Refused {
  /** In how long something may be; null: no clock tells. */
  readonly nextDueMs: number | null
}

/**
 * Asks, before each claim of a queue with limits, what it may take. A queue without limits is never asked about. While a
 * bucket is empty nobody asks either: the next question comes when there is a token.
 */
export class Limiter {
  readonly #options: LimiterOptions
  /** Until when the bucket is empty. */
  #emptyUntilMs = 0
  /** While others have locked what a claim needs. */
  readonly #backoff = new Backoff(2, 100)
  /** The last claim found fewer messages than it had locked permits for. */
  #found: number | undefined
  #watching = false
  /** Where the next claim begins among the tenants; the first one, where the last claim of the queue ended. */
  #turn: Turn | undefined
  /** How many claims in a row found nothing of the tenants that they were to take from. */
  #missed = 0

  constructor(options: LimiterOptions) {
    this.#options = options
  }

  /** Whether anything bounds the queue. */
  get active(): boolean {
    const { rate, tenantRate } = this.#settings
    return rate !== null || tenantRate !== null || this.hasPermits
  }

  /** Whether the queue has permits: a message that ends makes room for another one. */
  get hasPermits(): boolean {
    const { concurrency, tenantConcurrency } = this.#settings
    return concurrency !== null || tenantConcurrency !== null
  }

  /**
   * What a claim of up to `most` messages may take.
   *
   * @param places how many batches the pipeline may have in flight now: they share a limit of messages in flight
   * @returns undefined if the queue has no limits
   */
  async allow(demand: LimitedDemand, most: number, places: number): Promise<Allowance | Refused | undefined> {
    if (!this.active) return undefined
    this.#watch(demand)
    demand.sent()
    try {
      const emptyMs = this.#emptyUntilMs - performance.now()
      return emptyMs > 0 ? { nextDueMs: emptyMs } : await this.#prepare(this.#share(most, places))
    } finally {
      demand.answered()
    }
  }

  /**
   * A claim has ended with nothing in hand. If it found messages, it had locked permits for more of them: they are free
   * again, and the next claim is for so many. If it found none, the next tenants may have some.
   *
   * @returns whether to claim again at once
   */
  again(allowed: Allowance, found: number): boolean {
    if (found > 0) this.#found = found
    this.#missed = found === 0 && allowed.shares !== undefined ? this.#missed + 1 : 0
    return found > 0 || (this.#missed > 0 && this.#missed <= MOST_MISSED)
  }

  /** A claim has found messages. */
  found(): void {
    this.#missed = 0
  }

  async #prepare(most: number): Promise<Allowance | Refused | undefined> {
    const { control, queue } = this.#options
    const prepared = await prepareClaim(control.execute, queue, most, this.#turn)
    const { granted, turn } = prepared
    if (granted === undefined) return undefined
    this.#turn = turn ?? this.#turn
    if (prepared.waitMs !== 0) this.#backoff.reset()
    if (granted > 0) return new Allowance(this.#options, { ...prepared, granted })
    if (prepared.waitMs === undefined) return scanQueue(control.execute, queue)
    const waitMs = prepared.waitMs > 0 ? prepared.waitMs : this.#backoff.next()
    // A tenant without tokens keeps nobody else from theirs.
    if (prepared.shares === undefined) this.#emptyUntilMs = performance.now() + waitMs
    return { nextDueMs: waitMs }
  }

  /** One batch with all permits would handle its messages one after another, and leave the other places without. */
  #share(most: number, places: number): number {
    const { concurrency } = this.#settings
    const share = concurrency === null ? most : Math.max(1, Math.floor(concurrency / places))
    const found = this.#found ?? most
    this.#found = undefined
    return Math.max(1, Math.min(most, share, found))
  }

  get #settings() {
    return this.#options.settings.of(this.#options.queue)
  }

  #watch(demand: LimitedDemand): void {
    if (this.#watching) return
    this.#watching = true
    const unwatch = this.#options.settings.watch(this.#options.queue, () => {
      this.#emptyUntilMs = 0
      demand.opened()
    })
    demand.draining.addEventListener('abort', unwatch, { once: true })
  }
}

/** What a claim may take. Tokens that it does not use go back. */
export class Allowance {
  readonly takesPermits: boolean
  readonly #prepared: Prepared & { readonly granted: number }
  readonly #options: LimiterOptions
  #used: readonly ClaimedRow[] = []

  constructor(options: LimiterOptions, prepared: Prepared & { readonly granted: number }) {
    this.#options = options
    this.#prepared = prepared
    this.takesPermits = prepared.takesPermits
  }

  /** How many messages of each tenant; undefined: tenants have no limits. */
  get shares(): ReadonlyMap<string, number> | undefined {
    return this.#prepared.shares
  }

  /** In the transaction that is to claim: locks the permits, and of tenants the messages. */
  async lock(execute: Execute): Promise<Locked> {
    const { queue } = this.#options
    const { granted, takesPermits, shares } = this.#prepared
    if (shares === undefined) return { most: takesPermits ? await lockPermits(execute, queue, granted) : granted }
    const { ids, surplus } = await lockShares(execute, queue, granted, shares)
    return { most: ids.length + (surplus ? 1 : 0), ids }
  }

  /** The messages that {@link lock} has locked, and their leases, as a claim that has found them. */
  async claim(execute: Execute, ids: readonly string[], lease?: Lease): Promise<ClaimAnswer> {
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

  /** What a claim has found begins, but for messages whose life had ended by then. */
  use({ rows, nowUs }: ClaimAnswer): void {
    this.#used = [...this.#used, ...rows.filter((row) => !hasExpired(row, nowUs))]
  }

  /** The claim is over. Nobody waits for what it gives back, and what cannot be given back is lost. */
  close(): void {
    if (this.#prepared.takesTokens) void this.#giveBack(this.#unused).catch(() => undefined)
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
export interface Locked {
  /** The messages that it may take, by its permits: with fewer, some are left over. */
  readonly most: number
  /** The messages, where they are locked already. */
  readonly ids?: readonly string[]
}

/** So many claims in a row may find nothing, because others are faster, before the process waits. */
const MOST_MISSED = 3

const MOST_TRIES = 10
