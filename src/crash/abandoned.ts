import { Backoff } from '../basics/time/backoff.ts'
import { startTimer } from '../basics/time/start-timer.ts'

/**
 * Batches that a claim may have leased although its answer never came, or was an error: the server still runs the
 * statements behind a failed claim. No process handles them, so their leases end at once, or as soon as they exist. A
 * server that waits for a lock runs a claim long after its connection was given up, so one look is not enough.
 */
export class Abandoned {
  readonly #free: (batchIds: readonly number[]) => Promise<readonly number[]>
  /** By number, until when each may still appear, on the clock of `performance`. */
  readonly #until = new Map<number, number>()
  readonly #backoff = new Backoff(1_000, 30_000)
  #timer: NodeJS.Timeout | undefined
  #freeing: Promise<void> | undefined

  /** @param free ends the leases of those that exist, and returns their numbers */
  constructor(free: (batchIds: readonly number[]) => Promise<readonly number[]>) {
    this.#free = free
  }

  /** @param isOver the server has answered every statement: a batch that does not exist now never will */
  add(batchIds: readonly number[], isOver: boolean): void {
    if (batchIds.length === 0) return
    const until = isOver ? performance.now() : performance.now() + LONGEST_MS
    for (const id of batchIds) this.#until.set(id, until)
    this.#backoff.reset()
    this.retry()
  }

  /** Looks for them now. */
  retry(): void {
    if (this.#until.size > 0) this.#freeing ??= this.#run()
  }

  /** Looks for them once more. Later ones end with their lease, or when another worker finds that this one is gone. */
  async stop(): Promise<void> {
    await this.#freeing
    if (this.#until.size > 0) await this.#run()
    clearTimeout(this.#timer)
    this.#until.clear()
  }

  async #run(): Promise<void> {
    clearTimeout(this.#timer)
    const askedAtMs = performance.now()
    const ids = [...this.#until.keys()]
    try {
      const freed = new Set(await this.#free(ids))
      for (const id of ids) if (freed.has(id) || (this.#until.get(id) ?? 0) <= askedAtMs) this.#until.delete(id)
    } catch {
      // The control connection is down, and reports that. The next look comes when it is up again.
    } finally {
      this.#freeing = undefined
    }
    if (this.#until.size > 0) this.#timer = startTimer(() => this.retry(), this.#backoff.next())
  }
}

/** Eight claims in one packet, each of which may wait for a lock until the server ends its transaction after 10 seconds. */
const LONGEST_MS = 120_000
