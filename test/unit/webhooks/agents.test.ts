import http from 'node:http'
import https from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type OutboundOptions, resolveOutbound } from '../../../src/outbound/options.ts'
import { Poster } from '../../../src/outbound/poster.ts'
import type { Resolve } from '../../../src/outbound/wall.ts'
import { startReceiver } from '../../support/servers/receiver.ts'
import { SELF_SIGNED } from '../../support/servers/self-signed.ts'

const going = new AbortController().signal
const { cert: ca } = SELF_SIGNED

/** Resolves any name to this machine. */
const here: Resolve = (_hostname, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }])
/** Nothing may be resolved here. */
const nowhere: Resolve = (hostname, _options, callback) => callback(new Error(`${hostname} was resolved`), [])

async function portOf(server: http.Server, ends: Iterable<Duplex> = []): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    for (const end of ends) end.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as AddressInfo).port
}

/** A server with a certificate of `inside.example`, which answers with the path of a request. */
function startSecure(): Promise<number> {
  return portOf(https.createServer(SELF_SIGNED, ({ url }, response) => void response.writeHead(201).end(url)))
}

/** A proxy for which every name is this machine, and the places to which it was asked to connect. */
async function startProxy(): Promise<{ readonly port: number; readonly asked: readonly string[] }> {
  const asked: string[] = []
  const ends = new Set<Duplex>()
  const proxy = http.createServer()
  proxy.on('connect', ({ url = '' }: http.IncomingMessage, socket: Duplex) => {
    asked.push(url)
    const beyond = connect(Number(url.split(':')[1]), '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    for (const end of [socket, beyond]) {
      end.on('error', () => undefined)
      // The server lets go of a socket that it has handed over, and waits for it when it closes.
      ends.add(end)
    }
    socket.pipe(beyond).pipe(socket)
  })
  return { port: await portOf(proxy, ends), asked }
}

/** An agent as packages for proxies have it: its connections go through a tunnel. */
class Tunnel extends https.Agent {
  readonly #proxyPort: number

  constructor(proxyPort: number) {
    super({ ca })
    this.#proxyPort = proxyPort
  }

  override createConnection(
    options: https.RequestOptions,
    callback: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const path = `${options.host}:${options.port}`
    const request = http.request({ host: '127.0.0.1', port: this.#proxyPort, method: 'CONNECT', path })
    request.once('error', (error) => callback(error, undefined as never))
    request.once('connect', (_, socket) =>
      callback(null, tls.connect({ socket, ca, servername: String(options.host) })),
    )
    request.end()
  }
}

function post(url: string, options: OutboundOptions, resolve: Resolve) {
  const poster = new Poster(resolveOutbound('test', options), resolve)
  return poster.post({ url, headers: { 'content-length': '2' }, body: Buffer.from('{}') }, going)
}

describe('a request of https', () => {
  test('is answered by a server whose certificate the agent trusts, and by the name of the URL', async () => {
    const port = await startSecure()
    const options = { ports: [port], networks: ['127.0.0.0/8'] }
    const url = `https://inside.example:${port}/hook`
    const agent = new https.Agent({ ca })
    expect(await post(url, { ...options, agent }, here)).toMatchObject({ status: 201, text: '/hook' })
    await expect(post(url, options, here)).rejects.toThrow(/self-signed/)
    const other = `https://other.example:${port}/hook`
    await expect(post(other, { ...options, agent }, here)).rejects.toThrow(/other\.example/)
  })

  test('goes through the wall, whatever agent is given', async () => {
    const port = await startSecure()
    const agent = new https.Agent({ ca })
    const refused = post(`https://inside.example:${port}/`, { ports: [port], agent }, here)
    await expect(refused).rejects.toMatchObject({ address: '127.0.0.1' })
  })

  test('goes to a proxy by its agent, and the proxy resolves the name', async () => {
    const [port, proxy] = [await startSecure(), await startProxy()]
    const options = { ports: [port], agent: new Tunnel(proxy.port) }
    const url = `https://inside.example:${port}/hook`
    expect(await post(url, options, nowhere)).toMatchObject({ status: 201, text: '/hook' })
    expect(proxy.asked).toEqual([`inside.example:${port}`])
  })
})

describe('a request of http', () => {
  test('goes by the agent for http, and one of https by the other', async () => {
    const [receiver, port] = [await startReceiver(), await startSecure()]
    const agents = { https: new https.Agent({ ca }), http: new http.Agent({ keepAlive: true }) }
    onTestFinished(() => agents.http.destroy())
    const options = { ...receiver.reach, ports: [receiver.port, port], agent: agents }
    expect(await post(receiver.url, options, nowhere)).toMatchObject({ status: 204 })
    expect(Object.values(agents.http.freeSockets)).toHaveLength(1)
    expect(await post(`https://127.0.0.1:${port}/a`, options, nowhere)).toMatchObject({ status: 201, text: '/a' })
  })

  test('goes by an agent of its own, within the wall, if only one for https is named', async () => {
    const receiver = await startReceiver()
    const agent = { https: new https.Agent({ ca }) }
    expect(await post(receiver.url, { ...receiver.reach, agent }, nowhere)).toMatchObject({ status: 204 })
    const refused = post(`http://inside.example:${receiver.port}/`, { ...receiver.reach, networks: [], agent }, here)
    await expect(refused).rejects.toMatchObject({ address: '127.0.0.1' })
  })

  test('goes by one agent for both, if that can send both', async () => {
    const receiver = await startReceiver()
    const agent = new http.Agent()
    expect(await post(receiver.url, { ...receiver.reach, agent }, nowhere)).toMatchObject({ status: 204 })
  })
})

test.for([
  [
    'one for https with allowHttp',
    { allowHttp: true, agent: new https.Agent() },
    'test.agent: expected agents for https and http',
  ],
  ['no agent', { agent: 'proxy' }, 'test.agent: expected an agent of node:https'],
  ['no agent for http', { agent: { http: {} } }, 'test.agent.http: expected an agent of node:https'],
  ['an unknown name', { agent: { htps: new https.Agent() } }, 'test.agent: expected only the options https, http'],
] as const)('%s is refused', ([, options, message]) => {
  expect(() => resolveOutbound('test', options as OutboundOptions)).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(message) }),
  )
})
