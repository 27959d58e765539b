import { toStreamError } from '../table/stream/stream-errors.ts'

/** The answer, or its error with the code of a SluiceError. @throws SluiceError STREAM_UNKNOWN, GROUP_UNKNOWN, GROUP_HAS_DEFERRED */
export async function orStreamError<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw toStreamError(error)
  }
}
