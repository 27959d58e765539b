import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { hasSqlState } from '../basics/errors/sql-state.ts'
import { checkAlphabet } from '../enqueue/alphabet-check.ts'
import type { OpenTransaction } from '../enqueue/open-transaction.ts'
import type { MessageRules } from '../enqueue/read-message.ts'
import { SluiceError } from '../errors.ts'
import { checkQueueName, type InputOf, type QueueDefinitions, type QueueName } from '../queues.ts'
import { checkScheduleName, readDefinition, type ScheduleDefinition } from '../schedules/definition.ts'
import type { Times } from '../schedules/times.ts'
import { timesOf } from '../schedules/times-of.ts'
import { defineAgain, timingRefused } from '../schedules/timing-refused.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { readClockUs } from '../table/dates.ts'
import { type Explanation, explainSchedule } from '../table/operate/explanations.ts'
import { readSchedules, type ScheduleStatus } from '../table/operate/schedule-status.ts'
import {
  defineSchedule,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  runScheduleNow,
  type ScheduleOutcome,
} from '../table/schedule/define-schedule.ts'
import type { Operations } from './operations.ts'
import { limit, readFields, text, unchecked } from './options.ts'

/** What `schedules.set` has done. */
export interface DefinedSchedule {
  /** `'unchanged'`: it was defined in the same way already, and nothing was written. */
  readonly outcome: ScheduleOutcome
  /** Its next occurrence by the database's clock, unless it is paused; null: there is none. */
  readonly nextAt: Date | null
}

/** How to change a schedule. */
export interface ScheduleChangeOptions {
  /** Your open transaction, of any client that `enqueue` takes. Default: one of Sluice's own. */
  readonly tx?: OpenTransaction | undefined
}

/** What {@link Schedules.pause} takes. */
export interface SchedulePauseOptions extends ScheduleChangeOptions {
  /** Why, for others to see. */
  readonly reason?: string | undefined
  /** Who. Default: the login. */
  readonly by?: string | undefined
}

/** The rules for messages, and the characters that the database can hold. */
export interface ScheduleRules extends MessageRules {
  readonly alphabet: Alphabet
}

/** `sluice.schedules`, and `sluice.operate.schedules` */
export type Schedules<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Makes a schedule, or changes it: it enqueues messages at given times, each occurrence once, by whichever started
   * Sluice of the database looks first. Call it at every start: a schedule that is defined in the same way already is
   * left alone.
   *
   * @param name 1 to 100 letters, digits and _ . : -, unique in the database.
   * @throws SluiceError as {@link Operate}; OPTION_INVALID also for a cron expression without an occurrence and for an unknown time
   * zone; PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA
   *
   * @example
   * await sluice.schedules.set('nightly', { cron: '0 3 * * *', zone: 'Europe/Berlin', queue: 'reports', payload: { all: true } })
   */
  set<Name extends QueueName<Definitions>>(
    name: string,
    definition: ScheduleDefinition<Name, InputOf<Definitions, Name>>,
    options?: ScheduleChangeOptions,
  ): Promise<DefinedSchedule>

  /**
   * Lists the schedules by name.
   *
   * @param options.queue only those of this queue.
   * @param options.limit 1 to 10,000. @default 1000
   * @throws SluiceError as {@link Operate}
   */
  list(options?: {
    readonly queue?: QueueName<Definitions>
    readonly limit?: number
  }): Promise<readonly ScheduleStatus[]>

  /** One schedule; undefined if there is none. @throws SluiceError as {@link Operate} */
  get(name: string): Promise<ScheduleStatus | undefined>

  /**
   * Explains why a schedule has not enqueued a message, and what it has done: the main reason and the others. One that does
   * not exist has the reason `not_found`.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { headline } = await sluice.schedules.explain('nightly')
   */
  explain(name: string): Promise<Explanation>

  /**
   * Pauses a schedule: it enqueues nothing until {@link resume}. {@link set} does not resume it.
   *
   * @returns false if it is paused already.
   * @throws SluiceError SCHEDULE_UNKNOWN, and as {@link set}
   */
  pause(name: string, options?: SchedulePauseOptions): Promise<boolean>

  /**
   * Ends the pause of a schedule. Occurrences during the pause are not enqueued.
   *
   * @returns false if it is not paused.
   * @throws SluiceError as {@link pause}
   */
  resume(name: string, options?: ScheduleChangeOptions): Promise<boolean>

  /**
   * Enqueues a message of a schedule now, also while it is paused. Its times stay as they are.
   *
   * @returns its id; undefined if the schedule has `overlap: false` and its last message is still there.
   * @throws SluiceError as {@link pause}
   */
  runNow(name: string, options?: ScheduleChangeOptions): Promise<string | undefined>

  /**
   * Deletes a schedule. The messages that it has enqueued stay.
   *
   * @returns false if there is none.
   * @throws SluiceError as {@link set}
   */
  delete(name: string, options?: ScheduleChangeOptions): Promise<boolean>

  /**
   * Computes the next occurrences of a schedule, unless it is paused or changed.
   *
   * @param count 1 to 1,000. @default 5
   * @throws SluiceError SCHEDULE_UNKNOWN, OPTION_INVALID if this process does not know its zone, and as {@link Operate}
   */
  next(name: string, count?: number): Promise<readonly Date[]>
}

