import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { applicationName, statementOf, type WireMessage, WireReader } from './wire.ts'

/** A statement that went through the proxy. */
export interface SeenStatement {
  readonly application: string
  readonly text: string
}

/** A network between a client and the test's server that fails as networks do. It goes with the test. */
export class TcpProxy {
  /** The database's address through the proxy. */
  readonly url: string
  /** Closes new connections at once. */
  refusing = false
  /** For how long to keep what the server says to an application. */
  delayMs: (application: string) => number = () => 0
  /** Which of the server's messages get through. */
  passes: (message: WireMessage) => boolean = () => true
  /** All statements so far. */
  readonly statements: SeenStatement[] = []
  /** How many connections have been accepted. */
  accepted = 0
  readonly #links = new Set<Link>()
  #swallowing = false

  private constructor(url: string, listener: Server) {
    const target = new URL(url)
    const through = new URL(url)
    through.host = `127.0.0.1:${(listener.address() as AddressInfo).port}`
    this.url = through.href
    listener.on('connection', (client) => this.#accept(client, target))
  }

  static async start(url: string): Promise<TcpProxy> {
    const listener = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const proxy = new TcpProxy(url, listener)
    onTestFinished(async () => {
      for (const link of proxy.#links) link.destroy()
      listener.close()
      await once(listener, 'close')
    })
    return proxy
  }

  /** Breaks the open connections on both sides, all or those of an application. */
  cut(application?: string): void {
    for (const link of this.#of(application)) link.destroy()
  }

  /** Ends what the server sends to the client, and nothing else. */
  halfClose(application?: string): void {
    for (const link of this.#of(application)) link.client.end()
  }

  /** Breaks the open connections to the client, and the server does not notice. */
  loseClients(application?: string): void {
    for (const link of this.#of(application)) {
      link.swallows = true
      link.client.resetAndDestroy()
    }
  }

  /** From here on open connections are half-open for ever, and new ones until `heal`. */
  blackHole(application?: string): void {
    this.#swallowing = true
    for (const link of this.#of(application)) link.swallows = true
  }

  /** New connections work again. */
  heal(): void {
    this.refusing = false
    this.#swallowing = false
  }

  #of(application: string | undefined): Link[] {
    return [...this.#links].filter((link) => application === undefined || link.application === application)
  }

  #accept(client: Socket, target: URL): void {
    this.accepted += 1
    client.on('error', () => undefined)
    if (this.refusing) client.resetAndDestroy()
    else
      this.#links.add(
        new Link(
          this,
          client,
          connect({ host: target.hostname, port: Number(target.port), allowHalfOpen: true }),
          this.#swallowing,
        ),
      )
  }
}

class Link {
  readonly client: Socket
  readonly #server: Socket
  readonly #proxy: TcpProxy
  application = ''
  swallows: boolean

  constructor(proxy: TcpProxy, client: Socket, server: Socket, swallows: boolean) {
    this.#proxy = proxy
    this.client = client
    this.#server = server
    this.swallows = swallows
    server.on('error', () => undefined)
    const fromClient = new WireReader('client')
    const fromServer = new WireReader('server')
    this.#pipe(client, server, fromClient, (message) => this.#seeClient(message))
    this.#pipe(server, client, fromServer, (message) => proxy.passes(message))
  }

  destroy(): void {
    this.client.resetAndDestroy()
    this.#server.destroy()
  }

  #seeClient(message: WireMessage): boolean {
    if (message.type === '') this.application = applicationName(message)
    const text = statementOf(message)
    if (text !== undefined) this.#proxy.statements.push({ application: this.application, text })
    return true
  }

  #pipe(from: Socket, to: Socket, reader: WireReader, passes: (message: WireMessage) => boolean): void {
    const later = (act: () => void) => {
      if (this.swallows) return
      const delayMs = to === this.client ? this.#proxy.delayMs(this.application) : 0
      if (delayMs > 0) setTimeout(act, delayMs)
      else act()
    }
    from.on('data', (chunk) => {
      const passing = [...reader.read(chunk)].filter(passes).map(({ bytes }) => bytes)
      if (passing.length > 0) later(() => to.writable && to.write(Buffer.concat(passing)))
    })
    from.on('end', () => later(() => to.end()))
    from.on('close', () => later(() => to.destroy()))
  }
}
