import { createSocket } from 'node:dgram'
import type { LookupAddress } from 'node:dns'
import { isIPv4 } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { resolveBy } from '../../src/outbound/resolve.ts'
import { waitFor } from '../support/wait.ts'

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
  const socket = createSocket('udp4')
  const asked = new Set<string>()
  const opened = Promise.withResolvers<void>()
  socket.on('message', async (question, from) => {
    const name = nameIn(question)
    asked.add(name)
    await opened.promise
    socket.send(answerTo(question, name), from.port, from.address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  onTestFinished(() => void socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, asked, answer: () => opened.resolve() }
}

const HEAD_BYTES = 12

function nameIn(question: Buffer): string {
  const labels: string[] = []
  for (let at = HEAD_BYTES; question[at]; at += question[at]! + 1)
    labels.push(question.toString('latin1', at + 1, at + 1 + question[at]!))
  return labels.join('.').toLowerCase()
}

function answerTo(question: Buffer, name: string): Buffer {
  const end = question.indexOf(0, HEAD_BYTES) + 5
  const isV4 = question.readUInt16BE(end - 4) === 1
  const address = isV4 ? '192.0.2.1' : '2001:db8::1'
  const has = name.startsWith('both') || (name.startsWith('v4') && isV4)
  const head = Buffer.from([question[0]!, question[1]!, 0x81, 0x80, 0, 1, 0, has ? 1 : 0, 0, 0, 0, 0])
  return Buffer.concat([head, question.subarray(HEAD_BYTES, end), ...(has ? [recordOf(address)] : [])])
}

/** An answer that points to the name of the question, for 60 s. */
function recordOf(address: string): Buffer {
  const bytes = isIPv4(address)
    ? Buffer.from(address.split('.').map(Number))
    : Buffer.from('20010db8000000000000000000000001', 'hex')
  const type = isIPv4(address) ? 1 : 28
  return Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, bytes.byteLength]), bytes])
}
