// The ranges of addresses that are not of the public internet, by IANA's registries of special purposes, with those that were
// given back or lead to others: a tunnel or a translator would take a request into a private network.

/** Of IPv4. Everything else is public. */
export const NOT_PUBLIC_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // The host of a virtual machine of Azure.
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
] as const

/** Of IPv6, where only this is given out: translators, loopback, private and local addresses are outside of it. */
export const GLOBAL_V6 = '2000::/3'

/** Within {@link GLOBAL_V6}. */
export const NOT_PUBLIC_V6 = [
  // Teredo, benchmarks, ORCHID and others.
  '2001::/23',
  '2001:db8::/32',
  // 6to4, which has an address of IPv4 in it.
  '2002::/16',
  '2620:4f:8000::/48',
  '3fff::/20',
] as const

/** An address of IPv4, written as one of IPv6. */
export const MAPPED_V4 = '::ffff:0:0/96'
