import { hasSqlState } from '../../basics/sql-state.ts'
import { wordsOf } from '../../basics/words-of.ts'
import { SluiceError } from '../../errors.ts'

/** An error of the functions for streams, with its code; any other as it is. */
export function toStreamError(error: unknown): unknown {
  const code = CODES.find(([state]) => hasSqlState(error, state))?.[1]
  if (code === undefined) return error
  return new SluiceError(code, `${wordsOf(error)}. ${REMEDIES[code]}`, { cause: error })
}

const CODES = [
  ['SL030', 'STREAM_UNKNOWN'],
  ['SL032', 'GROUP_UNKNOWN'],
  ['SL033', 'GROUP_HAS_PARKED'],
] as const

const REMEDIES = {
  STREAM_UNKNOWN: 'Make it with sluice.stream(name), or sluice stream create',
  GROUP_UNKNOWN: 'Make it with sluice.group(stream, name), or sluice group create',
  GROUP_HAS_PARKED:
    "Say { parked: 'keep' } (--keep-parked) to have them tried again as well, or { parked: 'drop' } (--drop-parked) to remove them",
} as const
