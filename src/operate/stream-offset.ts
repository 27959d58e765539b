import { checkKeys } from '../basics/check-keys.ts'
import { dateOf, integerWithin } from '../basics/options.ts'
import { expected } from '../errors.ts'
import type { PlaceParams } from '../table/stream/read-events.ts'

/**
 * An offset in a stream: the first event that is still there, the end as of now, the event at a position (or the next one), or the
 * first event that was appended at a time or later, by the database's clock.
 */
export type StreamOffset = 'start' | 'end' | { readonly position: number } | { readonly time: Date }

/** @throws SluiceError OPTION_INVALID */
export function offsetOf(offset: unknown, what: string): PlaceParams {
  if (offset === 'start' || offset === 'end') return { place: offset, position: null, timeUs: null }
  if (typeof offset !== 'object' || offset === null) throw expected('OPTION_INVALID', what, WANTED, offset)
  checkKeys(what, offset, ['position', 'time'], `As in ${what}: { position: 4711 }`)
  const { position, time }: { readonly position?: unknown; readonly time?: unknown } = offset
  if ((position === undefined) === (time === undefined)) throw expected('OPTION_INVALID', what, WANTED, offset)
  if (time !== undefined) {
    return { place: 'time', position: null, timeUs: dateOf(`${what}.time`, time).getTime() * 1_000 }
  }
  return { place: 'position', position: positionOf(`${what}.position`, position), timeUs: null }
}

/** @throws SluiceError OPTION_INVALID */
function positionOf(what: string, position: unknown): number {
  return integerWithin(what, position, 0, Number.MAX_SAFE_INTEGER)
}

const WANTED = "'start', 'end', { position } or { time }"
