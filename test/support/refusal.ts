import { SluiceError } from '../../src/errors.ts'

/** The code and the words with which `attempt` is refused: it throws a SluiceError, or the test fails. */
export function refusalOf(attempt: () => unknown): string {
  try {
    attempt()
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code}: ${error.message}`
    throw error
  }
  throw new Error('expected a SluiceError, and nothing was thrown')
}
