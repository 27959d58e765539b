import type { LookupAddress } from 'node:dns'
import { expect, onTestFinished, test } from 'vitest'
import { NameServer } from '../../../faults/environment/name-server.ts'
import { resolveBy } from '../../../src/outbound/resolve.ts'
import { waitFor } from '../../support/wait.ts'

test('a name has the addresses of both versions', async () => {
  const server = await startNameServer()
  server.answer()
  expect(await addressesBy(server.address, 'both.example')).toEqual([
    { address: '192.0.2.1', family: 4 },
    { address: '2001:db8::1', family: 6 },
  ])
})

test('a name with addresses of one version has these', async () => {
  const server = await startNameServer()
  server.answer()
  expect(await addressesBy(server.address, 'v4.example')).toEqual([{ address: '192.0.2.1', family: 4 }])
})

test('a name without addresses is an error', async () => {
  const server = await startNameServer()
  server.answer()
  await expect(addressesBy(server.address, 'none.example')).rejects.toThrow('none.example')
})

test('localhost is this machine, and no name server is asked', async () => {
  const server = await startNameServer()
  const addresses = await Promise.all(['localhost', 'a.localhost'].map((name) => addressesBy(server.address, name)))
  expect(addresses.flat().map(({ address }) => address)).toEqual(['127.0.0.1', '::1', '127.0.0.1', '::1'])
  expect(server.asked).toEqual(new Set())
})

test('no name waits for the answer to another', async () => {
  const server = await startNameServer()
  const names = Array.from({ length: 20 }, (_, at) => `both${at}.example`)
  const found = Promise.all(names.map((name) => addressesBy(server.address, name)))
  await waitFor(() => server.asked.size === names.length, { what: 'questions for all names' })
  server.answer()
  expect((await found).flat()).toHaveLength(40)
})

function addressesBy(server: string, name: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) =>
    resolveBy([server])(name, { all: true }, (error, addresses) =>
      error === null ? resolve(addresses) : reject(error),
    ),
  )
}

/** A name server, which answers nothing before `answer` is called: to `both…` by two addresses, to `v4…` by one. */
async function startNameServer() {
  const names = await NameServer.start()
  onTestFinished(() => names.stop())
  const asked = new Set<string>()
  const opened = Promise.withResolvers<void>()
  names.find = async (name, isV4) => {
    asked.add(name)
    await opened.promise
    if (!name.startsWith('both') && !(name.startsWith('v4') && isV4)) return 'none'
    return { address: isV4 ? '192.0.2.1' : '2001:db8::1' }
  }
  return { address: names.address, asked, answer: () => opened.resolve() }
}
