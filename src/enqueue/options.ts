import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMs } from '../basics/duration.ts'
import { dateOf, integer, LARGEST_INTEGER, storable } from '../basics/options.ts'
import { expected, SluiceError } from '../errors.ts'
import type { Headers } from '../message.ts'
import { DEFAULTS, type InsertRow } from '../table/enqueue/insert-row.ts'
import { encodeJson } from './json.ts'

/** The options of one message. */
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

const LONGEST_TEXT_BYTES = 255

/**
 * The options as columns of the row.
 *
 * @param what the name of the object in errors, such as 'options' or 'messages[3]'
 * @throws SluiceError OPTION_INVALID, also for unknown options
 */
export function readOptions(options: unknown, what: string): Omit<InsertRow, 'payload'> {
  if (options === undefined) return DEFAULTS
  checkKeys(what, options, NAMES, "As in { delay: '5m', priority: 0 }")
  const given: Given = options
  const at = (name: (typeof NAMES)[number]): string => `${what}.${name}`
  return {
    type: typeOf(given.type, at('type')),
    schemaVersion: integer(at('schemaVersion'), given.schemaVersion, DEFAULTS.schemaVersion, 1, LARGEST_INTEGER),
    headers: headersOf(given.headers, at('headers')),
    orderingKey: textOf(given.orderingKey, at('orderingKey'), 'a string'),
    priority: integer(at('priority'), given.priority, DEFAULTS.priority, 0, 9),
    delayMs: given.delay === undefined ? DEFAULTS.delayMs : toMs(given.delay, at('delay')),
    dueAt: instantOf(given, what),
    maxAttempts: integer(at('maxAttempts'), given.maxAttempts, DEFAULTS.maxAttempts, 1, LARGEST_INTEGER),
  }
}

type Given = { readonly [Name in keyof EnqueueOptions]?: unknown }

function typeOf(value: unknown, what: string): string | null {
  const wanted = "dot-separated text such as 'order.paid', without spaces and *"
  const type = textOf(value, what, wanted)
  if (type === null || /^[^\s.*\p{Cc}]+(?:\.[^\s.*\p{Cc}]+)*$/u.test(type)) return type
  throw expected('OPTION_INVALID', what, wanted, value)
}

const AS_TEXT = 'Turn a number into a string with String(…)'

function textOf(value: unknown, what: string, wanted: string): string | null {
  if (value === undefined) return null
  if (typeof value !== 'string') throw expected('OPTION_INVALID', what, wanted, value, AS_TEXT)
  const bytes = Buffer.byteLength(value)
  if (bytes < 1 || bytes > LONGEST_TEXT_BYTES) {
    throw expected('OPTION_INVALID', what, `1 to ${LONGEST_TEXT_BYTES} bytes of text`, value)
  }
  return storable(what, value)
}

function headersOf(value: unknown, what: string): string {
  if (value === undefined) return DEFAULTS.headers
  const text = encodeJson(value, what, 'OPTION_INVALID')
  // Checked as JSON, because an object with toJSON may become anything.
  if (text.startsWith('{')) return text
  throw expected('OPTION_INVALID', what, 'an object of JSON values', value, "As in { trace: '4bf9' }")
}

function instantOf({ delay, dueAt }: Given, what: string): string | null {
  if (dueAt === undefined) return null
  if (delay !== undefined)
    throw new SluiceError('OPTION_INVALID', `${what}: expected delay or dueAt, received both. Leave one of them out`)
  const remedy = "As in new Date('2030-01-01'). For a time from now there is delay"
  return dateOf(`${what}.dueAt`, dueAt, remedy).toISOString()
}
