import { expected } from '../../errors.ts'

/** What counts as an address, and how that is said. */
interface AddressRule {
  readonly isAddress: (text: string) => boolean
  readonly wanted: string
}

/** One address of a server or several, as a list. @throws SluiceError OPTION_INVALID */
export function addressesOf(what: string, given: unknown, remedy: string, rule: AddressRule = ANY): readonly string[] {
  const all: unknown = typeof given === 'string' ? [given] : given
  const isAddress = (one: unknown) => typeof one === 'string' && rule.isAddress(one)
  if (Array.isArray(all) && all.length > 0 && all.every(isAddress)) return all
  throw expected('OPTION_INVALID', what, rule.wanted, given, remedy)
}

const ANY: AddressRule = { isAddress: () => true, wanted: 'one or more addresses' }
