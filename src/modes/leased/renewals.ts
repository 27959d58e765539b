import type { LeasedMessage } from './leased-message.ts'

/** Which leases are in hand, and when they are to be renewed: in the second half of their time. */
export class Renewals {
  readonly #leaseMs: number
  readonly #renew: (old: readonly LeasedMessage[]) => void
  readonly #held = new Map<string, LeasedMessage>()
  #timer: NodeJS.Timeout | undefined

  constructor(leaseMs: number, renew: (old: readonly LeasedMessage[]) => void) {
    this.#leaseMs = leaseMs
    this.#renew = renew
  }

  /** A message that is in hand already has been lost, and claimed again. */
  add(messages: readonly LeasedMessage[]): void {
    for (const leased of messages) {
      this.#held.get(leased.id)?.lose()
      this.#held.set(leased.id, leased)
    }
    this.#timer ??= setInterval(() => this.#pass(), this.#leaseMs / 8)
  }

  delete(leased: LeasedMessage): void {
    if (this.#held.get(leased.id) === leased) this.#held.delete(leased.id)
    if (this.#held.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #pass(): void {
    const nowMs = performance.now()
    // The database may be out of reach: then no answer says so.
    for (const leased of this.#held.values()) if (leased.hasRunOut) leased.lose()
    const old = [...this.#held.values()].filter((leased) => leased.isOld(nowMs))
    if (old.length > 0) this.#renew(old)
  }
}
