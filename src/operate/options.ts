import { expected } from '../errors.ts'

/** A message's id. @throws SluiceError OPTION_INVALID */
export function checkId(id: unknown, what: string): string {
  if (typeof id === 'string' && /^\d{1,19}$/.test(id) && BigInt(id) <= LARGEST_ID) return id
  throw expected('OPTION_INVALID', what, "a message's id, which is digits as text", id)
}

const LARGEST_ID = 2n ** 63n - 1n

/** @throws SluiceError OPTION_INVALID */
export function idsOf(ids: unknown, what: string): readonly string[] {
  if (!Array.isArray(ids)) throw expected('OPTION_INVALID', what, 'an array of ids', ids)
  return ids.map((id: unknown, at) => checkId(id, `${what}[${at}]`))
}

/** How many rows to return. @throws SluiceError OPTION_INVALID */
export function limitOf(limit: unknown, what: string, byDefault: number): number {
  return integerOf(limit, what, 1, 10_000) ?? byDefault
}

/** @throws SluiceError OPTION_INVALID */
export function integerOf(value: unknown, what: string, least: number, most: number): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  throw expected('OPTION_INVALID', what, `an integer from ${least} to ${most}`, value)
}

/** @throws SluiceError OPTION_INVALID */
export function textOf(value: unknown, what: string): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && !value.includes('\0') && value.isWellFormed()) return value
  throw expected('OPTION_INVALID', what, 'text without NUL characters and lone surrogates', value)
}

/** @throws SluiceError OPTION_INVALID */
export function booleanOf(value: unknown, what: string): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value
  throw expected('OPTION_INVALID', what, 'true or false', value)
}

/** An instant in microseconds since 1970; null if there is none. @throws SluiceError OPTION_INVALID */
export function microsecondsOf(value: unknown, what: string): number | null {
  if (value === undefined) return null
  if (value instanceof Date) {
    const year = value.getUTCFullYear()
    if (year >= 1 && year <= 9999) return value.getTime() * 1_000
  }
  throw expected('OPTION_INVALID', what, 'a valid Date in the years 1 to 9999', value)
}
