import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { DelayLine } from './delay-line.ts'

/** An address that stays while what is behind it changes. */
export class TcpRelay {
  readonly port: number
  /** For how long to keep what the servers say. */
  delayMs = 0
  readonly #listener: Server
  readonly #pairs = new Set<readonly [client: Socket, server: Socket]>()
  #target: number | undefined
  #frozen = false

  private constructor(listener: Server) {
    this.#listener = listener
    this.port = (listener.address() as AddressInfo).port
    listener.on('connection', (client) => this.#accept(client))
  }

  static async start(): Promise<TcpRelay> {
    const listener = createServer({ noDelay: true }).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    return new TcpRelay(listener)
  }

  /** Where new connections go from now on. Without a port they are refused, as they are at first. */
  pointTo(port: number | undefined): void {
    this.#target = port
  }

  /** Breaks all open connections, on both sides. What is on its way is lost. */
  cut(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.resetAndDestroy()
  }

  /** Keeps what the servers say until `thaw`. */
  freeze(): void {
    this.#frozen = true
    for (const [, server] of this.#pairs) server.pause()
  }

  thaw(): void {
    this.#frozen = false
    for (const [, server] of this.#pairs) server.resume()
  }

  async stop(): Promise<void> {
    this.cut()
    if (!this.#listener.listening) return
    this.#listener.close()
    await once(this.#listener, 'close')
  }

  #accept(client: Socket): void {
    client.on('error', () => undefined)
    if (this.#target === undefined) {
      client.resetAndDestroy()
      return
    }
    const server = connect({ port: this.#target, host: '127.0.0.1', noDelay: true })
    server.on('error', () => undefined)
    const pair = [client, server] as const
    this.#pairs.add(pair)
    const late = new DelayLine()
    client.on('data', (chunk) => server.write(chunk))
    server.on('data', (chunk) => late.run(() => client.write(chunk), this.delayMs))
    for (const [from, to] of [pair, [server, client] as const]) {
      from.on('end', () => to.end())
      from.on('close', () => {
        this.#pairs.delete(pair)
        to.destroySoon()
      })
    }
    if (this.#frozen) server.pause()
  }
}
