import { addressesOf } from '../basics/checks/addresses.ts'

/** @throws SluiceError OPTION_INVALID */
export function serversOf(what: string, servers: unknown, remedy: string): readonly string[] {
  return addressesOf(what, servers, remedy, AMQP)
}

const AMQP = {
  isAddress: (server: string) => /^amqps?:\/\/./.test(server) && URL.canParse(server),
  wanted: 'one or more addresses that begin with amqp:// or amqps://',
}
