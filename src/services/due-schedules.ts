import { Backoff } from '../basics/time/backoff.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import type { Control } from '../connection/control.ts'
import { errorText, isSluiceError, toError } from '../errors.ts'
import { decide, judgedAt, type Missed, type ScheduleDecision } from '../schedules/decide.ts'
import type { Times, Timing } from '../schedules/times.ts'
import { timesOf } from '../schedules/times-of.ts'
import { defineAgain, timingRefused } from '../schedules/timing-refused.ts'
import type { Alphabet } from '../session/alphabet.ts'
import {
  failSchedule,
  fireSchedule,
  planSchedule,
  readNextSchedules,
  type ScheduleRow,
} from '../table/schedule/run-schedules.ts'
import type { Execute } from '../table/statement.ts'
import type { Report } from '../telemetry/events.ts'
import type { Service } from './service.ts'

export interface SchedulesOptions {
  /** Reads what is due. It never writes: an enqueue on it would not wake this process, which has the queue's flag there. */
  readonly control: Pick<Control, 'execute'>
  /** Enqueues, in a transaction of its own. */
  readonly inTransaction: <T>(work: (execute: Execute) => Promise<T>, answerMs?: number) => Promise<T>
  /** The characters of the database. */
  readonly alphabet: Alphabet
  readonly report: Report
}

/**
 * Enqueues what schedules say. Every worker process does this, side by side: the table decides who enqueues an occurrence.
 * It sends nothing until {@link due} is called, when there is a schedule; then it sleeps until the next occurrence.
 */
export class DueSchedules implements Service<number> {
  readonly #options: SchedulesOptions
  /** Those that failed in this process, and when it tries again. */
  readonly #failed = new Map<string, Failed>()
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #running: Promise<number> | undefined
  /** Something has fallen due since the pass under way has read what is. */
  #again = false
  #stopped = true
  #stopping = false
  /** While there is always more that is due: since when this process has looked, and when last, by the database's clock. */
  #looking: { readonly sinceMs: number; readonly lastMs: number } | undefined
  /** A schedule that this pass has fired is due still. */
  #behind = false

  constructor(options: SchedulesOptions) {
    this.#options = options
  }

  start(): void {
    this.#stopped = false
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#disarm()
    this.#stopping = true
    await this.#running?.catch(() => undefined)
    this.#stopping = false
  }

  /** A poll has found when the next schedule is due. */
  due(inMs: number): void {
    if (this.#stopped) return
    const at = performance.now() + Math.max(0, inMs)
    if (at >= this.#timerAt) return
    this.#disarm()
    this.#timerAt = at
    // Rounded up, so that it does not look too early.
    this.#timer = startTimer(() => this.#wake(), Math.ceil(Math.max(0, inMs)))
  }

  /** Enqueues what is due now. Returns how many messages this process has enqueued. */
  runOnce(): Promise<number> {
    this.#running ??= this.#pass().finally(() => {
      this.#running = undefined
      if (this.#again) this.due(0)
      this.#again = false
    })
    return this.#running
  }

  #wake(): void {
    this.#disarm()
    this.#again = this.#running !== undefined
    // If it fails, the connection is down, and its loss is reported elsewhere. The next poll begins anew.
    this.runOnce().catch(() => undefined)
  }

  #disarm(): void {
    clearTimeout(this.#timer)
    this.#timerAt = Number.POSITIVE_INFINITY
  }

  async #pass(): Promise<number> {
    const rows = await readNextSchedules(this.#options.control.execute, AT_A_TIME + 1, this.#waiting())
    this.#look(rows[0]?.nowMs)
    let enqueued = 0
    let idle = true
    for (const row of rows.slice(0, AT_A_TIME)) {
      if (this.#stopping) return enqueued
      if (row.nextMs > row.nowMs) {
        this.due(row.nextMs - row.nowMs)
        break
      }
      const handled = await this.#handle(row)
      enqueued += handled ?? 0
      idle &&= handled === undefined
    }
    // Others are due behind these, or were when this began. If all of these were in the hands of other processes, they may
    // be so still.
    const next = rows[AT_A_TIME]
    if (next !== undefined) this.due(Math.max(next.nextMs - next.nowMs, idle ? IDLE_MS : 0))
    if (!this.#behind && (next === undefined || next.nextMs > next.nowMs)) this.#looking = undefined
    return enqueued
  }

  /** A process that stood still did not look. */
  #look(nowMs = 0): void {
    const { sinceMs = nowMs, lastMs = nowMs } = this.#looking ?? {}
    this.#looking = { sinceMs: nowMs - lastMs < STOOD_STILL_MS ? sinceMs : nowMs, lastMs: nowMs }
    this.#behind = false
  }

  /**
   * Those that failed here and are not to be tried yet: while there are others, none of them. Their next_at has passed, so
   * they would come before all others.
   */
  #waiting(): readonly Failed[] {
    const now = performance.now()
    return [...this.#failed.values()].filter(({ untilMs }) => this.#looking !== undefined || now < untilMs)
  }

  /** How many messages this process has enqueued; undefined: another process enqueues for the schedule. */
  async #handle(row: ScheduleRow): Promise<number | undefined> {
    try {
      const times = await timesOfRow(row)
      const enqueued = row.planned ? await this.#fire(row, times) : await this.#plan(row, times)
      this.#failed.delete(row.name)
      return enqueued
    } catch (error) {
      await this.#fail(row, error)
      return 0
    }
  }

