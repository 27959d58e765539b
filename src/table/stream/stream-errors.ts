import { hasSqlState } from '../../basics/sql-state.ts'
import { wordsOf } from '../../basics/words-of.ts'
import { SluiceError } from '../../errors.ts'

/** Nobody has made the stream. */
export function streamUnknown(stream: string, cause?: unknown): SluiceError {
  const name = JSON.stringify(stream)
  const remedy = `Make it with sluice.streams.set(${name}), or sluice stream set ${stream}`
  return new SluiceError('STREAM_UNKNOWN', `stream: expected one that exists, received ${name}. ${remedy}`, { cause })
}

/** Nobody has made the group. */
export function groupUnknown(stream: string, group: string, cause?: unknown): SluiceError {
  const [name, of] = [JSON.stringify(group), JSON.stringify(stream)]
  const remedy = `Make it with sluice.groups.set(${of}, ${name}), or sluice group set ${stream} ${group}`
  return new SluiceError('GROUP_UNKNOWN', `group: expected one of stream ${of}, received ${name}. ${remedy}`, { cause })
}

/** An error of the functions for streams, with its code; any other as it is. */
export function toStreamError(error: unknown): unknown {
  if (hasSqlState(error, 'SL030')) return streamUnknown(namesIn(error)[0] ?? '', error)
  if (hasSqlState(error, 'SL032')) {
    const [stream = '', group = ''] = namesIn(error)
    return groupUnknown(stream, group, error)
  }
  if (hasSqlState(error, 'SL033'))
    return new SluiceError('GROUP_HAS_DEFERRED', `${wordsOf(error)}. ${REMEDY}`, { cause: error })
  return error
}

/** The names in the server's words, which a client may have wrapped. */
function namesIn(error: unknown): readonly string[] {
  const [words, ...names] = SAID.exec(wordsOf(error)) ?? []
  if (words !== undefined) return names.filter((name) => name !== undefined)
  return error instanceof Error && error.cause !== undefined ? namesIn(error.cause) : []
}

const SAID = /expected the name of a (?:stream, received "(.*?)"|group of stream "(.*?)", received "(.*?)")/

const REMEDY =
  "Say { deferred: 'keep' } (--keep-deferred) to have them tried again as well, or { deferred: 'drop' } (--drop-deferred) to remove them"
