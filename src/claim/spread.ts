/**
 * Where the claims of one process begin when many claim from a queue at once. A claim from the head walks over all rows
 * in flight elsewhere; claims that begin at random within twice as many meet few of them.
 */
export class Spread {
  #concurrency: number
  readonly #batchSize: number
  readonly #random: () => number
  #workers = 1

  /** @param concurrency how many batches a worker has in flight; others are taken to have as many. */
  constructor(concurrency: number, batchSize: number, random: () => number = Math.random) {
    this.#concurrency = concurrency
    this.#batchSize = batchSize
    this.#random = random
  }

  /** Sets how many workers consume the queue, this one included. */
  learn(workers: number): void {
    this.#workers = Math.max(1, workers)
  }

  /** Sets how many batches a worker has in flight from now on. */
  resize(concurrency: number): void {
    this.#concurrency = concurrency
  }

  /** How many batches are in flight, those of all workers together. */
  get inFlight(): number {
    return this.#workers * this.#concurrency
  }

  /** Whether enough claims run at once that one from the head costs more than one that begins elsewhere. */
  get wide(): boolean {
    return this.inFlight > FEW
  }

  /** How many messages the next claim leaves before it. One in eight begins with the oldest. */
  next(): number {
    const at = this.#random()
    if (at < FROM_HEAD) return 0
    return Math.floor(((at - FROM_HEAD) / (1 - FROM_HEAD)) * 2 * this.inFlight * this.#batchSize)
  }
}

/** Batches in flight up to which all claims begin at the head. */
const FEW = 8

const FROM_HEAD = 1 / 8
