import { checkKeys } from '../../basics/checks/check-keys.ts'
import { dateOf, integerWithin } from '../../basics/checks/options.ts'
import { expected } from '../../errors.ts'
import type { OffsetParams } from '../../table/stream/read-events.ts'
import type { Reader } from '../options.ts'

/**
 * An offset in a stream: the first event that is still there, the end as of now, the event at a position (or the next one), or the
 * first event that was appended at a time or later, by the database's clock.
 */
export type StreamOffset = 'start' | 'end' | { readonly position: number } | { readonly time: Date }

/** Reads an offset that may be left out. */
export const offsetOr =
  (byDefault: 'start' | 'end'): Reader<OffsetParams> =>
  (value = byDefault, what) =>
    offsetOf(value, what)

/** @throws SluiceError OPTION_INVALID */
export function offsetOf(offset: unknown, what: string): OffsetParams {
  if (offset === 'start' || offset === 'end') return { at: offset, position: null, timeUs: null }
  if (typeof offset !== 'object' || offset === null) throw expected('OPTION_INVALID', what, WANTED, offset)
  checkKeys(what, offset, ['position', 'time'], `As in ${what}: { position: 4711 }`)
  const { position, time }: { readonly position?: unknown; readonly time?: unknown } = offset
  if ((position === undefined) === (time === undefined)) throw expected('OPTION_INVALID', what, WANTED, offset)
  if (time !== undefined) {
    return { at: 'time', position: null, timeUs: dateOf(`${what}.time`, time).getTime() * 1_000 }
  }
  const at = integerWithin(`${what}.position`, position, 0, Number.MAX_SAFE_INTEGER)
  return { at: 'position', position: at, timeUs: null }
}

const WANTED = "'start', 'end', { position } or { time }"
