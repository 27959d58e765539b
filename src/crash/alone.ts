/**
 * Lets the sessions of a process run side by side, or one of them on its own. If a process dies with two messages in
 * hand, nobody can tell which of them has killed it: a message whose next death would be its last runs on its own, so
 * that this death, if it comes, condemns the right one. First come, first served: a session that needs to be alone waits
 * for those inside, and those that come later wait for it. All wait before they claim, so nobody waits with rows locked.
 */
export class Isolation {
  #waiting: readonly Waiting[] = []
  #inside = 0
  #alone = false

  /** Somebody waits: a session should end with its present batch. */
  get contended(): boolean {
    return this.#waiting.length > 0
  }

  /** Resolves with true when it may run, or with false if the signal aborts before. */
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
    signal.addEventListener('abort', giveUp)
    try {
      return await turn.promise
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
  }

  /** It has ended: once for every time that it has entered. */
  leave(): void {
    this.#inside -= 1
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
    return this.#inside === 0 || !(alone || this.#alone)
  }

  #admit(alone: boolean): void {
    this.#inside += 1
    this.#alone = alone
  }
}

interface Waiting {
  readonly alone: boolean
  readonly admit: () => void
}
