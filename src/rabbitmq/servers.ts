import { expected } from '../errors.ts'

/** @throws SluiceError OPTION_INVALID */
export function serversOf(what: string, servers: unknown, remedy: string): readonly string[] {
  const all: unknown = typeof servers === 'string' ? [servers] : servers
  if (Array.isArray(all) && all.length > 0 && all.every(isAddress)) return all
  throw expected('OPTION_INVALID', what, 'one or more addresses that begin with amqp:// or amqps://', servers, remedy)
}

function isAddress(server: unknown): server is string {
  return typeof server === 'string' && /^amqps?:\/\/./.test(server) && URL.canParse(server)
}
