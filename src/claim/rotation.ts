/**
 * Claims in a row that find nothing and go round the tenants of a queue. Each looks at some of them, so how long all of them
 * have to wait is known when they have been all round.
 */
export class Rotation {
  /** How many hints there had been when it began: a later one may be of a tenant that it has passed. */
  readonly hints: number
  #from: string | undefined
  /** When the first tenant may go on, and behind which tenant the claim began that has met it. */
  #firstAtMs = Number.POSITIVE_INFINITY
  #firstFrom: string | undefined

  constructor(hints: number) {
    this.hints = hints
  }

  /** The tenant behind which it began; undefined: no claim has said where. */
  get from(): string | undefined {
    return this.#from
  }

  /** A claim that began behind `from` has met tenants that wait for so long; undefined: no clock tells. */
  passed(from: string | undefined, waitMs = Number.POSITIVE_INFINITY): void {
    this.#from ??= from
    const atMs = performance.now() + waitMs
    if (atMs >= this.#firstAtMs) return
    this.#firstAtMs = atMs
    this.#firstFrom = from
  }

  /** Behind which tenant a claim begins that meets the first one that may go on. */
  get firstFrom(): string | undefined {
    return this.#firstFrom
  }

  /** In how many milliseconds that is; undefined: no clock tells. */
  get waitMs(): number | undefined {
    return this.#firstAtMs === Number.POSITIVE_INFINITY ? undefined : Math.max(0, this.#firstAtMs - performance.now())
  }
}
