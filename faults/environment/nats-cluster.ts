import { freePort } from '../../server/free-port.ts'
import { NatsServer } from './nats-server.ts'
import { TcpRelay } from './tcp-relay.ts'

/** Three NATS servers that are a cluster, and the network between them. */
export class NatsCluster {
  readonly servers: readonly NatsServer[]
  readonly #ways: readonly Way[]

  private constructor(servers: readonly NatsServer[], ways: readonly Way[]) {
    this.servers = servers
    this.#ways = ways
  }

  /** Undefined if NATS is not installed. */
  static async start(): Promise<NatsCluster | undefined> {
    const ports = [await freePort(), await freePort(), await freePort()]
    const ways: Way[] = []
    const servers: NatsServer[] = []
    for (const [from, port] of ports.entries()) {
      const others = [0, 1, 2].filter((at) => at !== from)
      const out = await Promise.all(others.map((at) => wayTo(from, at, Number(ports[at]))))
      ways.push(...out)
      const routes = out.map(({ relay }) => `nats://127.0.0.1:${relay.port}`)
      // Nobody can be reached under the advertised address, so that there is no way but those.
      const cluster = ['--cluster', `nats://127.0.0.1:${port}`, '--cluster_advertise', '127.0.0.1:1']
      const server = await NatsServer.make([
        '-n',
        `n${from}`,
        '--cluster_name',
        'test',
        ...cluster,
        '--routes',
        routes.join(),
      ])
      if (server !== undefined) servers.push(server)
    }
    const made = new NatsCluster(servers, ways)
    if (servers.length < ports.length) {
      await made.stop()
      return undefined
    }
    await Promise.all(servers.map((server) => server.run()))
    return made
  }

  get urls(): string[] {
    return this.servers.map(({ url }) => url)
  }

  /** Parts a server from the other two. Clients reach all three. */
  isolate(server: number): void {
    for (const { from, to, relay } of this.#ways) {
      if (from !== server && to !== server) continue
      relay.pointTo(undefined)
      relay.cut()
    }
  }

  rejoin(): void {
    for (const { port, relay } of this.#ways) relay.pointTo(port)
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()))
    await Promise.all(this.#ways.map(({ relay }) => relay.stop()))
  }
}

/** From one server to the port of another. */
interface Way {
  readonly from: number
  readonly to: number
  readonly port: number
  readonly relay: TcpRelay
}

async function wayTo(from: number, to: number, port: number): Promise<Way> {
  const relay = await TcpRelay.start()
  relay.pointTo(port)
  return { from, to, port, relay }
}
