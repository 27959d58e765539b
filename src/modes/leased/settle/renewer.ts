import { Backoff } from '../../../basics/time/backoff.ts'
import { startTimer } from '../../../basics/time/start-timer.ts'
import type { LeasedMessage } from '../leased-message.ts'
import type { LeaseWriter, Retry } from './lease-writer.ts'

/** Renews leases when it is asked to, in parts: between two of them a settlement has its turn. */
export class Renewer {
  readonly #writer: Pick<LeaseWriter, 'renew' | 'isCut'>
  readonly #onAsked: () => void
  readonly #asked: Asked[] = []

  /** @param onAsked {@link run} has something to do */
  constructor(writer: Pick<LeaseWriter, 'renew' | 'isCut'>, onAsked: () => void) {
    this.#writer = writer
    this.#onAsked = onAsked
  }

  get isPending(): boolean {
    return this.#asked.length > 0
  }

  /** Makes leases last for their whole time from now. Resolves when each is renewed or lost. */
  async renew(leases: readonly LeasedMessage[]): Promise<void> {
    const renewed: Promise<void>[] = []
    for (let at = 0; at < leases.length; at += MOST) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#ask({ leases: leases.slice(at, at + MOST), resolve, backoff: undefined })
      renewed.push(promise)
    }
    await Promise.all(renewed)
  }

  /** Returns why it has to be tried again. */
  async run(): Promise<Retry | undefined> {
    if (!this.isPending) return undefined
    const asked = this.#takeSome()
    try {
      const left = await this.#send(asked)
      for (const one of asked) this.#answer(one, left)
    } catch (because) {
      const left = asked.filter((one) => !this.#isOver(one))
      this.#asked.unshift(...left)
      if (left.length > 0) return { because }
    }
    return undefined
  }

  #takeSome(): readonly Asked[] {
    let leases = 0
    const enough = this.#asked.findIndex((asked) => {
      leases += asked.leases.length
      return leases >= MOST
    })
    return this.#asked.splice(0, enough < 0 ? this.#asked.length : enough + 1)
  }

  /** Returns the ids of those that are ours, and could not be renewed. */
  async #send(asked: readonly Asked[]): Promise<ReadonlySet<string>> {
    const leases = [...new Set(asked.flatMap((of) => of.leases))].filter(({ lost }) => lost === undefined)
    if (leases.length === 0) return NONE
    const sentAtMs = performance.now()
    const isRepeated = asked.some(({ backoff }) => backoff !== undefined)
    const { ids, locked, untouched } = await this.#writer.renew(leases, isRepeated)
    // A trigger, for example, has swallowed what a renewal did: the lease is ours until it ends.
    const left = new Set([...locked, ...untouched])
    for (const leased of leases) {
      if (ids.has(leased.id)) leased.renewed(sentAtMs)
      else if (!left.has(leased.id) || leased.hasRunOut) leased.lose()
    }
    return left
  }

  /** Nothing is sent for it any more: all of it is lost. */
  #isOver({ leases, resolve }: Asked): boolean {
    const over = leases.filter((leased) => leased.lost !== undefined || leased.hasRunOut || this.#writer.isCut)
    for (const leased of over) leased.lose()
    if (over.length < leases.length) return false
    resolve()
    return true
  }

  /** Locked or moved by another session: it is asked for again, unless that is a transaction of its own handler. */
  #answer({ leases, resolve, backoff = new Backoff(50, 1_000) }: Asked, left: ReadonlySet<string>): void {
    const again = leases.filter((one) => left.has(one.id) && !one.lost && !one.hasRunOut && !one.isLocked)
    if (again.length === 0) resolve()
    else startTimer(() => this.#ask({ leases: again, resolve, backoff }), backoff.next())
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

/**
 * The most leases in one statement, or nearly: a settlement waits for one of them at most, some 25 ms. Ten thousand in one took
 * half a second.
 */
const MOST = 500

const NONE: ReadonlySet<string> = new Set()
