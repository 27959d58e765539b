import { startTimer } from '../basics/time/start-timer.ts'
import type { Control } from '../connection/control.ts'
import { bytesReadOf } from '../session/bytes-read.ts'
import { workOf } from '../table/worker/server-process.ts'
import type { BatchConnection } from './batch-connection.ts'

export interface AnswerLimitOptions {
  /** How long a claim may take before the server is asked. */
  readonly claimMs: number
  /** After which the server ends a transaction. */
  readonly serverMs: number
}

/**
 * Ends a connection that gets no answers. If it is half-open, it would otherwise keep its place until the operating
 * system gives up resending, a quarter of an hour later. Three cases:
 *
 * - a claim: when the server has owed an answer for `claimMs`, it is asked whether it works on it;
 * - handlers: there may be nothing to answer, and the server's own limit for the transaction comes first, so we wait
 *   that long and two seconds more before we ask;
 * - COMMIT: it may wait for a standby without limit, and giving up on it would take one more connection each time. So
 *   it is ended only if the server does not work on it, or does not say.
 *
 * One timer for all transactions of a connection.
 */
export class AnswerLimit {
  readonly #connection: BatchConnection
  readonly #control: Pick<Control, 'execute'>
  readonly #claimMs: number
  readonly #serverMs: number
  #timer: NodeJS.Timeout | undefined
  /** The server's process. Behind a pooler the driver's number is wrong, and each claim tells the right one. */
  #pid: number
  #turn = 0
  #claiming = true
  #deadline = 0
  #since = 0
  #heard: unknown

  constructor(connection: BatchConnection, control: Pick<Control, 'execute'>, options: AnswerLimitOptions) {
    this.#connection = connection
    this.#control = control
    this.#serverMs = options.serverMs
    this.#claimMs = Math.min(options.claimMs, options.serverMs + GRACE_MS)
    this.#pid = Number(Reflect.get(connection.client, 'processID'))
    this.restart()
    this.#arm(this.#claimMs)
  }

  /** The next transaction begins with a claim. */
  restart(): void {
    this.#claiming = true
    this.#extend()
  }

  /** The claim has been answered, by this process of the server. */
  claimed(pid: number): void {
    this.#pid = pid
    this.#claiming = false
    this.#extend()
  }

  stop(): void {
    this.#turn += 1
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  get #limitMs(): number {
    return this.#claiming ? this.#claimMs : this.#serverMs + GRACE_MS
  }

  /** Before it claims, a connection may wait for something on another one: then the server owes it no answer. */
  get #earliestMs(): number {
    return (this.#connection.waitsSinceMs ?? performance.now()) + this.#claimMs
  }

  #extend(): void {
    this.#turn += 1
    this.#since = performance.now()
    this.#deadline = this.#since + this.#limitMs
    this.#heard = bytesReadOf(this.#connection.client)
  }

  #arm(ms: number): void {
    this.#timer = startTimer(() => void this.#check(), Math.ceil(ms))
  }

  async #check(): Promise<void> {
    const turn = this.#turn
    if (this.#claiming) this.#deadline = Math.max(this.#deadline, this.#earliestMs)
    if (performance.now() >= this.#deadline) {
      const silent = await this.#isSilent()
      // After a pause of the whole process the answers may have been there, unread.
      if (silent && turn === this.#turn) {
        return this.#connection.break(`No answer within ${Math.round(performance.now() - this.#since)} ms`)
      }
      if (turn === this.#turn) this.#deadline = performance.now() + this.#limitMs
    }
    // A claim may begin meanwhile: not later than its limit.
    if (this.#timer !== undefined) this.#arm(Math.max(1, Math.min(this.#deadline - performance.now(), this.#claimMs)))
  }

  async #isSilent(): Promise<boolean> {
    const work = await workOf(this.#control.execute, this.#pid, this.#claiming ? 0 : this.#serverMs).catch(() => 'none')
    if (work === 'busy') return false
    if (!this.#claiming) return true
    const heard = this.#heard
    this.#heard = bytesReadOf(this.#connection.client)
    // An answer of many megabytes comes in pieces; and a pooler may have no session to spare yet.
    if (heard !== this.#heard) return false
    return work !== 'unknown' || performance.now() - this.#since >= this.#serverMs + GRACE_MS
  }
}

/** The server's word that it has ended the transaction may be under way. */
const GRACE_MS = 2_000
