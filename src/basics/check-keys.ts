import { expected } from '../errors.ts'

/**
 * Checks that `options` is an object with no other keys than those.
 *
 * @throws SluiceError OPTION_INVALID naming the first that is another.
 */
export function checkKeys(what: string, options: unknown, known: readonly string[], remedy?: string): void {
  if (typeof options !== 'object' || options === null)
    throw expected('OPTION_INVALID', what, 'an object of options', options, remedy)
  const unknown = Object.keys(options).find((key) => !known.includes(key))
  if (unknown !== undefined)
    throw expected('OPTION_INVALID', what, `only the options ${known.join(', ')}`, unknown, remedy)
}
