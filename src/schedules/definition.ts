import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { type MessageRules, readMessage } from '../enqueue/read-message.ts'
import { expected, SluiceError } from '../errors.ts'
import { type EnqueueOptions, SCHEDULED_OPTIONS } from '../message-options.ts'
import { checkQueueName } from '../queues.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import type { Missed } from './decide.ts'
import type { Timing } from './times.ts'
import { timesOf } from './times-of.ts'
import { A_ZONE, EXAMPLES, isZone, timingRefused } from './timing-refused.ts'

/** A schedule: when, and which message. Give `cron` or `every`. */
export interface ScheduleDefinition<Name extends string = string, Payload = unknown>
  extends Omit<EnqueueOptions, 'dueAt' | 'dedupe'> {
  /** The queue that gets the messages. */
  readonly queue: Name
  /** What the handler gets: a value that JSON can hold; if the queue has a schema, one that it accepts. */
  readonly payload: Payload
  /** A cron expression of five fields, of six (with seconds first) or of seven (with years last): '0 3 * * *'. */
  readonly cron?: string | undefined
  /** Or an interval, 1 s to 366 days, counted from 1970-01-01 00:00 UTC: '15m' is at :00, :15, :30 and :45. */
  readonly every?: Duration | undefined
  /** The time zone of `cron`, as in 'Europe/Berlin'. @default 'UTC' */
  readonly zone?: string | undefined
  /**
   * What to do about occurrences that were not enqueued within `grace`: nothing, enqueue the last one, or enqueue all
   * within the bounds of `catchUp`. @default 'skip'
   */
  readonly missed?: Missed | undefined
  /** How late an occurrence may be without being missed, 1 second to 1 hour. @default '1m' */
  readonly grace?: Duration | undefined
  /** Bounds for missed occurrences. */
  readonly catchUp?:
    | {
        /** How many are enqueued at most, the latest; 1 to 1,000. @default 100 */
        readonly most?: number | undefined
        /** How old they may be, 1 minute to 366 days. @default '7d' */
        readonly within?: Duration | undefined
      }
    | undefined
  /** Whether to enqueue while the last message of this schedule is queued or in flight. @default true */
  readonly overlap?: boolean | undefined
}

/** A definition, complete and checked. */
export interface ScheduleToDefine {
  readonly name: string
  readonly queue: string
  readonly timing: Timing
  readonly missed: Missed
  readonly graceMs: number
  readonly catchUpMost: number
  readonly catchUpMs: number
  readonly overlap: boolean
  readonly message: InsertRow
}

/**
 * Reads a definition. croner accepts days that do not exist and notices a wrong time zone only when it computes, so the
 * first occurrence is computed here.
 *
 * @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, QUEUE_UNKNOWN, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA
 */
export async function readDefinition(rules: MessageRules, name: unknown, given: unknown): Promise<ScheduleToDefine> {
  const checked = checkScheduleName(name)
  checkKeys('schedule', given, KEYS, AS_SCHEDULE)
  const { queue, payload, cron, every, zone, missed, grace, catchUp, overlap, ...options }: GivenSchedule = given
  const queueName = checkQueueName(queue, rules.definitions)
  if (payload === undefined) {
    throw expected(
      'PAYLOAD_INVALID',
      'schedule.payload',
      'a value that JSON can hold',
      payload,
      'For none give null or {}',
    )
  }
  const { most, within } = catchUpOf(catchUp)
  const names = { payload: 'schedule.payload', options: 'schedule' }
  return {
    name: checked,
    queue: queueName,
    timing: await timingOf(cron, every, zone),
    missed: missedOf(missed),
    graceMs: toMsWithin('schedule.grace', grace ?? '1m', '1s', '1h'),
    catchUpMost: integer('schedule.catchUp.most', most, 100, 1, 1_000),
    catchUpMs: toMsWithin('schedule.catchUp.within', within ?? '7d', '1m', '366d'),
    overlap: overlapOf(overlap),
    message: await readMessage(rules, queueName, { payload, options }, names),
  }
}

/** The same rule as the table's constraint. @throws SluiceError OPTION_INVALID */
export function checkScheduleName(name: unknown): string {
  if (typeof name === 'string' && /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/.test(name)) return name
  const wanted = 'a name of 1 to 100 letters, digits and _ . : - (none of . : - first)'
  throw expected('OPTION_INVALID', 'schedule', wanted, name, "For example 'nightly-report'")
}

type GivenSchedule = { readonly [Key in keyof ScheduleDefinition]?: unknown }

const KEYS: readonly (keyof ScheduleDefinition)[] = [
  ...(['queue', 'payload', 'cron', 'every', 'zone', 'missed', 'grace', 'catchUp', 'overlap'] as const),
  ...SCHEDULED_OPTIONS.map(({ name }) => name),
]

const AS_SCHEDULE =
  "As in schedules.set('nightly', { cron: '0 3 * * *', zone: 'Europe/Berlin', queue: 'reports', payload: {} })"

async function timingOf(cron: unknown, every: unknown, zone: unknown): Promise<Timing> {
  if ((cron === undefined) === (every === undefined)) {
    const received = cron === undefined ? 'neither' : 'both'
    throw new SluiceError('OPTION_INVALID', `schedule: expected cron or every, received ${received}. ${AS_SCHEDULE}`)
  }
  if (every !== undefined) {
    if (zone !== undefined) {
      const sentence = 'schedule.zone: expected with cron, received with every'
      throw new SluiceError('OPTION_INVALID', `${sentence}. Intervals are counted from 1970 in UTC: leave zone out`)
    }
    return { cron: null, everyMs: toMsWithin('schedule.every', every, '1s', '366d'), zone: 'UTC' }
  }
  const timing = { cron: cronOf(cron), everyMs: null, zone: zoneOf(zone) }
  await checkOccurs(timing)
  return timing
}

function cronOf(cron: unknown): string {
  if (typeof cron === 'string' && /^[\x20-\x7e]{1,255}$/.test(cron)) return cron.trim().replaceAll(/ +/g, ' ')
  throw expected('OPTION_INVALID', 'schedule.cron', 'a cron expression', cron, EXAMPLES.cron)
}

function zoneOf(zone: unknown): string {
  if (zone === undefined) return 'UTC'
  if (isZone(zone)) return zone
  throw expected('OPTION_INVALID', 'schedule.zone', A_ZONE, zone, EXAMPLES.zone)
}

async function checkOccurs(timing: Timing): Promise<void> {
  let first: number | null
  try {
    first = (await timesOf(timing)).after(Date.now())
  } catch (error) {
    throw timingRefused(timing, error, EXAMPLES)
  }
  if (first !== null) return
  const wanted = 'a cron expression with an occurrence to come'
  throw expected('OPTION_INVALID', 'schedule.cron', wanted, timing.cron, 'Is there such a day?')
}

function missedOf(missed: unknown): Missed {
  if (missed === undefined) return 'skip'
  if (missed === 'skip' || missed === 'last' || missed === 'all') return missed
  throw expected('OPTION_INVALID', 'schedule.missed', "'skip', 'last' or 'all'", missed)
}

function overlapOf(overlap: unknown): boolean {
  if (overlap === undefined || typeof overlap === 'boolean') return overlap ?? true
  throw expected('OPTION_INVALID', 'schedule.overlap', 'true or false', overlap)
}

function catchUpOf(catchUp: unknown): { readonly most?: unknown; readonly within?: unknown } {
  if (catchUp === undefined) return {}
  checkKeys('schedule.catchUp', catchUp, ['most', 'within'], "As in { most: 10, within: '1d' }")
  return catchUp
}
