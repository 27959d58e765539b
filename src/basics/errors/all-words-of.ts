import { isSluiceError } from '../../errors.ts'
import { errorsIn } from './unavailable-cause.ts'
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
  if (hasAllOf(thrown.cause, own)) return own
  return `${own.replace(/\.$/, '')}: ${textOf(thrown.cause, causes - 1)}`
}

/** Whether a text has what the error says, or, if that has causes, what each of the last ones says. */
function hasAllOf(thrown: unknown, text: string): boolean {
  const last = errorsIn(thrown).filter(isLast)
  return (last.length === 0 ? [thrown] : last).every((one) => text.includes(wordsOf(one).slice(0, MOST_TEXT)))
}

function isLast(error: Error): boolean {
  return error.cause === undefined && !(error instanceof AggregateError && error.errors.length > 0)
}

/** An error may be its own cause. */
const MOST_CAUSES = 4
const MOST_TEXT = 4_000
