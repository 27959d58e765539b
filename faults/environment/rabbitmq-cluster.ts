import { ErlangNames } from './erlang-names.ts'
import { RabbitmqServer } from './rabbitmq-server.ts'

/** Three RabbitMQ servers that are a cluster. */
export class RabbitmqCluster {
  readonly servers: readonly RabbitmqServer[]
  readonly #names: ErlangNames

  private constructor(servers: readonly RabbitmqServer[], names: ErlangNames) {
    this.servers = servers
    this.#names = names
  }

  /** Undefined if RabbitMQ is not installed. */
  static async start(): Promise<RabbitmqCluster | undefined> {
    const names = await ErlangNames.start()
    const first = await RabbitmqServer.make({ name: 'sluice1', names })
    if (first === undefined) {
      names.stop()
      return undefined
    }
    const servers = [first]
    const cluster = new RabbitmqCluster(servers, names)
    try {
      await first.run()
      for (const name of ['sluice2', 'sluice3']) {
        const server = await RabbitmqServer.make({ name, names, settings: joining(first) })
        if (server === undefined) throw new Error('rabbitmq-server is gone')
        servers.push(server)
        // Two that join at once lock each other out for seconds.
        await server.run()
      }
    } catch (error) {
      await cluster.stop()
      throw error
    }
    return cluster
  }

  get urls(): readonly string[] {
    return this.servers.map(({ url }) => url)
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()))
    this.#names.stop()
  }
}

/** A server that starts for the first time joins this one. */
function joining({ node }: RabbitmqServer): readonly string[] {
  return [
    'cluster_formation.peer_discovery_backend = classic_config',
    `cluster_formation.classic_config.nodes.1 = ${node}`,
  ]
}
