/** What was read, and how old that is. */
export interface Snapped<Value> {
  /** Undefined while the first reading has not ended. */
  readonly value: Value | undefined
  readonly ageMs: number
}

/**
 * Keeps what is costly to read, for all who look. It is read again when somebody asks and it is older than a second, or than ten
 * times what the reading took, so that pages keep a server busy for a tenth of the time at most. Nobody waits long:
 * a reading that takes longer is shown to those who ask next.
 */
export class Snapshot<Value> {
  readonly #load: () => Promise<Value>
  #last: { readonly value: Value; readonly atMs: number; readonly tookMs: number } | undefined
  #loading: Promise<void> | undefined
  #isStale = false

  constructor(load: () => Promise<Value>) {
    this.#load = load
  }

  /** @throws whatever the reading throws, unless it takes longer than anybody waits */
  async read(): Promise<Snapped<Value>> {
    if (!this.#isFresh()) {
      this.#loading ??= this.#begin()
      await Promise.race([this.#loading, briefly()])
    }
    const last = this.#last
    return { value: last?.value, ageMs: last === undefined ? 0 : performance.now() - last.atMs }
  }

  /** Something has changed: the next reader gets a new reading, if that is quick. */
  expire(): void {
    this.#isStale = true
  }

  #isFresh(): boolean {
    if (this.#last === undefined || this.#isStale) return false
    return performance.now() - this.#last.atMs < Math.max(LEAST_MS, this.#last.tookMs * 10)
  }

  #begin(): Promise<void> {
    const loading = this.#read().finally(() => {
      this.#loading = undefined
    })
    // Whoever still waits gets the error.
    loading.catch(() => undefined)
    return loading
  }

  async #read(): Promise<void> {
    const startedMs = performance.now()
    this.#isStale = false
    const value = await this.#load()
    const atMs = performance.now()
    this.#last = { value, atMs, tookMs: atMs - startedMs }
  }
}

const LEAST_MS = 1_000
const WAIT_MS = 250

function briefly(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, WAIT_MS).unref())
}
