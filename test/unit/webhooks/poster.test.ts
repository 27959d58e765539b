import type { LookupAddress } from 'node:dns'
import { Agent } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type OutboundOptions, resolveOutbound } from '../../../src/outbound/options.ts'
import { Poster } from '../../../src/outbound/poster.ts'
import type { Resolve } from '../../../src/outbound/wall.ts'
import { answering, type Receiver, startReceiver } from '../../support/servers/receiver.ts'
import { waitFor } from '../../support/wait.ts'

const going = new AbortController().signal
const BODY = Buffer.from('{"a":"é"}')

function posterFor(receiver: Pick<Receiver, 'reach'>, options: OutboundOptions = {}, resolve?: Resolve): Poster {
  return new Poster(resolveOutbound('test', { ...receiver.reach, ...options }), resolve)
}

function requestTo(url: string) {
  return { url, headers: { 'content-length': String(BODY.byteLength), 'x-own': 'yes' }, body: BODY }
}

/** A server that answers with bytes of its own, until the test ends. */
async function startSocketServer(onSocket: (socket: Socket) => void): Promise<Pick<Receiver, 'url' | 'reach'>> {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    onSocket(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    reach: { allowHttp: true, ports: [port], networks: ['127.0.0.0/8'] },
  }
}

describe('a request', () => {
  test('has its headers and its body, and returns the answer', async () => {
    const receiver = await startReceiver()
    receiver.answer = answering(429, { 'retry-after': '7' }, 'later')
    const answer = await posterFor(receiver).post(requestTo(`${receiver.url}/hook?a=1`), going)
    expect(answer).toEqual({ status: 429, retryAfter: '7', text: 'later' })
    expect(receiver.received).toMatchObject([
      { method: 'POST', path: '/hook?a=1', body: '{"a":"é"}', headers: { 'x-own': 'yes' } },
    ])
  })

  test('uses a connection again', async () => {
    const receiver = await startReceiver()
    const poster = posterFor(receiver)
    await poster.post(requestTo(receiver.url), going)
    await poster.post(requestTo(receiver.url), going)
    expect(new Set(receiver.received.map(({ clientPort }) => clientPort)).size).toBe(1)
  })

  test('is sent again if the server has closed the connection that it was to use again', async () => {
    const receiver = await startReceiver()
    const poster = posterFor(receiver)
    await poster.post(requestTo(receiver.url), going)
    receiver.answer = (_, response) => {
      receiver.answer = answering(200)
      response.socket?.resetAndDestroy()
    }
    expect(await poster.post(requestTo(receiver.url), going)).toMatchObject({ status: 200 })
    expect(receiver.received).toHaveLength(3)
  })

  test('does not follow a redirect', async () => {
    const receiver = await startReceiver()
    receiver.answer = answering(302, { location: `${receiver.url}/inside` })
    expect(await posterFor(receiver).post(requestTo(receiver.url), going)).toMatchObject({ status: 302 })
    expect(receiver.received).toHaveLength(1)
  })

  test('ends when its time is over, although nothing has failed', async () => {
    const receiver = await startReceiver()
    receiver.answer = () => undefined
    await expect(posterFor(receiver, { timeout: '1s' }).post(requestTo(receiver.url), going)).rejects.toThrow(
      'no answer within 1000 ms',
    )
  })

  test('ends with the status when an answer does not end', async () => {
    const receiver = await startReceiver()
    receiver.answer = (_, response) => {
      response.writeHead(200)
      const trickle = setInterval(() => response.write('.'), 50)
      response.once('close', () => clearInterval(trickle))
    }
    const answer = await posterFor(receiver, { timeout: '1s' }).post(requestTo(receiver.url), going)
    expect(answer.status).toBe(200)
    expect(answer.text).toMatch(/^\.+$/)
  })

  test('reads no more than 64 KiB of an answer, and keeps the first KiB', async () => {
    const receiver = await startReceiver()
    let sent = 0
    let isClosed = false
    receiver.answer = (_, response) => {
      response.writeHead(500)
      const more = () => {
        while (!response.closed && response.write('x'.repeat(16_384))) sent += 16_384
      }
      response.on('drain', more)
      response.once('close', () => {
        isClosed = true
      })
      more()
    }
    const { text } = await posterFor(receiver).post(requestTo(receiver.url), going)
    expect(text).toBe('x'.repeat(1_024))
    await waitFor(() => isClosed, { what: 'the end of the connection' })
    // What is on its way through the buffers of both systems as well.
    expect(sent).toBeLessThan(16 * 2 ** 20)
  })

  test('ends without an answer when the server switches to another protocol', async () => {
    const server = await startSocketServer((socket) => {
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
      )
    })
    await expect(posterFor(server).post(requestTo(server.url), going)).rejects.toThrow(
      'the connection was closed without an answer',
    )
  })

  test('closes the connection of a server that answers before it has read the body', async () => {
    const server = await startSocketServer((socket) => {
      socket.once('data', () => {
        socket.pause()
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
      })
    })
    const agent = new Agent({ keepAlive: true })
    const body = Buffer.alloc(64 * 2 ** 20)
    const request = { url: server.url, headers: { 'content-length': String(body.byteLength) }, body }
    expect(await posterFor(server, { agent }).post(request, going)).toMatchObject({ status: 200 })
    const open = () => [...Object.values(agent.sockets), ...Object.values(agent.freeSockets)].flat()
    await waitFor(() => open().length === 0, { what: 'the end of the connection' })
  })

  test('ends when its signal aborts', async () => {
    const receiver = await startReceiver()
    const stop = new AbortController()
    receiver.answer = () => stop.abort()
    await expect(posterFor(receiver).post(requestTo(receiver.url), stop.signal)).rejects.toThrow(/abort/i)
  })

  test.for(['http://127.1', 'http://0x7f.1', 'http://2130706433', 'http://[::ffff:127.0.0.1]', 'http://0.0.0.0'])(
    'never reaches %s',
    async (host) => {
      const receiver = await startReceiver()
      const poster = posterFor(receiver, { networks: [] })
      await expect(poster.post(requestTo(`${host}:${receiver.port}`), going)).rejects.toThrow(
        'expected a public address',
      )
      expect(receiver.received).toEqual([])
    },
  )

  test('goes to no name whose address changes after it was judged', async () => {
    const receiver = await startReceiver()
    const answers = ['192.0.2.1', '127.0.0.1']
    const asked: string[] = []
    const rebinding: Resolve = (hostname, _options, callback) => {
      asked.push(hostname)
      const address = answers[Math.min(asked.length, answers.length) - 1] ?? ''
      callback(null, [{ address, family: 4 } satisfies LookupAddress])
    }
    const poster = posterFor(receiver, { networks: ['192.0.2.0/24'], timeout: '1s' }, rebinding)
    const request = requestTo(`http://rebinding.example:${receiver.port}`)
    // To the judged address, which belongs to no machine, and never to the other one.
    await expect(poster.post(request, going)).rejects.toThrow()
    expect(asked).toHaveLength(1)
    await expect(poster.post(request, going)).rejects.toMatchObject({
      message: expect.stringMatching(
        /^rebinding\.example: expected a public address, received one that is not allowed\./,
      ),
      address: '127.0.0.1',
    })
    expect(receiver.received).toEqual([])
  })
})
