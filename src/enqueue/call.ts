import { type Site, siteOf, stackedAt } from '../basics/errors/call-site.ts'
import { isSluiceError } from '../errors.ts'

/** A call of the application that sends something in its transaction. */
export interface Call {
  /** What it is, in an error: "an enqueue to queue emails". */
  readonly words: string
  /** Where it was made. Undefined: the stack of an error of now shows it. */
  readonly site?: Site | undefined
}

/** A statement through a handler's transaction. */
export const STATEMENT: Call = { words: 'one' }

/** A call for what has been read of its arguments: that is a promise where a schema takes its time, and the stack of now is lost. */
export function callFor(words: string, read: unknown): Call {
  return read instanceof Promise ? { words, site: siteOf() } : { words }
}

/** Gives a refusal for the transaction the stack of its call, if that is not the stack of now. */
export function atSite(error: unknown, { site }: Call): unknown {
  if (site === undefined || !(isSluiceError(error, 'NOT_IN_TRANSACTION') || isSluiceError(error, 'TRANSACTION_CLOSED')))
    return error
  return stackedAt(error, site)
}
