import { startTimer } from '../basics/time/start-timer.ts'

/**
 * A lock that the rounds of a process share, or that one of them has alone. If a process dies with two messages in flight,
 * nothing tells which of them killed it. So a message whose next crash may be its last runs while the process has nothing
 * else in flight: if the process dies, it was this message.
 *
 * First come, first served: a round that needs the lock alone waits for its holders, and later rounds wait behind it. A
 * round takes the lock before it claims, so none waits with rows locked.
 */
export class AloneLock {
  #waiting: readonly Waiting[] = []
  #holders = 0
  #alone = false

  /** A round waits: the holders of the lock should end after their present batch. */
  get contended(): boolean {
    return this.#waiting.length > 0
  }

  /**
   * Takes the lock, shared or alone. Resolves with false if the signal aborts before. After {@link PATIENCE_MS} of
   * waiting to have it alone, a round shares it: a leased handler may run for days, and later rounds wait.
   */
  async enter(alone: boolean, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#waiting.length === 0 && this.#admits(alone)) {
      this.#admit(alone)
      return true
    }
    const turn = Promise.withResolvers<boolean>()
    const waiting = { alone, admit: () => turn.resolve(true) }
    this.#waiting = [...this.#waiting, waiting]
    const giveUp = () => {
      turn.resolve(false)
      this.#waiting = this.#waiting.filter((other) => other !== waiting)
      this.#admitNext()
    }
    const share = () => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting)
      this.#admit(false)
      waiting.admit()
      this.#admitNext()
    }
    const patience = alone ? startTimer(share, PATIENCE_MS) : undefined
    signal.addEventListener('abort', giveUp)
    try {
      return await turn.promise
    } finally {
      clearTimeout(patience)
      signal.removeEventListener('abort', giveUp)
    }
  }

  /** Gives the lock back: once for every `enter` that resolved with true. */
  leave(): void {
    this.#holders -= 1
    this.#admitNext()
  }

  #admitNext(): void {
    for (let [next] = this.#waiting; next !== undefined && this.#admits(next.alone); [next] = this.#waiting) {
      this.#waiting = this.#waiting.slice(1)
      this.#admit(next.alone)
      next.admit()
    }
  }

  #admits(alone: boolean): boolean {
    return this.#holders === 0 || !(alone || this.#alone)
  }

  #admit(alone: boolean): void {
    this.#holders += 1
    this.#alone = alone
  }
}

/** How long a round waits to have the lock alone. */
const PATIENCE_MS = 30_000

interface Waiting {
  readonly alone: boolean
  readonly admit: () => void
}
