import { expected } from '../../errors.ts'

/** Milliseconds, or a number with a unit: `'250ms'`, `'1.5s'`, `'5m'`, `'2h'`, `'7d'`. From 0 to 100 years. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A hundred years of 365.25 days, as PostgreSQL counts the seconds of an interval: longer is a mistake in the unit. */
export const HUNDRED_YEARS = '36525d'
export const HUNDRED_YEARS_MS = 36_525 * UNITS.d!

/**
 * The milliseconds of a {@link Duration}: finite, from zero to a hundred years.
 *
 * @throws SluiceError OPTION_INVALID, naming the option `what`.
 */
export function toMs(duration: unknown, what: string): number {
  const ms = typeof duration === 'string' ? parse(duration) : duration
  if (typeof ms === 'number' && ms >= 0 && ms <= HUNDRED_YEARS_MS) return ms
  throw expected(
    'OPTION_INVALID',
    what,
    "milliseconds from 0, or a string such as '250ms', '30s', '5m', '2h', '7d'",
    duration,
  )
}

/**
 * The milliseconds of a {@link Duration} within bounds, rounded up to whole ones.
 *
 * @throws SluiceError OPTION_INVALID, naming the option `what`.
 */
export function toMsWithin(what: string, duration: unknown, least: Duration, most: Duration = HUNDRED_YEARS): number {
  const ms = toMs(duration, what)
  if (ms >= toMs(least, what) && ms <= toMs(most, what)) return Math.ceil(ms)
  throw expected('OPTION_INVALID', what, `a duration from '${least}' to '${most}'`, duration)
}

function parse(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim())
  return match ? Number(match[1]) * UNITS[match[2]!]! : undefined
}
