import { hasSqlState } from '../../basics/errors/sql-state.ts'
import { wordsOf } from '../../basics/errors/words-of.ts'
import { SluiceError } from '../../errors.ts'

/** The stream does not exist. */
export function streamUnknown(stream: string, cause?: unknown): SluiceError {
  const name = JSON.stringify(stream)
  const remedy = `Make it with sluice.streams.set(${name}), or sluice stream set ${stream}`
  return new SluiceError('STREAM_UNKNOWN', `stream: expected one that exists, received ${name}. ${remedy}`, { cause })
}

/** The group does not exist. */
export function groupUnknown(stream: string, group: string, cause?: unknown): SluiceError {
  const [name, of] = [JSON.stringify(group), JSON.stringify(stream)]
  const remedy = `Make it with sluice.groups.set(${of}, ${name}), or sluice group set ${stream} ${group}`
  return new SluiceError('GROUP_UNKNOWN', `group: expected one of stream ${of}, received ${name}. ${remedy}`, { cause })
}

/**
 * The answer of a function for streams. Its refusals name no stream and no group but in words, so those come from the
 * caller.
 *
 * @throws SluiceError STREAM_UNKNOWN, GROUP_UNKNOWN, GROUP_HAS_DEFERRED
 */
export async function naming<T>(answer: Promise<T>, stream: string, group?: string): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw toStreamError(error, stream, group)
  }
}

/** An error of the functions for streams, with its code; any other as it is. */
export function toStreamError(error: unknown, stream: string, group = ''): unknown {
  if (hasSqlState(error, 'SL030')) return streamUnknown(stream, error)
  if (hasSqlState(error, 'SL032')) return groupUnknown(stream, group, error)
  if (hasSqlState(error, 'SL033'))
    return new SluiceError('GROUP_HAS_DEFERRED', `${wordsOf(error)}. ${REMEDY}`, { cause: error })
  return error
}

const REMEDY =
  "Say { deferred: 'keep' } (--keep-deferred) to have them tried again as well, or { deferred: 'drop' } (--drop-deferred) to remove them"
