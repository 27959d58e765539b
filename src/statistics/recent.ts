import { Histogram } from './histogram.ts'

/** The durations of the last five to ten minutes; and all of them, at no further cost for one. */
export class Recent {
  #now = new Histogram()
  #before = new Histogram()
  readonly #older = new Histogram()
  #sinceMs: number

  constructor(nowMs: number) {
    this.#sinceMs = nowMs
  }

  add(ms: number, nowMs: number): void {
    if (nowMs - this.#sinceMs >= SPAN_MS) this.#turn(nowMs)
    this.#now.add(ms)
  }

  /** Adds them to another histogram. */
  addTo(sum: Histogram, nowMs: number): void {
    if (nowMs - this.#sinceMs >= SPAN_MS) this.#turn(nowMs)
    sum.addAll(this.#now)
    sum.addAll(this.#before)
  }

  /** Adds those of all times to another histogram. */
  addAllTo(sum: Histogram): void {
    for (const part of [this.#older, this.#before, this.#now]) sum.addAll(part)
  }

  /** What was not long ago in the other one is not long ago here. */
  absorb(other: Recent, nowMs: number): void {
    for (const one of [this, other]) if (nowMs - one.#sinceMs >= SPAN_MS) one.#turn(nowMs)
    this.#now.addAll(other.#now)
    this.#before.addAll(other.#before)
    this.#older.addAll(other.#older)
  }

  #turn(nowMs: number): void {
    const isOver = nowMs - this.#sinceMs >= 2 * SPAN_MS
    const oldest = this.#before
    this.#older.addAll(oldest)
    this.#before = this.#now
    this.#now = oldest
    oldest.clear()
    if (isOver) {
      this.#older.addAll(this.#before)
      this.#before.clear()
    }
    this.#sinceMs = nowMs
  }
}

const SPAN_MS = 300_000
