import type { Sleepers } from '../wake-up/sleepers.ts'
import type { Waiter, WakeReason } from '../wake-up/waiting-queue.ts'
import type { Claim } from './claim.ts'

/** Tries to claim. Undefined: there is nothing; paused: the queue is, so there is nothing to claim now. */
export type Take = () => Promise<Claim | 'paused' | undefined>

/** A call that waits for a claim. */
interface Request {
  readonly take: Take
  readonly done: PromiseWithResolvers<Claim | undefined>
  /** The caller has left. */
  over: boolean
}

/**
 * The calls of a process that wait for a claim of one queue. Only the first of them claims; when it has found something, the
 * next one does. So of many that wait one more claims than there are messages.
 */
export class ClaimLine implements Waiter {
  readonly queue: string
  readonly #sleepers: Sleepers
  readonly #onEmpty: () => void
  readonly #requests: Request[] = []
  #running: Promise<void> | undefined
  /** Something has happened since the last claim was sent. */
  #again = false
  #wake: (() => void) | undefined
  /** The last claim found the queue paused. */
  #paused = false
  #lastMs = Number.POSITIVE_INFINITY
  /** Before it no poll leads to a claim. */
  #restsUntil = 0

  /** @param onEmpty is called when the last one has left. The line is used no more then. */
  constructor(queue: string, sleepers: Sleepers, onEmpty: () => void) {
    this.queue = queue
    this.#sleepers = sleepers
    this.#onEmpty = onEmpty
  }

  /** Resolves when no claim is under way. */
  get ended(): Promise<void> {
    return this.#running ?? Promise.resolve()
  }

  /** Waits in line. Resolves with a claim, or with undefined when the signal aborts. */
  async wait(take: Take, signal: AbortSignal): Promise<Claim | undefined> {
    const request: Request = { take, done: Promise.withResolvers(), over: false }
    const leave = () => this.#leave(request)
    this.#requests.push(request)
    this.#running ??= this.#run()
    signal.addEventListener('abort', leave)
    if (signal.aborted) leave()
    try {
      return await request.done.promise
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  wake(reason: WakeReason): void {
    if (reason === 'poll' && performance.now() < this.#restsUntil) this.#asleep()
    else this.checkAgain(reason)
  }

  checkAgain(_reason: WakeReason): void {
    this.#again = true
    this.#wake?.()
  }

  #leave(request: Request): void {
    request.over = true
    const at = this.#requests.indexOf(request)
    if (at >= 0) this.#requests.splice(at, 1)
    request.done.resolve(undefined)
    if (this.#requests.length === 0) this.#wake?.()
  }

  async #run(): Promise<void> {
    this.#sleepers.attach(this)
    try {
      for (let first = this.#requests[0]; first !== undefined; first = this.#requests[0]) {
        this.#again = false
        if (!(await this.#serve(first)) && !this.#again) await this.#sleep()
      }
    } finally {
      this.#running = undefined
      this.#sleepers.detach(this)
      this.#onEmpty()
    }
  }

  /** Returns whether there may be more. */
  async #serve(request: Request): Promise<boolean> {
    try {
      const started = performance.now()
      const claim = await request.take()
      this.#paused = claim === 'paused'
      if (claim === undefined || claim === 'paused') {
        this.#rest(performance.now() - started)
        return false
      }
      // The caller has left meanwhile.
      if (request.over) await claim.release()
      request.done.resolve(claim)
    } catch (error) {
      request.done.reject(error)
    }
    const at = this.#requests.indexOf(request)
    if (at >= 0) this.#requests.splice(at, 1)
    this.#sleepers.awake(this)
    return true
  }

  /**
   * A claim that finds nothing may have read a long backlog of closed keys: for the poll it may take a twentieth of the
   * time at most. If it only waited, for a lock or a connection, the next one is fast again.
   */
  #rest(tookMs: number): void {
    const slowMs = Math.min(tookMs, this.#lastMs)
    this.#lastMs = tookMs
    this.#restsUntil = performance.now() + Math.min(slowMs * 20, LONGEST_REST_MS)
  }

  /** While the queue is paused the poll alone wakes it, and a notification that it goes on: producers need not notify. */
  #asleep(): void {
    this.#sleepers.asleep(this, null, this.#paused ? 'quiet' : 'flag')
  }

  async #sleep(): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    this.#asleep()
    if (this.#requests.length > 0) await woken
    this.#wake = undefined
  }
}

const LONGEST_REST_MS = 60_000
