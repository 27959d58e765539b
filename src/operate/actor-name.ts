import { storable } from '../basics/options.ts'
import { expected } from '../errors.ts'

/** The name of who acts. @throws SluiceError OPTION_INVALID */
export function actorName(name: unknown, what: string): string {
  if (typeof name === 'string' && name.length >= 1 && name.length <= 200) return storable(what, name)
  throw expected('OPTION_INVALID', what, 'a name of 1 to 200 characters', name)
}
