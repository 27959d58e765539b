import { Backoff } from '../basics/time/backoff.ts'
import type { Control } from '../connection/control.ts'
import type { Settings } from '../settings/settings.ts'
import { scanQueue } from '../table/claim/queue-scan.ts'
import { type Prepared, prepareClaim, type Turn } from '../table/limit/limits.ts'
import { type Admission, type AdmittedDemand, type Nothing, UNLIMITED } from './admission.ts'
import { Allowance, type Allowed, type AllowedBy, type ClaimedOf } from './allowance.ts'
import { Rotation } from './rotation.ts'

/**
 * Asks, before each claim of a queue with limits, what it may take. A queue without limits is never asked about. While
 * a bucket is empty it does not ask either: it asks again when there is a token. Where all tenants have to wait it goes round
 * them once, and asks again when the first one may go on.
 */
export class Limiter implements AllowedBy {
  readonly queue: string
  readonly control: Pick<Control, 'execute'>
  readonly #settings: Settings
  /** Until when the bucket is empty. */
  #emptyUntilMs = 0
  /** While others have locked what a claim needs. */
  readonly #backoff = new Backoff(2, 100)
  /** How many messages the last claim found, if fewer than its permits. */
  #found: number | undefined
  #watching = false
  /** The tenant where the next claim begins; the first claim begins where the queue's last one ended. */
  #turn: Turn | undefined
  /** While claims find nothing and have not been round all tenants. */
  #rotation: Rotation | undefined
  /** How many claims in a row found nothing of the tenants chosen for them. */
  #missed = 0

  constructor(queue: string, control: Pick<Control, 'execute'>, settings: Settings) {
    this.queue = queue
    this.control = control
    this.#settings = settings
  }

  /** Whether anything bounds the queue. */
  get active(): boolean {
    const { rate, tenantRate } = this.#limits
    return rate !== null || tenantRate !== null || this.hasPermits
  }

  /** Whether the queue has permits: a message that ends makes room for another one. */
  get hasPermits(): boolean {
    const { concurrency, tenantConcurrency } = this.#limits
    return concurrency !== null || tenantConcurrency !== null
  }

  /**
   * Permission for a claim of up to `most` messages.
   *
   * @param runners how many batches the pipeline may have in flight now: they share a limit of messages in flight
   */
  async admit(demand: AdmittedDemand, most: number, runners: number): Promise<Admission | Nothing> {
    if (!this.active) return UNLIMITED
    this.#watch(demand)
    demand.sent()
    try {
      const emptyMs = this.#emptyUntilMs - performance.now()
      if (emptyMs > 0) return nothingIn(emptyMs)
      return await this.#prepare(demand, this.#share(most, runners))
    } finally {
      demand.answered()
    }
  }

  async #prepare({ hints }: AdmittedDemand, most: number): Promise<Admission | Nothing> {
    const { control, queue } = this
    const from = this.#turn
    const rotation = this.#rotation?.hints === hints ? this.#rotation : new Rotation(hints)
    this.#rotation = rotation
    const prepared = await prepareClaim(control.execute, queue, most, from, rotation.from)
    const { granted, turn, keyed } = prepared
    if (granted === undefined) return UNLIMITED
    this.#turn = turn ?? this.#turn
    if (prepared.waitMs !== 0) this.#backoff.reset()
    if (granted > 0 && keyed === undefined) this.#rotation = undefined
    const waitMs = granted === 0 || keyed === 'only' ? this.#waitMs(prepared, rotation, from) : undefined
    if (granted > 0) return new Allowance(this, { ...prepared, waitMs, granted, from })
    if (waitMs !== undefined && (turn === undefined || waitMs <= STEP_MS)) return nothingIn(waitMs)
    return nothingIn(await this.#nextDueMs(waitMs))
  }

  /** In how many milliseconds something may be claimed again; undefined: no clock tells. */
  #waitMs({ waitMs, turn, roundFrom }: Prepared, rotation: Rotation, from: Turn | undefined): number | undefined {
    const inMs = waitMs === 0 ? this.#backoff.next() : waitMs
    // A tenant without tokens keeps no other tenant from theirs.
    if (turn === undefined && inMs !== undefined) this.#emptyUntilMs = performance.now() + inMs
    // While others have locked what a claim needs, nothing is known of its tenant.
    if (waitMs === 0) this.#rotation = undefined
    if (turn === undefined || waitMs === 0) return inMs
    rotation.passed(from?.turn ?? roundFrom, inMs)
    // Another claim may have found something meanwhile.
    if (roundFrom !== undefined || rotation !== this.#rotation) return Math.min(inMs ?? STEP_MS, STEP_MS)
    this.#rotation = undefined
    this.#turn = { ...turn, turn: rotation.firstFrom ?? turn.turn }
    return rotation.waitMs
  }

  /** A message of another tenant may fall due before those that wait may go on: it is then claimed at once, or soon. */
  async #nextDueMs(waitMs: number | undefined): Promise<number | null> {
    const { nextDueMs } = await scanQueue(this.control.execute, this.queue)
    if (waitMs === undefined || nextDueMs === null) return waitMs ?? nextDueMs
    return Math.min(waitMs, Math.max(STEP_MS, nextDueMs))
  }

  /**
   * Records how many messages a claim under an allowance found. If it found fewer than it had permits, these are free
   * again, and the next claim is for that many. If it found none, the next tenants may have some.
   *
   * @returns whether to claim again at once, if nothing is handled of this claim
   */
  claimed(found: number, isHandled: boolean, of: ClaimedOf): boolean {
    if (isHandled) {
      this.#missed = 0
      return false
    }
    if (found > 0) this.#found = found
    // Found but not handled: they keep their turn. Not found: it is over, also after a claim of them alone. Otherwise the next
    // claim would be theirs again, and never reach the tenants.
    if (of === 'keys' && this.#turn !== undefined) this.#turn = { ...this.#turn, beside: found > 0 ? 0 : undefined }
    this.#missed = found === 0 && of === 'tenants' ? this.#missed + 1 : 0
    return found > 0 || (this.#missed > 0 && this.#missed <= MOST_MISSED)
  }

  /** What it has handled may have kept a permit from a tenant that was passed meanwhile. */
  ended(): void {
    this.#rotation = undefined
  }

  keepTurn({ turn, from }: Allowed): void {
    // Another claim may have moved it on since.
    if (turn !== undefined && this.#turn === turn) this.#turn = from
  }

  /** One batch with all permits would handle its messages one after another, and leave none to other runners. */
  #share(most: number, runners: number): number {
    const { concurrency } = this.#limits
    const share = concurrency === null ? most : Math.max(1, Math.floor(concurrency / runners))
    const found = this.#found ?? most
    this.#found = undefined
    return Math.max(1, Math.min(most, share, found))
  }

  get #limits() {
    return this.#settings.of(this.queue)
  }

  #watch(demand: AdmittedDemand): void {
    if (this.#watching) return
    this.#watching = true
    const unwatch = this.#settings.watch(this.queue, () => {
      this.#emptyUntilMs = 0
      demand.opened()
    })
    demand.draining.addEventListener('abort', unwatch, { once: true })
  }
}

function nothingIn(nextDueMs: number | null): Nothing {
  return { kind: 'sleep', nextDueMs, partial: false }
}

/**
 * A claim passes 200 tenants that have to wait, and the next one goes on there after this time. Each poll begins a new round,
 * as other hints do: among more than 2,000 tenants, with a poll per second, it is never known how long all of them wait.
 */
const STEP_MS = 100
/** How many claims in a row may find nothing, because others are faster, before the process waits. */
const MOST_MISSED = 3
