import { startTimer } from '../basics/start-timer.ts'
import { Seats } from '../connection/seats.ts'
import { type Sharing, shareConnections, type Wanted } from '../plan/share-connections.ts'
import type { Report } from '../telemetry/events.ts'

/** What is planned for a pipeline. */
export interface Share {
  /** Hears, now and after each change, how many batches it may have in flight. */
  govern(limit: (batches: number) => void): void
  /** It wants another concurrency. */
  want(concurrency: number): void
  leave(): void
}

/** The number of connections of a process, where it is limited. */
export interface Limited {
  readonly max: number
  readonly seats: Seats
}

/** Shares the connections of a process out among its pipelines, where `maxConnections` limits them. */
export class ConnectionPlan {
  readonly limited: Limited | undefined
  readonly #report: Report
  readonly #members = new Map<object, Member>()
  /** For control and listening, beside what pipelines need: of those who wait for a claim. */
  #fixed = 0
  #worker = false
  #ending = false
  #reported = ''
  #timer: NodeJS.Timeout | undefined

  constructor(max: number | undefined, report: Report) {
    this.limited = max === undefined ? undefined : { max, seats: new Seats(max) }
    this.#report = report
  }

  /** A pipeline is to run. @throws SluiceError OPTION_INVALID if there are too few connections for it */
  join({ queue, mode, concurrency }: Wanted): Share {
    if (this.limited === undefined) return UNLIMITED
    const member: Member = { queue, mode, concurrency, limit: undefined }
    const key = {}
    this.#change(
      () => this.#members.set(key, member),
      () => this.#members.delete(key),
    )
    return {
      govern: (limit) => {
        member.limit = limit
        this.#replan()
      },
      want: (wanted) => {
        member.concurrency = wanted
        this.#replan()
      },
      leave: () => {
        if (this.#members.delete(key)) this.#replan()
      },
    }
  }

  /** The process becomes a worker, with a control connection and a listener. @throws SluiceError OPTION_INVALID */
  work(): void {
    const before = this.#worker
    this.#change(
      () => {
        this.#worker = true
      },
      () => {
        this.#worker = before
      },
    )
  }

  /** So many more are needed for control and listening. @throws SluiceError OPTION_INVALID */
  fix(count: number): void {
    this.#change(
      () => {
        this.#fixed += count
      },
      () => {
        this.#fixed -= count
      },
    )
  }

  free(count: number): void {
    this.#fixed -= count
    this.#replan()
  }

  /** Reports what is planned, unless it has been. */
  announce(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.limited === undefined || !this.#worker || this.#ending || this.#members.size === 0) return
    const { max } = this.limited
    const { shares, batches } = this.#share(max)
    const pipelines = [...this.#members.values()].map(({ queue, mode, concurrency }, at) => ({
      queue,
      mode,
      concurrency,
      batches: batches[at] ?? 0,
    }))
    const { claims, settlements, transactions, calls } = shares
    const plan = { max, pipelines, leased: claims + settlements + transactions, calls, control: this.#control }
    const text = JSON.stringify(plan)
    if (text === this.#reported) return
    this.#reported = text
    this.#report({ kind: 'connections.planned', ...plan })
  }

  /** The process stops: that the pipelines end one after another is not reported. */
  end(): void {
    this.#ending = true
    clearTimeout(this.#timer)
  }

  #change(make: () => void, undo: () => void): void {
    if (this.limited === undefined) return
    make()
    try {
      this.#replan()
    } catch (error) {
      undo()
      throw error
    }
  }

  #replan(): void {
    if (this.limited === undefined) return
    const { max, seats } = this.limited
    const { shares, batches } = this.#share(max)
    seats.share(shares)
    for (const [at, member] of [...this.#members.values()].entries()) {
      if (member.mode !== 'leased') member.limit?.(batches[at] ?? 1)
    }
    // Pipelines often start one after another.
    if (this.#worker) this.#timer ??= startTimer(() => this.announce(), SETTLED_MS).unref()
  }

  #share(max: number): Sharing {
    return shareConnections(max, this.#control, [...this.#members.values()])
  }

  get #control(): number {
    return (this.#worker || this.#members.size > 0 ? WAKE_UPS : 0) + this.#fixed
  }
}

interface Member extends Wanted {
  concurrency: number
  limit: ((batches: number) => void) | undefined
}

const UNLIMITED: Share = { govern: () => undefined, want: () => undefined, leave: () => undefined }

/** A control connection and a listener. */
export const WAKE_UPS = 2

const SETTLED_MS = 100
