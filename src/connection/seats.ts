import { stopped } from '../errors.ts'

/**
 * What a connection of the pool is for. `batches` and `transactions` (of handlers in leased mode) keep it while a handler
 * runs; `claims` and `settlements` of leased mode, and `calls`, such as an enqueue in `ownTransaction`, do not.
 */
export type Use = 'batches' | 'transactions' | 'claims' | 'settlements' | 'calls'

/** How many connections each use may have at a time. */
export type Shares = Readonly<Record<Use, number>>

/**
 * Decides who may have a connection, where their number is limited. A handler that has one may wait for a call, such as an enqueue in
 * `ownTransaction`, and for nothing that waits for a handler. So what no handler keeps has a share that batches never take:
 * without it, all connections could be those of handlers that wait for one more.
 */
export class Seats {
  /** How many there are, beside those of {@link room}. */
  #limit: number
  #shares: Shares
  readonly #taken: Record<Use, number> = { batches: 0, transactions: 0, claims: 0, settlements: 0, calls: 0 }
  readonly #waiting: Record<Use, Waiter[]> = { batches: [], transactions: [], claims: [], settlements: [], calls: [] }
  /** Those who need some outside of the pool. */
  readonly #outside: (Waiter & { readonly count: number })[] = []

  constructor(limit: number) {
    this.#limit = limit
    this.#shares = { batches: 0, transactions: 0, claims: 0, settlements: 0, calls: limit }
  }

  /** Changes the shares. Those who have more than they may keep it until they are done. */
  share(shares: Shares): void {
    this.#shares = shares
    this.#serve()
  }

  /**
   * Resolves, in turn, when one may be used, with what gives it back.
   *
   * @param signal leaves the line
   * @throws SluiceError STOPPED
   */
  async take(use: Use, signal?: AbortSignal): Promise<() => void> {
    const line = this.#waiting[use]
    if (line.length > 0 || !this.#mayTake(use)) await this.#wait(line, Promise.withResolvers(), signal)
    else this.#taken[use] += 1
    return once(() => {
      this.#taken[use] -= 1
      this.#serve()
    })
  }

  /**
   * Resolves when so many are free for connections outside of the pool, with what gives them back.
   *
   * @param signal leaves the line
   * @throws SluiceError STOPPED
   */
  async room(count: number, signal?: AbortSignal): Promise<() => void> {
    const waiting = this.#wait(this.#outside, { ...Promise.withResolvers<void>(), count }, signal)
    this.#serve()
    await waiting
    return once(() => {
      this.#limit += count
      this.#serve()
    })
  }

  async #wait<One extends Waiter>(line: One[], waiter: One, signal: AbortSignal | undefined): Promise<void> {
    const leave = () => {
      const at = line.indexOf(waiter)
      if (at < 0) return
      line.splice(at, 1)
      waiter.reject(stopped('pipeline'))
      // Others may have waited behind it.
      this.#serve()
    }
    line.push(waiter)
    signal?.addEventListener('abort', leave)
    if (signal?.aborted) leave()
    try {
      await waiter.promise
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  #serve(): void {
    const [first] = this.#outside
    if (first !== undefined && this.#free >= first.count) {
      this.#outside.shift()
      this.#limit -= first.count
      first.resolve()
      this.#serve()
      return
    }
    for (const use of USES) this.#serveLine(use)
  }

  #serveLine(use: Use): void {
    while (this.#waiting[use].length > 0 && this.#mayTake(use)) {
      this.#taken[use] += 1
      this.#waiting[use].shift()?.resolve()
    }
  }

  #mayTake(use: Use): boolean {
    if (this.#taken[use] >= this.#shares[use]) return false
    if (KEPT_BY_HANDLERS.has(use)) return this.#free > this.#wantedOutside
    return this.#allTaken < this.#limit
  }

  /** How many are left beside what is taken, and what the uses that no handler keeps may still take. */
  get #free(): number {
    const used = USES.map((use) =>
      KEPT_BY_HANDLERS.has(use) ? this.#taken[use] : Math.max(this.#taken[use], this.#shares[use]),
    )
    return this.#limit - sum(used)
  }

  get #allTaken(): number {
    return sum(Object.values(this.#taken))
  }

  get #wantedOutside(): number {
    return sum(this.#outside.map(({ count }) => count))
  }
}

type Waiter = PromiseWithResolvers<void>

/** In the order in which they get what becomes free. */
const USES: readonly Use[] = ['settlements', 'calls', 'claims', 'transactions', 'batches']

const KEPT_BY_HANDLERS: ReadonlySet<Use> = new Set(['batches', 'transactions'])

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function once(work: () => void): () => void {
  let done = false
  return () => {
    if (!done) work()
    done = true
  }
}
