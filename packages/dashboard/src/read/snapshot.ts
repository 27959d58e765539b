/** What was read, how old that is, and why there is nothing newer. */
export interface Snapped<Value> {
  /** Undefined while no reading has succeeded. */
  readonly value: Value | undefined
  readonly ageMs: number
  /** The last reading, if it has failed. */
  readonly failure: Failure | undefined
}

/** A reading that has failed. */
export interface Failure {
  readonly error: unknown
  /** How long none has succeeded. */
  readonly sinceMs: number
}

/**
 * Keeps what is costly to read, for all who look. It is read again when somebody asks and the last reading, or the last failure,
 * is older than a second, or than ten times what it took, so that pages keep a server busy for a tenth of the time at most.
 * A lock of a table costs the server nothing, and may end at any time: after it a reading rests for five seconds at most.
 * Nobody waits long: a reading that takes longer is shown to those who ask next.
 */
export class Snapshot<Value> {
  readonly #load: () => Promise<Value>
  readonly #now: () => number
  #last: { readonly value: Value; readonly atMs: number } | undefined
  #failed: { readonly error: unknown; readonly sinceMs: number } | undefined
  #restsUntilMs = 0
  #startedMs = 0
  #tookMs = 0
  #loading: Promise<void> | undefined

  /** @param now milliseconds of a clock that never goes back */
  constructor(load: () => Promise<Value>, now: () => number = () => performance.now()) {
    this.#load = load
    this.#now = now
  }

  /** @param report called with the error of a reading that begins now and fails */
  async read(report: (error: unknown) => void): Promise<Snapped<Value>> {
    if (this.#loading !== undefined || this.#now() >= this.#restsUntilMs) {
      this.#loading ??= this.#begin(report)
      await Promise.race([this.#loading, pause(this.#patienceMs())])
    }
    const now = this.#now()
    return {
      value: this.#last?.value,
      ageMs: this.#last === undefined ? 0 : now - this.#last.atMs,
      failure: this.#failed && { error: this.#failed.error, sinceMs: now - this.#failed.sinceMs },
    }
  }

  /** Something has changed: the next reader gets a new reading, if that is quick. */
  expire(): void {
    this.#restsUntilMs = 0
  }

  /** Nobody waits for a reading that has lasted for long, or in place of one that did. */
  #patienceMs(): number {
    if (this.#last !== undefined && this.#tookMs > WAIT_MS) return 0
    return Math.max(0, WAIT_MS - (this.#now() - this.#startedMs))
  }

  #begin(report: (error: unknown) => void): Promise<void> {
    const loading = this.#read().catch(report)
    // Whoever still waits gets what `report` throws.
    loading.catch(() => undefined)
    return loading
  }

  async #read(): Promise<void> {
    const startedMs = this.#now()
    this.#startedMs = startedMs
    // Until it ends, or something changes, which may not be in what is read.
    this.#restsUntilMs = Number.POSITIVE_INFINITY
    let mostRestMs = Number.POSITIVE_INFINITY
    try {
      const value = await this.#load()
      this.#last = { value, atMs: this.#now() }
      this.#failed = undefined
    } catch (error) {
      this.#failed = { error, sinceMs: this.#failed?.sinceMs ?? startedMs }
      if (isLocked(error)) mostRestMs = LOCKED_MS
      throw error
    } finally {
      this.#loading = undefined
      const endedMs = this.#now()
      this.#tookMs = endedMs - startedMs
      const restMs = Math.min(Math.max(LEAST_MS, this.#tookMs * 10), mostRestMs)
      if (this.#restsUntilMs > 0) this.#restsUntilMs = endedMs + restMs
    }
  }
}

/** By the code of SluiceError. */
function isLocked(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'TABLE_LOCKED'
}

const LEAST_MS = 1_000
const LOCKED_MS = 5_000
const WAIT_MS = 250

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
