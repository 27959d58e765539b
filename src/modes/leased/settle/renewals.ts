import type { LeasedMessage } from '../leased-message.ts'

/** Which leases are in flight, and when they are to be renewed: in the second half of their time. */
export class Renewals {
  readonly #leaseMs: number
  readonly #renew: (old: readonly LeasedMessage[]) => void
  readonly #held = new Map<string, LeasedMessage>()
  #timer: NodeJS.Timeout | undefined
  #everyMs = Number.POSITIVE_INFINITY

  constructor(leaseMs: number, renew: (old: readonly LeasedMessage[]) => void) {
    this.#leaseMs = leaseMs
    this.#renew = renew
  }

  /** A message that is in flight already has been lost, and claimed again. */
  add(messages: readonly LeasedMessage[]): void {
    for (const leased of messages) {
      this.#held.get(leased.id)?.lose()
      this.#held.set(leased.id, leased)
    }
    this.#passEvery(Math.min(this.#leaseMs, ...messages.map(({ leaseMs }) => leaseMs)) / 8)
  }

  get(id: string): LeasedMessage | undefined {
    return this.#held.get(id)
  }

  delete(leased: LeasedMessage): void {
    if (this.#held.get(leased.id) === leased) this.#held.delete(leased.id)
    if (this.#held.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#everyMs = Number.POSITIVE_INFINITY
  }

  /** As often as the shortest of the leases needs it, until none is in flight. */
  #passEvery(ms: number): void {
    if (ms >= this.#everyMs) return
    clearInterval(this.#timer)
    this.#everyMs = ms
    this.#timer = setInterval(() => this.#pass(), ms)
  }

  #pass(): void {
    const nowMs = performance.now()
    // The database may be out of reach: then no answer says so.
    for (const leased of this.#held.values()) if (leased.hasRunOut) leased.lose()
    const old = [...this.#held.values()].filter((leased) => leased.isOld(nowMs))
    if (old.length > 0) this.#renew(old)
  }
}
