import type { LookupAddress } from 'node:dns'
import { describe, expect, test } from 'vitest'
import { type Resolve, Wall, type WallPlan } from '../../../src/outbound/wall.ts'

const STRICT: WallPlan = { allowHttp: false, ports: [], networks: [] }

const never: Resolve = (_hostname, _options, callback) => callback(new Error('nothing is resolved'), [])

function refusalOf(url: string, plan: Partial<WallPlan> = {}): string | undefined {
  return new Wall({ ...STRICT, ...plan }, never).refusalOf(new URL(url))
}

/** What a connection gets for a name that resolves to these addresses. */
function looked(addresses: readonly string[], all: boolean): Promise<unknown> {
  const found = addresses.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 }))
  const wall = new Wall(STRICT, (_hostname, _options, callback) => callback(null, found))
  return new Promise((resolve, reject) =>
    wall.lookup('hooks.example', { all }, (error, address, family) =>
      error === null ? resolve(all ? address : [address, family]) : reject(error),
    ),
  )
}

describe('the URL of a webhook', () => {
  test.for([
    'https://hooks.example/path?query',
    'https://hooks.example:443/',
    'https://1.1.1.1/',
    'https://[2606:4700:4700::1111]/',
  ])('may be %s', (url) => {
    expect(refusalOf(url)).toBeUndefined()
  })

  test.for([
    ['http://hooks.example/', 'https'],
    ['ftp://hooks.example/', 'https'],
    ['https://user@hooks.example/', 'user name'],
    ['https://:secret@hooks.example/', 'password'],
    ['https://hooks.example:8443/', 'port'],
    ['https://hooks.example:80/', 'port'],
    ['https://127.0.0.1/', '127.0.0.1'],
    ['https://127.1/', '127.0.0.1'],
    ['https://0x7f.1/', '127.0.0.1'],
    ['https://2130706433/', '127.0.0.1'],
    ['https://0177.0.0.1/', '127.0.0.1'],
    ['https://0.0.0.0/', '0.0.0.0'],
    ['https://[::1]/', '::1'],
    ['https://[::ffff:127.0.0.1]/', '::ffff:7f00:1'],
    ['https://169.254.169.254/latest/meta-data', '169.254.169.254'],
  ] as const)('may not be %s', ([url, why]) => {
    expect(refusalOf(url)).toContain(why)
  })

  test('may be http, and have other ports, if that is allowed', () => {
    expect(refusalOf('http://hooks.example/', { allowHttp: true })).toBeUndefined()
    expect(refusalOf('http://hooks.example:8080/', { allowHttp: true })).toContain('port')
    expect(refusalOf('https://hooks.example:8443/', { ports: [8443] })).toBeUndefined()
    expect(refusalOf('http://127.0.0.1/', { allowHttp: true, networks: ['127.0.0.0/8'] })).toBeUndefined()
  })
})

describe('the name of a URL', () => {
  test('goes to the addresses that were judged', async () => {
    expect(await looked(['1.1.1.1', '2606:4700:4700::1111'], true)).toEqual([
      { address: '1.1.1.1', family: 4 },
      { address: '2606:4700:4700::1111', family: 6 },
    ])
    expect(await looked(['1.1.1.1', '1.0.0.1'], false)).toEqual(['1.1.1.1', 4])
  })

  test.for([
    [['127.0.0.1']],
    [['1.1.1.1', '10.0.0.1']],
    [['2606:4700:4700::1111', '::1']],
    [['::ffff:169.254.169.254']],
    [[]],
  ] as const)('goes nowhere if one of its addresses is not public: %s', async ([addresses]) => {
    await expect(looked(addresses, true)).rejects.toThrow('hooks.example')
    await expect(looked(addresses, false)).rejects.toThrow('hooks.example')
  })
})
