import { didYouMean } from '../basics/check-keys.ts'
import { type Duration, toMs } from '../basics/duration.ts'
import { nearest } from '../basics/nearest.ts'
import { expected, SluiceError } from '../errors.ts'
import type { Headers } from '../message.ts'
import { DEFAULTS, type InsertRow } from '../table/insert-row.ts'
import { encodeJson } from './json.ts'

/** What one message may be given beside its payload. */
export interface EnqueueOptions {
  /** Dot-separated, such as 'order.paid', for routes: 1 to 255 bytes, no spaces, no `*`. Default none. */
  readonly type?: string | undefined
  /** The version of the payload's schema, from 1. @default 1 */
  readonly schemaVersion?: number | undefined
  /** Metadata that travels with the message. @default {} */
  readonly headers?: Headers | undefined
  /** Messages with the same key are handled one at a time, in the order of their ids: 1 to 255 bytes. Default none. */
  readonly orderingKey?: string | undefined
  /** 0 (first) to 9. Messages with an ordering key go by their order instead. @default 5 */
  readonly priority?: number | undefined
  /** Due this long after the insert, by the database's clock. @default 0 */
  readonly delay?: Duration | undefined
  /** Due at this instant, by the database's clock; at once if it has passed. Not together with `delay`. */
  readonly dueAt?: Date | undefined
  /** After how many failed attempts the message goes to the dead letters, from 1. Default: as the pipeline says. */
  readonly maxAttempts?: number | undefined
}

const NAMES = [
  'type',
  'schemaVersion',
  'headers',
  'orderingKey',
  'priority',
  'delay',
  'dueAt',
  'maxAttempts',
] as const satisfies readonly (keyof EnqueueOptions)[]

const LARGEST_INTEGER = 2_147_483_647
const LONGEST_TEXT_BYTES = 255

/**
 * The columns that options ask for.
 *
 * @param what what the object is called in errors: 'options', 'messages[3]'
 * @throws SluiceError OPTION_INVALID, for unknown options too
 */
export function readOptions(options: unknown, what: string): Omit<InsertRow, 'payload'> {
  if (options === undefined) return DEFAULTS
  const given = namedOnly(options, what)
  const at = (name: (typeof NAMES)[number]): string => `${what}.${name}`
  return {
    type: typeOf(given.type, at('type')),
    schemaVersion: integerOf(given.schemaVersion, at('schemaVersion'), 1, LARGEST_INTEGER) ?? DEFAULTS.schemaVersion,
    headers: headersOf(given.headers, at('headers')),
    orderingKey: textOf(given.orderingKey, at('orderingKey'), 'a text'),
    priority: integerOf(given.priority, at('priority'), 0, 9) ?? DEFAULTS.priority,
    delayMs: given.delay === undefined ? DEFAULTS.delayMs : toMs(given.delay, at('delay')),
    dueAt: instantOf(given, what),
    maxAttempts: integerOf(given.maxAttempts, at('maxAttempts'), 1, LARGEST_INTEGER) ?? DEFAULTS.maxAttempts,
  }
}

type Given = { readonly [Name in keyof EnqueueOptions]?: unknown }

function namedOnly(options: unknown, what: string): Given {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw expected('OPTION_INVALID', what, 'an object', options, "As in { delay: '5m', priority: 0 }")
  }
  const unknown = Object.keys(options).find((key) => !NAMES.some((name) => name === key))
  if (unknown === undefined) return options
  const meant = nearest(unknown, NAMES)
  const remedy = meant.length === 0 ? 'There is no such option' : didYouMean(meant)
  throw expected('OPTION_INVALID', what, `only the options ${NAMES.join(', ')}`, unknown, remedy)
}

function typeOf(value: unknown, what: string): string | null {
  const wanted = "dot-separated text such as 'order.paid', without spaces and *"
  const type = textOf(value, what, wanted)
  if (type === null || /^[^\s.*\p{Cc}]+(?:\.[^\s.*\p{Cc}]+)*$/u.test(type)) return type
  throw expected('OPTION_INVALID', what, wanted, value)
}

const AS_TEXT = 'Make a number or an id a text with String(…)'

function textOf(value: unknown, what: string, wanted: string): string | null {
  if (value === undefined) return null
  if (typeof value !== 'string') throw expected('OPTION_INVALID', what, wanted, value, AS_TEXT)
  const bytes = Buffer.byteLength(value)
  if (bytes < 1 || bytes > LONGEST_TEXT_BYTES) {
    throw expected('OPTION_INVALID', what, `1 to ${LONGEST_TEXT_BYTES} bytes of text`, value)
  }
  if (!value.includes('\0') && value.isWellFormed()) return value
  throw expected('OPTION_INVALID', what, 'text without NUL characters and lone surrogates', value)
}

function integerOf(value: unknown, what: string, least: number, most: number): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  throw expected('OPTION_INVALID', what, `an integer from ${least} to ${most}`, value)
}

function headersOf(value: unknown, what: string): string {
  if (value === undefined) return DEFAULTS.headers
  const text = encodeJson(value, what, 'OPTION_INVALID')
  // Judged by its JSON, because an object with toJSON may become anything.
  if (text.startsWith('{')) return text
  throw expected('OPTION_INVALID', what, 'an object of JSON values', value, "As in { trace: '4bf9' }")
}

function instantOf({ delay, dueAt }: Given, what: string): string | null {
  if (dueAt === undefined) return null
  if (delay !== undefined)
    throw new SluiceError('OPTION_INVALID', `${what}: expected delay or dueAt, received both. Leave one of them out`)
  if (dueAt instanceof Date) {
    const year = dueAt.getUTCFullYear()
    // Outside these years ISO 8601 and timestamptz write years differently. An invalid date has no year at all.
    if (year >= 1 && year <= 9999) return dueAt.toISOString()
  }
  const remedy = "As in new Date('2030-01-01'). For a time from now there is delay"
  throw expected('OPTION_INVALID', `${what}.dueAt`, 'a valid Date in the years 1 to 9999', dueAt, remedy)
}
