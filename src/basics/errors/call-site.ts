import type { SluiceError } from '../../errors.ts'
import { deepStack } from './deep-stack.ts'

/** Where a call was made. */
export interface Site {
  /** Undefined, or no text, as the application's `Error.prepareStackTrace` may give it. */
  readonly stack?: unknown
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

/** Gives a SluiceError, which says enough, the frames of the call instead of its own. */
export function stackedAt(error: SluiceError, { stack }: Site): SluiceError {
  if (typeof stack !== 'string') return error
  const [, ...frames] = stack.split('\n')
  error.stack = [`${error.name}: ${error.message}`, ...frames].join('\n')
  return error
}
