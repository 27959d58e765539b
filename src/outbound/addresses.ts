import { BlockList, isIP } from 'node:net'
import { GLOBAL_V6, MAPPED_V4, NOT_PUBLIC_V4, NOT_PUBLIC_V6 } from './special-ranges.ts'

/** Which addresses a request may go to: those of the public internet, and networks that are allowed beside them. */
export class Addresses {
  readonly #allowed: BlockList

  /** @param networks such as `10.1.0.0/16`: see {@link isNetwork} */
  constructor(networks: readonly string[]) {
    this.#allowed = listOf(networks)
  }

  /** @param address as the system has resolved it, or as a URL has it, without brackets */
  allow(address: string): boolean {
    const version = isIP(address)
    // A zone, as in fe80::1%eth0, is of a network that this machine is in.
    if (version === 0 || address.includes('%')) return false
    special ??= specialLists()
    const { notPublic, global, mapped } = special
    if (version === 4) return this.#allowed.check(address) || !notPublic.check(address)
    if (this.#allowed.check(address, 'ipv6')) return true
    // The lists compare an address of IPv4 that is written as one of IPv6 with their ranges of IPv4.
    if (mapped.check(address, 'ipv6')) return !notPublic.check(address, 'ipv6')
    return global.check(address, 'ipv6') && !notPublic.check(address, 'ipv6')
  }
}

/** Whether it is an address, a slash and the length of a prefix. */
export function isNetwork(network: string): boolean {
  const [address = '', length = '', ...others] = network.split('/')
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(address) as 0 | 4 | 6]
  return others.length === 0 && !address.includes('%') && /^\d{1,3}$/.test(length) && Number(length) <= most
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', length] = network.split('/')
    list.addSubnet(address, Number(length), isIP(address) === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

function specialLists() {
  return {
    notPublic: listOf([...NOT_PUBLIC_V4, ...NOT_PUBLIC_V6]),
    global: listOf([GLOBAL_V6]),
    mapped: listOf([MAPPED_V4]),
  } as const
}

/** Made with the first request: the lists take 4 ms of processor time. */
let special: ReturnType<typeof specialLists> | undefined
