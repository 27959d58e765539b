import { checkId } from '../basics/checks/check-id.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { dateOf, integer, storable } from '../basics/checks/options.ts'
import { expected } from '../errors.ts'
import type { TimeCursor } from '../table/operate/time-cursor.ts'

/** Reads the value of an option, which `what` names in errors. Undefined: it is not given. @throws SluiceError OPTION_INVALID */
export type Reader<T> = (value: unknown, what: string) => T

/** The values that {@link readFields} returns. */
export type FieldsOf<Readers> = { readonly [Name in keyof Readers]: Readers[Name] extends Reader<infer T> ? T : never }

/** Reads options, each by its reader, and refuses others. @throws SluiceError OPTION_INVALID, and what readers throw */
export function readFields<Readers extends Readonly<Record<string, Reader<unknown>>>>(
  what: string,
  options: { readonly [Name in keyof NoInfer<Readers>]?: unknown },
  readers: Readers,
  remedy?: string,
): FieldsOf<Readers> {
  checkKeys(what, options, Object.keys(readers), remedy)
  const values = Object.entries(readers).map(
    ([name, read]) => [name, read(Reflect.get(options, name), `${what}.${name}`)] as const,
  )
  return Object.fromEntries(values) as FieldsOf<Readers>
}

/**
 * Refuses a filter of a change that is there and undefined: the variable has no value by mistake, and without the filter the
 * change would take in what it is to spare.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function refuseUndefined(what: string, filter: object, names: readonly string[]): void {
  const empty = names.find((name) => name in filter && Reflect.get(filter, name) === undefined)
  if (empty === undefined) return
  throw expected('OPTION_INVALID', `${what}.${empty}`, 'a value', undefined, `Leave ${empty} out to match any`)
}

/** Null: none is given. */
export const text: Reader<string | null> = (value, what) => {
  if (value === undefined) return null
  if (typeof value === 'string') return storable(what, value)
  throw expected('OPTION_INVALID', what, 'a string', value)
}

export const boolean: Reader<boolean | null> = (value, what) => {
  if (value === undefined || typeof value === 'boolean') return value ?? null
  throw expected('OPTION_INVALID', what, 'true or false', value)
}

/** False by default. */
export const flag: Reader<boolean> = (value, what) => boolean(value, what) ?? false

/** An instant in microseconds since 1970. */
export const instant: Reader<number | null> = (value, what) =>
  value === undefined ? null : dateOf(what, value).getTime() * 1_000

export const ids: Reader<readonly string[] | null> = (value, what) => {
  if (value === undefined) return null
  if (!Array.isArray(value)) throw expected('OPTION_INVALID', what, 'an array of ids', value)
  return value.map((id: unknown, at) => checkId(id, `${what}[${at}]`))
}

export function count<Default extends number | null>(
  byDefault: Default,
  least: number,
  most: number,
): Reader<number | Default> {
  return (value, what) => integer(what, value, byDefault, least, most)
}

/** How many rows to return. */
export const limit = (byDefault: number): Reader<number> => count(byDefault, 1, 10_000)

/** @param remedies what to do instead, for words that belong elsewhere */
export function oneOf<const Word extends string>(
  words: readonly Word[],
  wanted = `one of ${words.join(', ')}`,
  remedies: Readonly<Record<string, string>> = {},
): Reader<Word | null> {
  return (value, what) => {
    if (value === undefined) return null
    const found = words.find((word) => word === value)
    if (found !== undefined) return found
    throw expected('OPTION_INVALID', what, wanted, value, remedies[String(value)])
  }
}

/** The `next` of a page before; null, or none: the first page. */
export function cursor<T>(read: Reader<T | undefined>): Reader<T | null> {
  return (value, what) => {
    if (value === undefined || value === null) return null
    const found = read(value, what)
    if (found !== undefined) return found
    throw expected('OPTION_INVALID', what, 'the next of a page', value)
  }
}

/** The cursor of a list by instants, `<microseconds>.<id>`. @param earliest the server has no instant before it */
export function cursorByTime(earliest: number): Reader<TimeCursor | null> {
  return cursor((value, what) => {
    const [, us, id] = (typeof value === 'string' && /^(-?\d{1,18})\.(\d{1,19})$/.exec(value)) || []
    return us === undefined || id === undefined || Number(us) < earliest ? undefined : { us, id: checkId(id, what) }
  })
}

/** The caller's open transaction, and others that are checked where they are used. */
export const unchecked: Reader<unknown> = (value) => value
