import { startTimer } from '../basics/time/start-timer.ts'
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
  #needs: Needs = { members: [], worker: false, fixed: 0 }
  #ending = false
  #reported = ''
  #timer: NodeJS.Timeout | undefined

  constructor(max: number | undefined, report: Report) {
    this.limited = max === undefined ? undefined : { max, seats: new Seats(max) }
    this.#report = report
  }

  /**
   * A pipeline is to run.
   *
   * @param options.briefly for a `runOnce`: its changes alone are not reported
   * @throws SluiceError OPTION_INVALID if there are too few connections for it
   */
  join({ queue, mode, concurrency }: Wanted, { briefly = false } = {}): Share {
    if (this.limited === undefined) return UNLIMITED
    const member: Member = { queue, mode, concurrency, limit: undefined }
    const change = (needs: Partial<Needs>) => {
      this.#change(needs)
      if (!briefly) this.#announceSoon()
    }
    change({ members: [...this.#needs.members, member] })
    return {
      govern: (limit) => {
        member.limit = limit
        change({})
      },
      want: (wanted) => {
        member.concurrency = wanted
        change({})
      },
      leave: () => {
        const { members } = this.#needs
        if (members.includes(member)) change({ members: members.filter((one) => one !== member) })
      },
    }
  }

  /** The process becomes a worker, with a control connection and a listener. @throws SluiceError OPTION_INVALID */
  work(): void {
    this.#change({ worker: true })
    this.#announceSoon()
  }

  /** So many more are needed for control and listening. @throws SluiceError OPTION_INVALID */
  fix(count: number): void {
    this.#change({ fixed: this.#needs.fixed + count })
    this.#announceSoon()
  }

  /** Undoes a {@link fix}. */
  free(count: number): void {
    this.fix(-count)
  }

  /** Reports what is planned, unless it has been. */
  announce(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { members, worker } = this.#needs
    if (this.limited === undefined || !worker || this.#ending || members.length === 0) return
    const { max } = this.limited
    const { shares, batches } = shared(max, this.#needs)
    const pipelines = members.map(({ queue, mode, concurrency }, at) => ({
      queue,
      mode,
      concurrency,
      batches: batches[at] ?? 0,
    }))
    const { claims, settlements, transactions, calls } = shares
    const control = controlOf(this.#needs)
    const plan = { max, pipelines, leased: claims + settlements + transactions, calls, control }
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

  /** Nothing has changed if it throws. @throws SluiceError OPTION_INVALID */
  #change(change: Partial<Needs>): void {
    if (this.limited === undefined) return
    const { max, seats } = this.limited
    const needs = { ...this.#needs, ...change }
    const { shares, batches } = shared(max, needs)
    this.#needs = needs
    seats.share(shares)
    for (const [at, member] of needs.members.entries()) {
      if (member.mode !== 'leased') member.limit?.(batches[at] ?? 1)
    }
  }

  /** Pipelines often start one after another. */
  #announceSoon(): void {
    if (this.#needs.worker) this.#timer ??= startTimer(() => this.announce(), SETTLED_MS).unref()
  }
}

interface Member extends Wanted {
  concurrency: number
  limit: ((batches: number) => void) | undefined
}

/** What connections are needed for. */
interface Needs {
  readonly members: readonly Member[]
  readonly worker: boolean
  /** For control and listening, beside what pipelines need: of those who wait for a claim. */
  readonly fixed: number
}

function shared(max: number, needs: Needs): Sharing {
  return shareConnections(max, controlOf(needs), needs.members)
}

function controlOf({ members, worker, fixed }: Needs): number {
  return (worker || members.length > 0 ? WAKE_UPS : 0) + fixed
}

const UNLIMITED: Share = { govern: () => undefined, want: () => undefined, leave: () => undefined }

/** A control connection and a listener. */
export const WAKE_UPS = 2

const SETTLED_MS = 100
