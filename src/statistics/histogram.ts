/**
 * Counts durations in buckets, sixteen for each doubling from 1 µs to 2 years, so that what it says of them is at most
 * 3.2 % wrong. To count one takes some nanoseconds and no memory.
 */
export class Histogram {
  readonly #counts = new Uint32Array(BUCKETS)
  #count = 0
  #sumMs = 0
  #maxMs = 0

  get count(): number {
    return this.#count
  }

  get meanMs(): number {
    return this.#count === 0 ? 0 : this.#sumMs / this.#count
  }

  get maxMs(): number {
    return this.#maxMs
  }

  /** @param ms negative counts as 0: two clocks may differ */
  add(ms: number): void {
    const known = ms > 0 ? ms : 0
    this.#counts[bucketOf(known)]! += 1
    this.#count += 1
    this.#sumMs += known
    if (known > this.#maxMs) this.#maxMs = known
  }

  addAll(other: Histogram): void {
    for (const [at, count] of other.#counts.entries()) this.#counts[at]! += count
    this.#count += other.#count
    this.#sumMs += other.#sumMs
    this.#maxMs = Math.max(this.#maxMs, other.#maxMs)
  }

  /** The duration that this fraction of all, 0 to 1, does not exceed; 0 if there are none. */
  quantileMs(share: number): number {
    const rank = Math.max(1, Math.ceil(this.#count * share))
    let seen = 0
    for (const [at, count] of this.#counts.entries()) {
      seen += count
      if (seen >= rank && count > 0) return Math.min(middleOf(at), this.#maxMs)
    }
    return 0
  }

  get sumMs(): number {
    return this.#sumMs
  }

  /** How many are in each quarter of a doubling from 2^-10 ms on, of those that are not empty. */
  get quarters(): Readonly<Record<number, number>> {
    const quarters: Record<number, number> = {}
    for (const [at, count] of this.#counts.entries())
      if (count > 0) quarters[at >> 2] = (quarters[at >> 2] ?? 0) + count
    return quarters
  }

  clear(): void {
    this.#counts.fill(0)
    this.#count = 0
    this.#sumMs = 0
    this.#maxMs = 0
  }
}

/**
 * The upper half of a double: a sign, eleven bits of exponent, twenty of the fraction. Without its lower sixteen bits it is
 * the number of a bucket: four bits of the fraction make sixteen for each exponent.
 */
const scratch = new Float64Array(1)
const halves = new Uint32Array(scratch.buffer)
scratch[0] = 1
const UPPER = halves[1] === 0 ? 0 : 1

const LEAST_EXPONENT = -10
const MOST_EXPONENT = 36
const FIRST = (1_023 + LEAST_EXPONENT) << 4
const BUCKETS = (MOST_EXPONENT - LEAST_EXPONENT) << 4

function bucketOf(ms: number): number {
  scratch[0] = ms
  const at = (halves[UPPER]! >>> 16) - FIRST
  return at < 0 ? 0 : at < BUCKETS ? at : BUCKETS - 1
}

function middleOf(bucket: number): number {
  return 2 ** ((bucket >> 4) + LEAST_EXPONENT) * (1 + ((bucket & 15) + 0.5) / 16)
}
