import { Activity, type MeteredCounts } from './activity.ts'
import { Histogram } from './histogram.ts'
import { Recent } from './recent.ts'

/** What a pipeline, or all consumers of a queue in this process, have done. */
export interface QueueStatistics {
  /** Messages that were handled and removed, since it began. */
  readonly acked: number
  /** Attempts that failed, or asked for a retry, and are due again. */
  readonly retried: number
  /** Messages that were put off by `snooze`. */
  readonly snoozed: number
  /** Messages that became dead letters. */
  readonly dead: number
  /**
   * From when a message became due until its handler began, in the last five to ten minutes. A retry counts from when
   * it was due. Null if no handler began.
   */
  readonly waiting: Durations | null
  /** How long the calls of the handler took, of the last five to ten minutes. Null if none ended. */
  readonly handling: Durations | null
}

/** Durations in milliseconds. Percentiles are at most 3.2 % wrong. */
export interface Durations {
  readonly count: number
  readonly meanMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** When messages were claimed, by the database's clock and by this process's. */
export interface ClaimClock {
  readonly nowUs: number
  readonly sentAtMs: number
}

/** Measures one consumer. It is fed by its batches, without a clock of its own where they have read one. */
export class Meter {
  readonly #counts = { acked: 0, retried: 0, snoozed: 0, dead: 0 }
  readonly #waiting: Recent
  readonly #handling: Recent
  readonly #activity = new Activity()

  constructor(nowMs: number = performance.now()) {
    this.#waiting = new Recent(nowMs)
    this.#handling = new Recent(nowMs)
  }

  /** The handler begins with a message that was due then. */
  begun(dueUs: number, clock: ClaimClock, nowMs: number): void {
    const waitedMs = (clock.nowUs - dueUs) / 1_000 + (nowMs - clock.sentAtMs)
    this.#waiting.add(waitedMs, nowMs)
    this.#activity.waiting.add(waitedMs)
  }

  /** A call of the handler has ended. */
  handled(startedAtMs: number, endedAtMs: number): void {
    this.#handling.add(endedAtMs - startedAtMs, endedAtMs)
    this.#activity.handling.add(endedAtMs - startedAtMs)
  }

  settled(counts: MeteredCounts): void {
    this.#count(counts)
    this.#activity.settled(counts)
  }

  /** What was done since the last call. */
  takeActivity(into: Activity): void {
    into.addAll(this.#activity)
    this.#activity.clear()
  }

  #count({ acked, retried, snoozed, dead }: MeteredCounts): void {
    const counts = this.#counts
    counts.acked += acked
    counts.retried += retried
    counts.snoozed += snoozed
    counts.dead += dead
  }

  /** Takes over what one that has ended has measured. */
  absorb(other: Meter, nowMs: number = performance.now()): void {
    this.#count(other.#counts)
    other.takeActivity(this.#activity)
    this.#waiting.absorb(other.#waiting, nowMs)
    this.#handling.absorb(other.#handling, nowMs)
  }

  /** The sum of all of them. */
  static sum(meters: Iterable<Meter>, nowMs: number = performance.now()): QueueStatistics {
    const [waiting, handling] = [new Histogram(), new Histogram()]
    const counts = { acked: 0, retried: 0, snoozed: 0, dead: 0 }
    for (const meter of meters) {
      meter.#waiting.addTo(waiting, nowMs)
      meter.#handling.addTo(handling, nowMs)
      counts.acked += meter.#counts.acked
      counts.retried += meter.#counts.retried
      counts.snoozed += meter.#counts.snoozed
      counts.dead += meter.#counts.dead
    }
    return { ...counts, waiting: durationsOf(waiting), handling: durationsOf(handling) }
  }
}

function durationsOf(histogram: Histogram): Durations | null {
  if (histogram.count === 0) return null
  return {
    count: histogram.count,
    meanMs: rounded(histogram.meanMs),
    p50Ms: rounded(histogram.quantileMs(0.5)),
    p90Ms: rounded(histogram.quantileMs(0.9)),
    p99Ms: rounded(histogram.quantileMs(0.99)),
    maxMs: rounded(histogram.maxMs),
  }
}

/** To microseconds: what is finer says nothing. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
