import { integer, LARGEST_INTEGER, storable } from '../basics/checks/options.ts'
import { expected } from '../errors.ts'
import { DEFAULTS, type RowLabels } from '../table/enqueue/insert-row.ts'
import { encodeJson } from './json.ts'

const LONGEST_TEXT_BYTES = 255

/** What messages and events can say of themselves, as given. */
export interface GivenLabels {
  readonly type?: unknown
  readonly schemaVersion?: unknown
  readonly headers?: unknown
  readonly orderingKey?: unknown
}

/** @throws SluiceError OPTION_INVALID */
export function readLabels(given: GivenLabels, what: string): RowLabels {
  return {
    type: typeOf(given.type, `${what}.type`),
    schemaVersion: integer(`${what}.schemaVersion`, given.schemaVersion, DEFAULTS.schemaVersion, 1, LARGEST_INTEGER),
    headers: headersOf(given.headers, `${what}.headers`),
    orderingKey: labelOf(given.orderingKey, `${what}.orderingKey`, 'a string'),
  }
}

/** @throws SluiceError OPTION_INVALID */
export function typeOf(value: unknown, what: string): string | null {
  const wanted = "dot-separated text such as 'order.paid', without spaces and *"
  const type = labelOf(value, what, wanted)
  if (type === null || /^[^\s.*\p{Cc}]+(?:\.[^\s.*\p{Cc}]+)*$/u.test(type)) return type
  throw expected('OPTION_INVALID', what, wanted, value)
}

const AS_TEXT = 'Turn a number into a string with String(…)'

/** 1 to 255 bytes of text, or null if none is given. @throws SluiceError OPTION_INVALID */
export function labelOf(value: unknown, what: string, wanted: string): string | null {
  if (value === undefined) return null
  if (typeof value !== 'string') throw expected('OPTION_INVALID', what, wanted, value, AS_TEXT)
  const bytes = Buffer.byteLength(value)
  if (bytes < 1 || bytes > LONGEST_TEXT_BYTES) {
    throw expected('OPTION_INVALID', what, `1 to ${LONGEST_TEXT_BYTES} bytes of text`, value)
  }
  return storable(what, value)
}

/** JSON of an object. @throws SluiceError OPTION_INVALID */
export function headersOf(value: unknown, what: string): string {
  if (value === undefined) return DEFAULTS.headers
  const text = encodeJson(value, what, 'OPTION_INVALID')
  // Checked as JSON, because an object with toJSON may become anything.
  if (text.startsWith('{')) return text
  throw expected('OPTION_INVALID', what, 'an object of JSON values', value, "As in { trace: '4bf9' }")
}
