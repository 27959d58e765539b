import type { Control } from '../connection/control.ts'
import { workOf } from '../table/worker.ts'
import type { BatchConnection } from './batch-connection.ts'

export interface AnswerLimitOptions {
  /** How long a claim may take before the server is asked. */
  readonly claimMs: number
  /** After which the server ends a transaction. */
  readonly serverMs: number
}

/**
 * Ends a connection whose answers stay away. Half-open, it would hold its slot until the operating system gives up
 * resending, a quarter of an hour later. While handlers run there may be nothing to answer, so the server's own limit for
 * a transaction comes first, and ends what has only lost this process. A claim is asked after sooner. Either may be slow
 * for a good reason, and a COMMIT that waits for a standby is under no limit there: to leave it would take a connection
 * more each time. So the server is asked whether it works on it. One timer for all transactions of a connection.
 */
export class AnswerLimit {
  readonly #connection: BatchConnection
  readonly #control: Pick<Control, 'execute'>
  readonly #claimMs: number
  readonly #serverMs: number
  #timer: NodeJS.Timeout | undefined
  /** The server's process: behind a pooler the driver's number is wrong until a claim has told. */
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

  #extend(): void {
    this.#turn += 1
    this.#since = performance.now()
    this.#deadline = this.#since + this.#limitMs
    this.#heard = this.#bytesRead
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => void this.#check(), Math.ceil(ms))
  }

  async #check(): Promise<void> {
    const turn = this.#turn
    if (performance.now() >= this.#deadline) {
      const silent = await this.#isSilent()
      // After a pause of the whole process the answers may have been there, unread.
      if (silent && turn === this.#turn) {
        return this.#connection.break(`No answer within ${Math.round(performance.now() - this.#since)} ms`)
      }
      if (turn === this.#turn) this.#deadline = performance.now() + this.#limitMs
    }
    // Not later than a claim that begins meanwhile would have it.
    if (this.#timer !== undefined) this.#arm(Math.max(1, Math.min(this.#deadline - performance.now(), this.#claimMs)))
  }

  async #isSilent(): Promise<boolean> {
    const work = await workOf(this.#control.execute, this.#pid, this.#claiming ? 0 : this.#serverMs).catch(() => 'none')
    if (work === 'busy') return false
    if (!this.#claiming) return true
    const heard = this.#heard
    this.#heard = this.#bytesRead
    // An answer of many megabytes comes in pieces; and a pooler may have no session to spare yet.
    if (heard !== this.#heard) return false
    return work !== 'unknown' || performance.now() - this.#since >= this.#serverMs + GRACE_MS
  }

  get #bytesRead(): unknown {
    return Reflect.get(this.#connection.client.connection.stream, 'bytesRead')
  }
}

/** The server's word that it has ended the transaction may be under way. */
const GRACE_MS = 2_000
