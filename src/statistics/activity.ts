import { Histogram } from './histogram.ts'

/** How many messages were settled in which way. */
export interface MeteredCounts {
  readonly acked: number
  readonly retried: number
  readonly snoozed: number
  readonly dead: number
}

/** What was done between two moments. */
export class Activity {
  readonly waiting = new Histogram()
  readonly handling = new Histogram()
  readonly #counts = { acked: 0, retried: 0, snoozed: 0, dead: 0, batches: 0 }

  get isEmpty(): boolean {
    return this.waiting.count === 0 && this.handling.count === 0 && this.#counts.batches === 0
  }

  /** A batch was settled. */
  settled({ acked, retried, snoozed, dead }: MeteredCounts): void {
    this.#add({ acked, retried, snoozed, dead, batches: 1 })
  }

  addAll(other: Activity): void {
    this.waiting.addAll(other.waiting)
    this.handling.addAll(other.handling)
    this.#add(other.#counts)
  }

  clear(): void {
    this.waiting.clear()
    this.handling.clear()
    Object.assign(this.#counts, { acked: 0, retried: 0, snoozed: 0, dead: 0, batches: 0 })
  }

  /** As `sluice.worker_activity` has it. */
  toJSON(): object {
    const { waiting, handling } = this
    return {
      ...this.#counts,
      waiting: { maxMs: waiting.maxMs, buckets: waiting.quarters },
      handling: { totalMs: handling.sumMs, maxMs: handling.maxMs, buckets: handling.quarters },
    }
  }

  #add(counts: MeteredCounts & { readonly batches: number }): void {
    const all = this.#counts
    all.acked += counts.acked
    all.retried += counts.retried
    all.snoozed += counts.snoozed
    all.dead += counts.dead
    all.batches += counts.batches
  }
}