  async #plan(row: ScheduleRow, times: Times): Promise<0> {
    // After it was defined or resumed, or was to be tried again, however long ago: what no worker enqueued then may be missed.
    const next = times.after(row.nextMs)
    await this.#options.inTransaction((execute) => planSchedule(execute, row, next), ANSWER_MS)
    if (next !== null) this.due(next - row.nowMs)
    return 0
  }

  async #fire(row: ScheduleRow, times: Times): Promise<number | undefined> {
    const due = { ...row, missed: missedOf(row.missed) }
    const decision = decide(times, { ...due, nowMs: judgedAt(due, this.#looking?.sinceMs ?? row.nowMs) })
    const fired = await this.#options.inTransaction((execute) => fireSchedule(execute, row, decision), ANSWER_MS)
    if (decision.following !== null) this.due(decision.following - row.nowMs)
    this.#behind ||= decision.following !== null && decision.following <= row.nowMs
    if (fired === undefined) return undefined
    let enqueued = 0
    for (const { id, occurrence } of fired) {
      if (id === null) continue
      enqueued += 1
      const lateMs = Math.max(0, Math.round(row.nowMs - occurrence.getTime()))
      this.#options.report({
        kind: 'schedule.fired',
        queue: row.queue,
        schedule: row.name,
        id,
        scheduledFor: occurrence,
        lateMs,
      })
    }
    this.#reportMissed(row, decision, fired.length - enqueued)
    return enqueued
  }

  #reportMissed({ queue, name }: ScheduleRow, { skipped }: ScheduleDecision, overlapping: number): void {
    const about = { kind: 'schedule.missed', queue, schedule: name } as const
    if (skipped > 0) this.#options.report({ ...about, occurrences: skipped, reason: 'late' })
    if (overlapping > 0) this.#options.report({ ...about, occurrences: overlapping, reason: 'overlap' })
  }

  async #fail(row: ScheduleRow, thrown: unknown): Promise<void> {
    // Whether a COMMIT took effect, the next look at the table shows.
    const unclear = isSluiceError(thrown, 'UNREACHABLE') || isSluiceError(thrown, 'COMMIT_FAILED')
    const { name, revision } = row
    const had = this.#failed.get(name)
    const backoff = had?.revision === revision ? had.backoff : new Backoff(1_000, 60_000)
    const retryInMs = backoff.next()
    this.#failed.set(name, { name, revision, untilMs: performance.now() + retryInMs, backoff })
    const error = toError(thrown)
    this.#options.report({ kind: 'schedule.failed', queue: row.queue, schedule: row.name, error, retryInMs })
    if (unclear || this.#stopped) return
    const text = errorText(error)
    await this.#options.inTransaction((execute) => this.#keep(execute, row, text), ANSWER_MS).catch(() => undefined)
  }

  async #keep(execute: Execute, row: ScheduleRow, text: string): Promise<void> {
    const { alphabet } = this.#options
    await alphabet.learnUnknown(execute, [text])
    await failSchedule(execute, row, alphabet.fit(text))
  }
}

interface Failed {
  readonly name: string
  readonly revision: string
  readonly untilMs: number
  readonly backoff: Backoff
}

const AT_A_TIME = 100
const IDLE_MS = 1_000
const STOOD_STILL_MS = 60_000
const ANSWER_MS = 10_000

async function timesOfRow(row: ScheduleRow): Promise<Times> {
  const timing = timingOf(row)
  try {
    return await timesOf(timing)
  } catch (error) {
    throw timingRefused(timing, error, defineAgain(row.name, row.queue))
  }
}

function timingOf({ cron, everyMs, zone }: ScheduleRow): Timing {
  if (cron !== null) return { cron, everyMs: null, zone }
  if (everyMs !== null) return { cron: null, everyMs, zone }
  throw new TypeError('expected a schedule with a cron expression or an interval')
}

function missedOf(text: string): Missed {
  if (text === 'skip' || text === 'last' || text === 'all') return text
  throw new TypeError(`missed: ${text}`)
}
