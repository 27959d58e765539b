import { allWordsOf } from '../basics/errors/all-words-of.ts'
import { unavailableCause } from '../basics/errors/unavailable-cause.ts'
import { pause } from '../basics/time/pause.ts'
import { Breaker } from '../relay/breaker.ts'
import type { HasPeer, PeerState } from '../statistics/peer-state.ts'
import type { Report } from '../telemetry/events.ts'
import { databaseCause } from './database-cause.ts'
import type { InboxPlan } from './options.ts'

/** The broker, or the database: whether it is out of reach, and when it is tried again. */
export class Side implements HasPeer {
  readonly #name: 'receiver' | 'database'
  readonly #plan: InboxPlan
  readonly #report: Report
  readonly #breaker: Breaker
  /**
   * `proven`: the connection has done something, or has been open for a while. `doubted`: one that was open has failed for a
   * setting, such as a permission to ack, or before it had done anything: to open another one proves nothing.
   */
  #proof: 'none' | 'doubted' | 'proven' = 'none'
  #peer: PeerState | undefined

  constructor(name: 'receiver' | 'database', plan: InboxPlan, report: Report) {
    this.#name = name
    this.#plan = plan
    this.#report = report
    this.#breaker = new Breaker(plan.breaker)
  }

  get peer(): PeerState | undefined {
    return this.#peer
  }

  get isProven(): boolean {
    return this.#proof === 'proven'
  }

  /** It is out of reach, or does not do what it is asked. @param wasOpen it could be reached */
  failed(thrown: unknown, wasOpen = false): void {
    const { queue, from } = this.#plan
    const terms = this.#breaker.failed()
    const error = allWordsOf(thrown)
    const cause = this.#name === 'receiver' ? unavailableCause(thrown) : databaseCause(thrown)
    if (wasOpen && (cause === 'settings' || !this.isProven)) this.#proof = 'doubted'
    const about = { side: this.#name, cause, error }
    const retryAt = new Date(Date.now() + terms.retryInMs)
    this.#peer = { system: from.system, since: terms.since, failure: { ...about, retryAt } }
    this.#report({ kind: 'inbox.unavailable', queue, receiver: from.system, ...about, ...terms })
  }

  /** It can be reached. Whether it does what it is asked is not known yet: the next failure waits longer than the last one. */
  reached(): void {
    if (this.#proof === 'doubted') return
    this.#proof = 'none'
    this.#available()
  }

  /** It has done what it is asked, without an error, for a while. */
  lasted(): void {
    this.#proof = 'proven'
    this.#available()
  }

  answered(): void {
    this.#proof = 'proven'
    this.#tell(this.#breaker.answered())
  }

  /** Waits until it is to be tried again, at most until the signal aborts. */
  async untilNextTry(signal: AbortSignal): Promise<void> {
    if (this.#breaker.isDown) await pause(this.#breaker.waitMs, signal)
  }

  #available(): void {
    this.#peer ??= { system: this.#plan.from.system, since: new Date(), failure: null }
    this.#tell(this.#breaker.reached())
  }

  #tell(since: Date | undefined): void {
    if (since === undefined) return
    const { queue, from } = this.#plan
    this.#peer = { system: from.system, since: new Date(), failure: null }
    this.#report({ kind: 'inbox.available', queue, receiver: from.system, side: this.#name, since })
  }
}
