import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { DelayLine } from './delay-line.ts'
import { applicationName, statementOf, type WireMessage, WireReader } from './wire.ts'

/** A statement that went through the proxy. */
export interface SeenStatement {
  readonly application: string
  readonly text: string
}

/** Where a message comes from: which side of which client's connection. */
export interface Origin {
  readonly from: 'client' | 'server'
  /** The client's `application_name`. */
  readonly application: string
  /** The connection: the same object for all of its messages. */
  readonly connection: object
}

/**
 * What becomes of a message: it gets through, it is lost, the connection breaks in front of it, on both sides, or is
 * half-open from it on; or it waits, with all that its side sends after it, until `letGo`.
 */
export type Passage = boolean | 'cut' | 'swallow' | 'wait'

/** A network between clients and a server that fails as networks do. */
export class TcpProxy {
  /** The database's address through the proxy. */
  readonly url: string
  /** Closes new connections at once. */
  refusing = false
  /** For how long to keep what the server says to an application. */
  delayMs: (application: string) => number = () => 0
  /** For how long to keep what an application says to the server. */
  requestDelayMs: (application: string) => number = () => 0
  /** Which messages get through. */
  passes: (message: WireMessage, origin: Origin) => Passage = () => true
  /** Is shown what clients send, each packet as a whole before it is asked what `passes`. */
  sees: (message: WireMessage) => void = () => undefined
  /** All statements so far. */
  readonly statements: SeenStatement[] = []
  /** How many connections have been accepted. */
  accepted = 0
  readonly #listener: Server
  readonly #links = new Set<Link>()
  #swallowing: 'nobody' | 'all' | { readonly application: string } = 'nobody'

  private constructor(url: string, listener: Server) {
    const target = new URL(url)
    const through = new URL(url)
    through.host = `127.0.0.1:${(listener.address() as AddressInfo).port}`
    this.url = through.href
    this.#listener = listener
    listener.on('connection', (client) => this.#accept(client, target))
  }

  static async start(url: string): Promise<TcpProxy> {
    const listener = createServer({ allowHalfOpen: true, noDelay: true }).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    return new TcpProxy(url, listener)
  }

  async stop(): Promise<void> {
    for (const link of this.#links) link.destroy()
    this.#listener.close()
    await once(this.#listener, 'close')
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

  /** From here on open connections are half-open for ever, and new ones of the same kind until `heal`. */
  blackHole(application?: string): void {
    this.#swallowing = application === undefined ? 'all' : { application }
    for (const link of this.#of(application)) link.swallows = true
  }

  /** The server learns at last that the clients of half-open connections are gone. */
  loseHalfOpen(): void {
    for (const link of this.#links) {
      if (!link.swallows) continue
      link.destroy()
      this.#links.delete(link)
    }
  }

  /** What waits goes on. */
  letGo(): void {
    for (const link of this.#links) link.letGo()
  }

  /** New connections work again, and nothing is late any more. */
  heal(): void {
    this.refusing = false
    this.delayMs = () => 0
    this.#swallowing = 'nobody'
  }

  /** Whether a connection that opens now is half-open from its start. */
  swallowsNew(application: string): boolean {
    if (typeof this.#swallowing === 'string') return this.#swallowing === 'all'
    return this.#swallowing.application === application
  }

  /** How many connections of an application are open. */
  countOf(application: string): number {
    return this.#of(application).length
  }

  #of(application: string | undefined): Link[] {
    return [...this.#links].filter((link) => application === undefined || link.application === application)
  }

  #accept(client: Socket, target: URL): void {
    this.accepted += 1
    client.on('error', () => undefined)
    if (this.refusing) {
      client.resetAndDestroy()
      return
    }
    const server = connect({
      host: target.hostname,
      port: Number(target.port),
      allowHalfOpen: true,
      // Small packets would wait for acknowledgements, 40 ms each.
      noDelay: true,
    })
    const link = new Link(this, client, server)
    this.#links.add(link)
    client.once('close', () => {
      if (!link.swallows) this.#links.delete(link)
    })
  }
}

class Link {
  readonly client: Socket
  readonly #server: Socket
  readonly #proxy: TcpProxy
  application = ''
  swallows = false
  #broken = false
  /** For each side: sends on what waits. */
  readonly #letGo: (() => void)[] = []

  constructor(proxy: TcpProxy, client: Socket, server: Socket) {
    this.#proxy = proxy
    this.client = client
    this.#server = server
    server.on('error', () => undefined)
    this.#pipe(client, server, 'client')
    this.#pipe(server, client, 'server')
  }

  destroy(): void {
    this.client.resetAndDestroy()
    this.#server.destroy()
  }

  letGo(): void {
    for (const letGo of this.#letGo) letGo()
  }

  /** @param waiting what waits of this side: all that comes after it joins it */
  #passing(messages: readonly WireMessage[], from: Origin['from'], waiting: Buffer[]): Buffer[] {
    const through: Buffer[] = []
    if (from === 'client') for (const message of messages) this.#see(message)
    for (const message of messages) {
      if (this.swallows) break
      const origin = { from, application: this.application, connection: this }
      const passage = waiting.length > 0 ? 'wait' : this.#proxy.passes(message, origin)
      if (passage === true) through.push(message.bytes)
      if (passage === 'wait') waiting.push(message.bytes)
      if (passage === 'cut' || passage === 'swallow') {
        // What came before it arrives, and then nothing more.
        this.swallows = true
        this.#broken = passage === 'cut'
        break
      }
    }
    return through
  }

  #see(message: WireMessage): void {
    this.#proxy.sees(message)
    if (message.type === '') {
      this.application = applicationName(message)
      this.swallows = this.#proxy.swallowsNew(this.application)
    }
    const text = statementOf(message)
    if (text !== undefined) this.#proxy.statements.push({ application: this.application, text })
  }

  #pipe(from: Socket, to: Socket, side: Origin['from']): void {
    const reader = new WireReader(side)
    const line = new DelayLine()
    const later = (act: () => void) => {
      const { delayMs, requestDelayMs } = this.#proxy
      line.run(act, (side === 'server' ? delayMs : requestDelayMs)(this.application))
    }
    const waiting: Buffer[] = []
    const send = (bytes: readonly Buffer[]) => {
      if (bytes.length > 0) later(() => to.writable && to.write(Buffer.concat(bytes)))
    }
    this.#letGo.push(() => send(waiting.splice(0)))
    from.on('data', (chunk) => {
      if (this.swallows) return
      send(this.#passing([...reader.read(chunk)], side, waiting))
      if (this.#broken) later(() => this.#breakOff(to))
    })
    from.on('end', () => {
      if (!this.swallows) later(() => to.end())
    })
    from.on('close', () => {
      if (!this.swallows) later(() => to.destroy())
    })
  }

  /** After a cut: what was written before it must reach its side. */
  #breakOff(written: Socket): void {
    const other = written === this.client ? this.#server : this.client
    written.end(() => written.destroy())
    other.destroy()
  }
}
