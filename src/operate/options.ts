import { checkId } from '../basics/check-id.ts'
import { checkKeys } from '../basics/check-keys.ts'
import { dateOf, integer, storable } from '../basics/options.ts'
import { expected } from '../errors.ts'
import { checkOperatedQueue, type KnownNames } from '../streams.ts'

/** @throws SluiceError OPTION_INVALID */
export function idsOf(ids: unknown, what: string): readonly string[] {
  if (!Array.isArray(ids)) throw expected('OPTION_INVALID', what, 'an array of ids', ids)
  return ids.map((id: unknown, at) => checkId(id, `${what}[${at}]`))
}

/** How many rows to return. @throws SluiceError OPTION_INVALID */
export function limitOf(limit: unknown, what: string, byDefault: number): number {
  return integer(what, limit, byDefault, 1, 10_000)
}

/** @throws SluiceError OPTION_INVALID */
export function textOf(value: unknown, what: string): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string') return storable(what, value)
  throw expected('OPTION_INVALID', what, 'a string', value)
}

/** @throws SluiceError OPTION_INVALID */
export function booleanOf(value: unknown, what: string): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value
  throw expected('OPTION_INVALID', what, 'true or false', value)
}

/** An instant in microseconds since 1970; null if there is none. @throws SluiceError OPTION_INVALID */
export function microsecondsOf(value: unknown, what: string): number | null {
  return value === undefined ? null : dateOf(what, value).getTime() * 1_000
}

/** The queue of `{ queue }`; null: all. @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, QUEUE_UNKNOWN */
export function queueOrNull(what: string, options: { readonly queue?: string }, known: KnownNames): string | null {
  checkKeys(what, options, ['queue'], `As in ${what}({ queue: 'emails' })`)
  return options.queue === undefined ? null : checkOperatedQueue(options.queue, known)
}