/** Answers the calls of {@link Schedules}. */
export class SchedulesInDatabase implements Schedules {
  readonly #rules: ScheduleRules
  readonly #operations: Operations

  constructor(rules: ScheduleRules, operations: Operations) {
    this.#rules = rules
    this.#operations = operations
  }

  async set(
    name: string,
    definition: ScheduleDefinition,
    options: ScheduleChangeOptions = {},
  ): Promise<DefinedSchedule> {
    checkKeys('options', options, ['tx'], 'As in schedules.set(name, definition, { tx })')
    const schedule = await readDefinition(this.#rules, name, definition)
    const times = await timesOf(schedule.timing)
    return this.#operations.administer(async (execute) => {
      await checkAlphabet(this.#rules.alphabet, execute, [schedule.message], () => NAMES)
      const next = times.after((await readClockUs(execute)) / 1_000)
      return { outcome: await defineSchedule(execute, schedule, next), nextAt: toDate(next) }
    }, options.tx)
  }

  async list(options: { readonly queue?: string; readonly limit?: number } = {}): Promise<readonly ScheduleStatus[]> {
    const queue = (name: unknown) => (name === undefined ? null : checkQueueName(name, this.#rules.definitions))
    const readers = { queue, limit: limit(1_000) }
    const match = readFields('schedules.list', options, readers, "As in schedules.list({ queue: 'emails' })")
    return this.#operations.count((execute) => readSchedules(execute, { ...match, name: null }))
  }

  async get(name: string): Promise<ScheduleStatus | undefined> {
    const match = { queue: null, name: checkScheduleName(name), limit: 1 }
    const [found] = await this.#operations.count((execute) => readSchedules(execute, match))
    return found
  }

  async explain(name: string): Promise<Explanation> {
    const checked = checkScheduleName(name)
    return this.#operations.read((execute) => explainSchedule(execute, checked))
  }

  async pause(name: string, options: SchedulePauseOptions = {}): Promise<boolean> {
    const remedy = "As in schedules.pause(name, { reason: 'too slow' })"
    const { reason, by } = readFields('schedules.pause', options, PAUSE, remedy)
    return this.#change(name, options, (execute, checked) => pauseSchedule(execute, checked, reason, by))
  }

  async resume(name: string, options: ScheduleChangeOptions = {}): Promise<boolean> {
    checkKeys('schedules.resume', options, ['tx'], 'As in schedules.resume(name, { tx })')
    return this.#change(name, options, resumeSchedule)
  }

  async runNow(name: string, options: ScheduleChangeOptions = {}): Promise<string | undefined> {
    checkKeys('schedules.runNow', options, ['tx'], 'As in schedules.runNow(name, { tx })')
    return (await this.#change(name, options, runScheduleNow)) ?? undefined
  }

  async delete(name: string, options: ScheduleChangeOptions = {}): Promise<boolean> {
    checkKeys('schedules.delete', options, ['tx'], 'As in schedules.delete(name, { tx })')
    return this.#change(name, options, deleteSchedule, 'administer')
  }

  async next(name: string, count?: number): Promise<readonly Date[]> {
    const wanted = integer('count', count, 5, 1, 1_000)
    const match = { queue: null, name: checkScheduleName(name), limit: 1 }
    const [nowUs, [found]] = await this.#operations.count((execute) =>
      Promise.all([readClockUs(execute), readSchedules(execute, match)]),
    )
    if (found === undefined) throw unknownSchedule(match.name)
    const times = await timesOfStatus(found)
    const dates: Date[] = []
    for (let ms = times.after(nowUs / 1_000); ms !== null && dates.length < wanted; ms = times.after(ms)) {
      dates.push(new Date(ms))
    }
    return dates
  }

  async #change<T>(
    name: string,
    { tx }: ScheduleChangeOptions,
    work: (execute: Parameters<typeof readClockUs>[0], name: string) => Promise<T>,
    by: 'change' | 'administer' = 'change',
  ): Promise<T> {
    const checked = checkScheduleName(name)
    try {
      return await this.#operations[by]((execute) => work(execute, checked), tx)
    } catch (error) {
      throw hasSqlState(error, UNKNOWN) ? unknownSchedule(checked, error) : error
    }
  }
}

const PAUSE = { tx: unchecked, reason: text, by: text }

const NAMES = { payload: 'schedule.payload', options: 'schedule' }

/** Raised by the functions of the schema. */
const UNKNOWN = 'SL070'

function unknownSchedule(name: string, cause?: unknown): SluiceError {
  const sentence = `Schedule "${name}": expected one that has been defined, received one that is unknown`
  return new SluiceError('SCHEDULE_UNKNOWN', `${sentence}. See schedules.list()`, { cause })
}

async function timesOfStatus({ name, queue, cron, everyMs, zone }: ScheduleStatus): Promise<Times> {
  const timing = cron === null ? { cron, everyMs: everyMs ?? 0, zone } : { cron, everyMs: null, zone }
  try {
    return await timesOf(timing)
  } catch (error) {
    throw timingRefused(timing, error, defineAgain(name, queue))
  }
}

function toDate(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
