import { expected } from '../../errors.ts'
import { nearest } from '../words/nearest.ts'

/**
 * Checks that `options` is an object with no other keys than those.
 *
 * @throws SluiceError OPTION_INVALID naming the first unknown key and the nearest valid one.
 */
export function checkKeys(
  what: string,
  options: unknown,
  known: readonly string[],
  remedy?: string,
): asserts options is object {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw expected('OPTION_INVALID', what, 'an object of options', options, remedy)
  const unknown = Object.keys(options).find((key) => !known.includes(key))
  if (unknown === undefined) return
  const meant = meantBy(unknown, known)
  const wanted = `only the options ${known.join(', ')}`
  throw expected('OPTION_INVALID', what, wanted, unknown, meant.length > 0 ? didYouMean(meant) : remedy)
}

/** Those of `known` that were likely meant by a key: by its name in other libraries, or by its spelling. */
export function meantBy(key: string, known: readonly string[]): readonly string[] {
  const other = Object.hasOwn(OTHER_NAMES, key) ? OTHER_NAMES[key] : undefined
  const meant = (typeof other === 'string' ? [other] : (other ?? [])).filter((name) => known.includes(name))
  return meant.length > 0 ? meant : nearest(key, known)
}

/** What other libraries call options of ours or of the driver's, spelt too differently to be found. */
const OTHER_NAMES: Readonly<Record<string, string | readonly string[]>> = {
  retries: 'maxAttempts',
  maxRetries: 'maxAttempts',
  retryLimit: 'maxAttempts',
  attempts: 'maxAttempts',
  startAfter: ['delay', 'dueAt'],
  runAt: 'dueAt',
  jobId: 'dedupe',
  jobKey: 'dedupe',
  singletonKey: 'dedupe',
  tz: 'zone',
  handler: ['handle', 'handleBatch'],
  url: 'connectionString',
  uri: 'connectionString',
  username: 'user',
  dbname: 'database',
  db: 'database',
}

/** "Did you mean `a` or `b`?" */
export function didYouMean(meant: readonly string[]): string {
  return `Did you mean ${meant.join(' or ')}?`
}
