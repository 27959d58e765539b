import { randomBytes, randomInt } from 'node:crypto'
import ipaddr from 'ipaddr.js'
import { describe, expect, test } from 'vitest'
import { Addresses, isNetwork } from '../../../src/outbound/addresses.ts'

const addresses = new Addresses([])

/** What another library says of an address. */
const isUnicast = (address: string) => ipaddr.process(address).range() === 'unicast'

const NOT_PUBLIC = [
  ...['0.0.0.0', '10.0.0.1', '10.255.255.255', '100.64.0.1', '127.0.0.1', '127.255.255.255', '169.254.169.254'],
  ...['172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.88.99.1', '192.168.1.1', '198.18.0.1'],
  ...['198.19.255.255', '198.51.100.7', '203.0.113.7', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:7f00:1', '::127.0.0.1', '64:ff9b::a00:1'],
  ...['64:ff9b:1::1', '100::1', '2001::1', '2001:db8::1', '2002:7f00:1::1', 'fc00::1', 'fd12:3456::1', 'fe80::1'],
  ...[
    '168.63.129.16',
    '::ffff:168.63.129.16',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    '3fff::1',
    '5f00::1',
    '4000::1',
    'not an address',
    '',
  ],
]

const PUBLIC = [
  ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
  ...[
    '168.63.129.15',
    '168.63.129.17',
    '128.0.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.0.1.0',
    '198.17.255.255',
    '198.20.0.0',
    '223.255.255.255',
  ],
  ...['2606:4700:4700::1111', '2a00:1450:4001:81b::200e', '::ffff:8.8.8.8'],
]

describe('the addresses that a webhook may go to', () => {
  test.for(NOT_PUBLIC)('are not %s', (address) => {
    expect(addresses.allow(address)).toBe(false)
  })

  test.for(PUBLIC)('are %s', (address) => {
    expect(addresses.allow(address)).toBe(true)
  })

  test('are of IPv4 those that another library knows as public', () => {
    const different = Array.from({ length: 50_000 }, () => [...randomBytes(4)].join('.')).filter(
      (address) => addresses.allow(address) !== isUnicast(address),
    )
    expect(different).toEqual([])
  })

  test('are judged alike when they are written as IPv6', () => {
    const different = Array.from({ length: 5_000 }, () => [...randomBytes(4)].join('.')).filter(
      (address) => addresses.allow(`::ffff:${address}`) !== addresses.allow(address),
    )
    expect(different).toEqual([])
  })

  test('are of IPv6 none that another library does not know as public', () => {
    const tried = Array.from({ length: 50_000 }, randomAddress)
    expect(tried.filter((address) => addresses.allow(address) && !isUnicast(address))).toEqual([])
    expect(tried.filter((address) => addresses.allow(address)).length).toBeGreaterThan(5_000)
  })

  test('are those of allowed networks too, and no others', () => {
    const allowed = new Addresses(['10.1.0.0/16', 'fd00:1::/32'])
    expect(['10.1.2.3', '::ffff:10.1.2.3', 'fd00:1::5', '8.8.8.8'].map((one) => allowed.allow(one))).toEqual([
      true,
      true,
      true,
      true,
    ])
    expect(['10.2.0.1', 'fd00:2::5', '127.0.0.1'].filter((one) => allowed.allow(one))).toEqual([])
  })
})

test.for([
  ['10.0.0.0/8', true],
  ['::1/128', true],
  ['10.0.0.0', false],
  ['10.0.0.0/33', false],
  ['10.0.0.0/8/8', false],
  ['fe80::1%eth0/64', false],
  ['host/8', false],
  ['10.0.0.0/', false],
  ['10.0.0.0/-1', false],
] as const)('whether %s is a network: %s', ([network, is]) => {
  expect(isNetwork(network)).toBe(is)
})

/** Mostly of 2000::/3, and mostly near the start of a range. */
function randomAddress(): string {
  const bytes = randomBytes(16)
  if (randomInt(4) > 0) bytes[0] = 0x20 + randomInt(0x20)
  if (randomInt(2) > 0) bytes.writeUInt16BE([0x2001, 0x2002, 0x2620, 0x3fff, 0x2a00][randomInt(5)] ?? 0)
  if (randomInt(2) > 0) bytes.writeUInt16BE(randomInt(0x300), 2)
  return Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16)).join(':')
}
