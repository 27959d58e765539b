import { type LookupAddress, promises } from 'node:dns'
import type { Resolve } from './wall.ts'

/**
 * Resolves names by the name servers of the system, without `/etc/hosts`. `lookup` of `node:dns` takes a thread of Node's few for
 * each name, two at a time and for as long as the system likes, so one customer's dead name server would stop all requests.
 *
 * @param servers instead of those of the system
 */
export function resolveBy(servers?: readonly string[]): Resolve {
  return (hostname, { family }, callback) => {
    const families = FAMILIES.filter((one) => !family || family === one || family === `IPv${one}`)
    void addressesOf(hostname, families, servers).then(
      (addresses) => callback(null, addresses),
      (error: NodeJS.ErrnoException) => callback(error, []),
    )
  }
}

async function addressesOf(
  hostname: string,
  families: readonly Family[],
  servers: readonly string[] | undefined,
): Promise<LookupAddress[]> {
  // This name is never asked for: RFC 6761.
  if (LOCALHOST.test(hostname)) return families.map((family) => ({ address: LOOPBACK[family], family }))
  // A new one has the name servers that the system has now.
  const resolver = new promises.Resolver({ timeout: 2_000, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const asked = await Promise.allSettled(
    families.map((family) => (family === 4 ? resolver.resolve4(hostname) : resolver.resolve6(hostname))),
  )
  const found = asked.flatMap((one, at) =>
    one.status === 'fulfilled' ? one.value.map((address) => ({ address, family: families[at] ?? 4 })) : [],
  )
  const failed = asked.find((one) => one.status === 'rejected')
  if (found.length === 0 && failed !== undefined) throw failed.reason
  return found
}

type Family = 4 | 6

const FAMILIES: readonly Family[] = [4, 6]
const LOOPBACK = { 4: '127.0.0.1', 6: '::1' } as const
const LOCALHOST = /^(.+\.)?localhost\.?$/i
