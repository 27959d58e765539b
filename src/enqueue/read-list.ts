import { expected, SluiceError } from '../errors.ts'
import type { MessageNames } from './read-payload.ts'

/** One entry of a list: its payload, and the options that stand beside it. */
export interface Entry {
  readonly payload: unknown
  readonly options: unknown
}

/** How a list is called in errors: 'messages' or 'events'. */
export interface ListWords {
  readonly name: string
  readonly remedy: string
}

/**
 * Reads each entry of a list of payloads with options beside them. Awaits only what is a promise: awaiting each of a
 * thousand takes as long as encoding them.
 *
 * @throws SluiceError OPTION_INVALID, PAYLOAD_INVALID, and what `read` throws
 */
export async function readList<Row extends object>(
  words: ListWords,
  list: unknown,
  read: (entry: Entry, names: MessageNames) => Row | Promise<Row>,
): Promise<readonly Row[]> {
  const { name, remedy } = words
  if (!Array.isArray(list)) throw expected('OPTION_INVALID', name, `an array of ${name}`, list, remedy)
  const given: readonly unknown[] = list
  const rows: Row[] = []
  for (const [at, one] of given.entries()) {
    const names = namesAt(name, at)
    const row = read(entryOf(one, names, remedy), names)
    rows.push(row instanceof Promise ? await row : row)
  }
  return rows
}

export function namesAt(list: string, at: number): MessageNames {
  return { payload: `${list}[${at}].payload`, options: `${list}[${at}]` }
}

function entryOf(one: unknown, { options: what }: MessageNames, remedy: string): Entry {
  if (typeof one !== 'object' || one === null) {
    throw expected('OPTION_INVALID', what, 'an object with a payload and options', one, remedy)
  }
  if (!('payload' in one)) {
    const sentence = `${what}: expected an object with a payload, received one without`
    throw new SluiceError('PAYLOAD_INVALID', `${sentence}. ${remedy}`)
  }
  // Most messages are only a payload. A copy without it takes longer.
  const keys = Object.keys(one)
  if (keys.length === 1 && keys[0] === 'payload') return { payload: one.payload, options: undefined }
  const { payload, ...given }: Readonly<Record<string, unknown>> = { ...one }
  return { payload, options: Object.keys(given).length === 0 ? undefined : given }
}

/** Far below the limit of a jsonb array (256 MB), even in UTF-8, and small enough for the server to parse in memory. */
const STATEMENT_BYTES = 32 * 1024 * 1024

/** The rows in pieces, of which each fits into one statement. */
export function* chunksOf<Row extends { readonly payload: string; readonly headers: string }>(
  rows: readonly Row[],
): Generator<readonly Row[]> {
  let start = 0
  let size = 0
  for (const [at, { payload, headers }] of rows.entries()) {
    size += payload.length + headers.length
    if (size > STATEMENT_BYTES && at > start) {
      yield rows.slice(start, at)
      start = at
      size = payload.length + headers.length
    }
  }
  yield rows.slice(start)
}
