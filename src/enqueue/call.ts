import { deepStack } from '../basics/deep-stack.ts'
import { isSluiceError, type SluiceError } from '../errors.ts'

/** A call of the application that sends something in its transaction. */
export interface Call {
  /** What it is, in an error: "an enqueue to queue emails". */
  readonly words: string
  /** Where it was made. Undefined: the stack of an error of now shows it. */
  readonly site?: Site | undefined
}

interface Site {
  readonly stack?: string
}

/**
 * Where a call was made, for what is refused after an await: V8 knows who has called an async function only while that
 * awaits it. It takes some microseconds.
 */
export function siteOf(): Site {
  const site = {}
  deepStack(() => Error.captureStackTrace(site, siteOf))
  return site
}

/** Gives a refusal for the transaction the stack of its call, if that is not the stack of now. */
export function atSite(error: unknown, { site }: Call): unknown {
  if (site === undefined || !(isSluiceError(error, 'NOT_IN_TRANSACTION') || isSluiceError(error, 'TRANSACTION_CLOSED')))
    return error
  return stackedAt(error, site)
}

function stackedAt(error: SluiceError, { stack = '' }: Site): SluiceError {
  const [, ...frames] = stack.split('\n')
  const value = [`${error.name}: ${error.message}`, ...frames].join('\n')
  return Object.defineProperty(error, 'stack', { value, configurable: true, writable: true })
}
