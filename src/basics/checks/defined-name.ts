import { type ErrorCode, expected } from '../../errors.ts'
import { nearest } from '../words/nearest.ts'

/**
 * The name, if names are defined and it is one of them, or if none are.
 *
 * @param what 'queue' or 'stream'; the option of createSluice that defines them is its plural
 * @throws SluiceError with the given code, which proposes the nearest name
 */
export function definedName(
  name: string,
  definitions: Readonly<Record<string, unknown>> | undefined,
  what: string,
  code: ErrorCode,
): string {
  if (definitions === undefined || Object.hasOwn(definitions, name)) return name
  const names = Object.keys(definitions)
  const [meant] = nearest(name, names)
  const remedy =
    meant === undefined ? `Define it in the option ${what}s of createSluice` : `Did you mean ${JSON.stringify(meant)}?`
  throw expected(code, what, `one of the ${what}s defined (${names.join(', ') || 'none'})`, name, remedy)
}
