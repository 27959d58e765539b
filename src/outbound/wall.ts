import type { LookupAddress, LookupOptions } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { Addresses } from './addresses.ts'
import { AddressRefused, BY_NETWORKS } from './no-answer.ts'

/** Resolves a name to all of its addresses. */
export type Resolve = (
  hostname: string,
  options: LookupOptions & { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** What the wall lets through. */
export interface WallPlan {
  readonly allowHttp: boolean
  readonly ports: readonly number[]
  readonly networks: readonly string[]
}

/** Keeps requests to URLs that others have chosen out of networks that are not public. */
export class Wall {
  readonly #plan: WallPlan
  readonly #addresses: Addresses
  readonly #resolve: Resolve

  constructor(plan: WallPlan, resolve: Resolve) {
    this.#plan = plan
    this.#addresses = new Addresses(plan.networks)
    this.#resolve = resolve
  }

  /** Why nothing may be sent to this URL, whatever its name resolves to; undefined: it may. */
  refusalOf(url: URL): string | undefined {
    const { allowHttp, ports } = this.#plan
    if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:'))
      return `expected ${allowHttp ? 'http or https' : 'https'}, received ${url.protocol.slice(0, -1)}. ${BY_ALLOW_HTTP}`
    if (url.username !== '' || url.password !== '') return 'expected a URL without a user name and a password'
    // The default port of the protocol is left out by URL.
    if (url.port !== '' && !ports.includes(Number(url.port)))
      return `expected an allowed port, received ${url.port}. ${BY_PORTS}`
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
    return isIP(host) === 0 || this.#addresses.allow(host) ? undefined : notPublic(host)
  }

  /**
   * Resolves a name for a connection. All of its addresses are judged, and the connection goes to these: there is no second
   * look at the name. Node calls it for each new connection, and not for addresses.
   */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    this.#resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, [])
      const refused = addresses.find(({ address }) => !this.#addresses.allow(address))
      if (refused !== undefined) return callback(new AddressRefused(hostname, refused.address), [])
      const [first] = addresses
      if (first === undefined) return callback(new Error(`${hostname} has no address`), [])
      if (options.all === true) return callback(null, addresses)
      callback(null, first.address, first.family)
    })
  }
}

/** The URL has this address. */
function notPublic(address: string): string {
  return `expected a public address, received ${address}. ${BY_NETWORKS}`
}

const BY_ALLOW_HTTP = 'The sender allows http with the option allowHttp: true'
const BY_PORTS = 'The sender allows other ports with the option ports, as in [8443]'
