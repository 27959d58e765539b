import { isSluiceError } from '../errors.ts'
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

/** Gives an error the frames of the call: instead of its own if it is a SluiceError, which says enough, otherwise after them. */
export function stackedAt(error: unknown, site: Site): unknown {
  if (!(error instanceof Error)) return error
  const { stack } = site
  const own: unknown = error.stack
  if (typeof stack !== 'string' || typeof own !== 'string') return error
  const [, ...frames] = stack.split('\n')
  const above = isSluiceError(error) ? [`${error.name}: ${error.message}`] : own.split('\n')
  const value = [...above, ...frames.filter((frame) => !above.includes(frame))].join('\n')
  // False, and no error, where it is frozen.
  Reflect.defineProperty(error, 'stack', { value, configurable: true, writable: true })
  return error
}
