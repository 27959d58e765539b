import { Backoff } from '../../basics/backoff.ts'
import type { LeaseWriter, Retry } from './lease-writer.ts'
import type { LeasedMessage } from './leased-message.ts'

/** Renews leases when it is asked to, all of them by one statement. */
export class Renewer {
  readonly #writer: LeaseWriter
  readonly #onAsked: () => void
  readonly #asked: Asked[] = []

  /** @param onAsked {@link run} has something to do */
  constructor(writer: LeaseWriter, onAsked: () => void) {
    this.#writer = writer
    this.#onAsked = onAsked
  }

  get isPending(): boolean {
    return this.#asked.length > 0
  }

  /** Makes leases last for their whole time from now. Resolves when each is renewed or lost. */
  renew(leases: readonly LeasedMessage[]): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#ask({ leases, resolve, backoff: undefined })
    return promise
  }

  /** Returns why it has to be tried again. */
  async run(): Promise<Retry | undefined> {
    if (!this.isPending) return undefined
    const asked = this.#asked.splice(0)
    try {
      const locked = await this.#send(asked)
      for (const one of asked) this.#answer(one, locked)
    } catch (because) {
      const left = asked.filter((one) => !this.#isOver(one))
      this.#asked.unshift(...left)
      if (left.length > 0) return { because }
    }
    return undefined
  }

  /** Returns the ids of those that are locked. */
  async #send(asked: readonly Asked[]): Promise<ReadonlySet<string>> {
    const leases = [...new Set(asked.flatMap((of) => of.leases))].filter(({ lost }) => lost === undefined)
    if (leases.length === 0) return NONE
    const sentAtMs = performance.now()
    const isRepeated = asked.some(({ backoff }) => backoff !== undefined)
    const { ids, locked } = await this.#writer.renew(leases, isRepeated)
    for (const leased of leases) {
      if (ids.has(leased.id)) leased.renewed(sentAtMs)
      else if (!locked.has(leased.id) || leased.hasRunOut) leased.lose()
    }
    return locked
  }

  /** Nothing is sent for it any more: all of it is lost. */
  #isOver({ leases, resolve }: Asked): boolean {
    const over = leases.filter((leased) => leased.lost !== undefined || leased.hasRunOut || this.#writer.isCut)
    for (const leased of over) leased.lose()
    if (over.length < leases.length) return false
    resolve()
    return true
  }

  /** Locked or moved by somebody: it is asked for again, unless that is a transaction of its own handler. */
  #answer({ leases, resolve, backoff = new Backoff(50, 1_000) }: Asked, locked: ReadonlySet<string>): void {
    const again = leases.filter((one) => locked.has(one.id) && !one.lost && !one.hasRunOut && !one.inTransaction)
    if (again.length === 0) resolve()
    else setTimeout(() => this.#ask({ leases: again, resolve, backoff }), backoff.next())
  }

  #ask(asked: Asked): void {
    this.#asked.push(asked)
    this.#onAsked()
  }
}

interface Asked {
  readonly leases: readonly LeasedMessage[]
  readonly resolve: () => void
  /** Some of them were locked before. */
  readonly backoff: Backoff | undefined
}

const NONE: ReadonlySet<string> = new Set()
