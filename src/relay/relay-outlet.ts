import type { UnavailableCause } from '../basics/errors/unavailable-cause.ts'
import { closed, opened } from '../basics/promises/opened.ts'
import { pause } from '../basics/time/pause.ts'
import type { Outlet, Passage } from '../handle/consumption.ts'
import type { PeerState } from '../statistics/peer-state.ts'
import { readSource } from '../table/session/source.ts'
import type { Execute } from '../table/statement.ts'
import type { Report } from '../telemetry/events.ts'
import { Breaker } from './breaker.ts'
import type { DestinationConnection, Verdict } from './destination.ts'
import { Hold } from './hold.ts'
import type { RelayPlan } from './options.ts'
import { unavailable } from './unavailable.ts'

/**
 * The way out of one running relay: its connection to the destination, which all of its batches share. While the
 * destination is out of reach there is no connection, and one claim at a time finds out whether it is back.
 */
export class RelayOutlet implements Outlet {
  readonly #plan: RelayPlan
  readonly #report: Report
  /** False: it does not wait until the destination is back. */
  readonly #waits: boolean
  readonly #breaker: Breaker
  readonly #hold = new Hold()
  #source: string | undefined
  #connection: DestinationConnection | undefined
  /** Whoever opens the connection, or tries it by one message; the others wait for that. */
  #trial: Promise<void> | undefined
  /** A connection could be opened before, and was no proof that messages are stored. */
  #needsProbe = false
  /** The trial has a message. */
  #isAsked = false
  #peer: PeerState | undefined

  constructor(plan: RelayPlan, report: Report, waits: boolean) {
    this.#plan = plan
    this.#report = report
    this.#waits = waits
    this.#breaker = new Breaker(plan.breaker)
  }

  get isDown(): boolean {
    return this.#breaker.isDown
  }

  get peer(): PeerState | undefined {
    return this.#peer
  }

  /**
   * The connection for so many messages, and the name of the database. Undefined: another batch has found the destination out
   * of reach, or tries it by one message now.
   */
  openFor(messages: number): { readonly connection: DestinationConnection; readonly source: string } | undefined {
    const [connection, source] = [this.#connection, this.#source]
    if (connection === undefined || source === undefined) return undefined
    if (this.isDown && messages > 1) return undefined
    this.#isAsked = true
    return { connection, source }
  }

  async enter(execute: Execute, draining: AbortSignal): Promise<Passage | undefined> {
    while (!draining.aborted) {
      if (this.isDown && !this.#waits) return undefined
      if (this.#connection !== undefined && !this.isDown) return FREE
      if (this.#trial === undefined) {
        const passage = await this.#try(execute, draining)
        if (passage !== undefined) return passage
      } else await this.#trial
    }
    return undefined
  }

  /**
   * What the destination has answered to a batch: all of it that was sent on a connection.
   *
   * @returns for how many milliseconds the batch keeps its messages, so that those without an answer do not come again at once
   */
  heard(from: DestinationConnection, verdicts: readonly Verdict[]): number {
    // Several batches in flight find out together, and a late one on a connection that has been replaced since.
    if (from !== this.#connection) return 0
    const all = verdicts.filter((verdict) => verdict.kind === 'unavailable')
    // One without a confirm must not hide what waits for a change by hand.
    const worst = all.find(({ cause }) => cause === 'settings') ?? all[0]
    const answered = verdicts.some(({ kind }) => kind !== 'unavailable')
    if (worst !== undefined && (!answered || this.#isOfLog)) this.#fails(worst, true)
    else if (answered) this.#answers()
    return answered && worst !== undefined && !this.#isOfLog ? this.#hold.next(performance.now()) : 0
  }

  /** What a group has published behind an event without an answer is published again with it: it does not try that at once. */
  get #isOfLog(): boolean {
    return this.#plan.pipeline.log !== undefined
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    if (connection !== undefined) await closed(connection)
  }

  /** Opens the connection, after the time that is due. Undefined: that failed, or the connection need not be tried further. */
  async #try(execute: Execute, draining: AbortSignal): Promise<Passage | undefined> {
    const trial = Promise.withResolvers<void>()
    this.#trial = trial.promise
    this.#isAsked = false
    const over = () => {
      this.#trial = undefined
      trial.resolve()
    }
    await pause(this.#breaker.waitMs, draining)
    try {
      if (!draining.aborted) await this.#connect(execute, draining)
    } catch (error) {
      over()
      throw error
    }
    if (this.#connection !== undefined && this.#needsProbe) return { isProbe: true, over: () => this.#tried(over) }
    over()
    return undefined
  }

  /** Without a message, as when another worker has published all, nobody knows whether the destination is back. */
  #tried(over: () => void): void {
    if (!this.#isAsked) this.#peer = undefined
    over()
  }

  /** @throws what the database throws: that says nothing about the destination */
  async #connect(execute: Execute, draining: AbortSignal): Promise<void> {
    if (this.#connection !== undefined) return
    // Each time: after a failover or a recovery the database may have got another name.
    this.#source = await readSource(execute)
    const limit = AbortSignal.timeout(Math.max(this.#plan.confirmMs, OPEN_MS))
    const signal = AbortSignal.any([draining, limit])
    try {
      this.#connection = await opened(this.#plan.to, signal)
      if (!this.#needsProbe) this.#answers()
    } catch (error) {
      if (!draining.aborted) this.#fails(unavailable(error), false)
    }
  }

  #answers(): void {
    this.#needsProbe = false
    const { pipeline, to } = this.#plan
    const since = this.#breaker.answered()
    if (since !== undefined || this.#peer === undefined)
      this.#peer = { system: to.system, since: new Date(), failure: null }
    if (since === undefined) return
    this.#report({ kind: 'relay.available', queue: pipeline.queue, destination: to.system, since })
  }

  #fails({ error, cause: said }: Reason, byMessages: boolean): void {
    this.#needsProbe ||= byMessages
    const { pipeline, to } = this.#plan
    // An adapter may say anything.
    const cause = said === 'settings' ? said : 'outage'
    const terms = this.#breaker.failed()
    const retryAt = new Date(Date.now() + terms.retryInMs)
    this.#peer = { system: to.system, since: terms.since, failure: { cause, error, retryAt } }
    this.#report({ kind: 'relay.unavailable', queue: pipeline.queue, destination: to.system, cause, error, ...terms })
    // What is under way on it fails too. The next try begins with a new one, perhaps to another server.
    void this.close()
  }
}

interface Reason {
  readonly error: string
  readonly cause?: UnavailableCause | undefined
}

const FREE: Passage = { isProbe: false, over: () => undefined }
/** For the handshakes over a distance, and for several servers of which the first ones say nothing. */
const OPEN_MS = 15_000
