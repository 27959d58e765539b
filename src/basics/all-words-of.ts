import { isSluiceError } from '../errors.ts'
import { wordsOf } from './words-of.ts'

/** What an error says, and its causes where they say more. An error of Sluice says all in its message. */
export function allWordsOf(thrown: unknown): string {
  try {
    return textOf(thrown, MOST_CAUSES).slice(0, MOST_TEXT)
  } catch {
    // A proxy whose traps throw.
    return 'an error that cannot be read'
  }
}

function textOf(thrown: unknown, causes: number): string {
  const own = wordsOf(thrown).slice(0, MOST_TEXT)
  if (!(thrown instanceof Error) || isSluiceError(thrown) || thrown.cause === undefined || causes === 0) return own
  const more = textOf(thrown.cause, causes - 1)
  return own.includes(more) ? own : `${own.replace(/\.$/, '')}: ${more}`
}

/** An error may be its own cause. */
const MOST_CAUSES = 4
const MOST_TEXT = 4_000
