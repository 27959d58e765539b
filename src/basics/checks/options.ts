import { expected, SluiceError } from '../../errors.ts'

/** What a column of the type integer holds at most. */
export const LARGEST_INTEGER = 2_147_483_647

/** The integer, or the default if it is undefined. @throws SluiceError OPTION_INVALID outside `least`..`most`. */
export function integer<Default extends number | null>(
  what: string,
  value: unknown,
  byDefault: Default,
  least: number,
  most: number,
  remedy?: string,
): number | Default {
  return value === undefined ? byDefault : integerWithin(what, value, least, most, remedy)
}

/** @throws SluiceError OPTION_INVALID for anything but an integer in `least`..`most`. */
export function integerWithin(what: string, value: unknown, least: number, most: number, remedy?: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  throw expected('OPTION_INVALID', what, `an integer from ${least} to ${most}`, value, remedy)
}

/**
 * A Date that both ISO 8601 and timestamptz can write the same way.
 *
 * @throws SluiceError OPTION_INVALID for anything else
 */
export function dateOf(what: string, value: unknown, remedy?: string): Date {
  if (value instanceof Date) {
    const year = value.getUTCFullYear()
    // An invalid date has no year at all.
    if (year >= 1 && year <= 9999) return value
  }
  const wanted = 'a valid Date in the years 1 to 9999'
  if (value instanceof Date && Number.isNaN(value.getTime())) {
    const sentence = `${what}: expected ${wanted}, received an invalid Date`
    throw new SluiceError('OPTION_INVALID', remedy === undefined ? sentence : `${sentence}. ${remedy}`)
  }
  throw expected('OPTION_INVALID', what, wanted, value, remedy)
}

/** Text that PostgreSQL can store. @throws SluiceError OPTION_INVALID for text with a NUL or a lone surrogate. */
export function storable(what: string, text: string): string {
  if (!text.includes('\0') && text.isWellFormed()) return text
  throw expected('OPTION_INVALID', what, 'text without NUL characters and lone surrogates', text)
}
