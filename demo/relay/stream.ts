import { setTimeout as sleep } from 'node:timers/promises'
import { AckPolicy, type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, nanos } from '@nats-io/transport-node'
import type { NatsCluster } from '../../faults/environment/nats-cluster.ts'

export const STREAM = 'shop'
export const SUBJECT = 'shop.orders'
export const CONSUMER = 'warehouse'

/** The stream on three servers, as one that runs such a cluster would make it. */
export class SharedStream {
  readonly #cluster: NatsCluster
  readonly #manager: JetStreamManager
  readonly close: () => Promise<void>

  private constructor(cluster: NatsCluster, manager: JetStreamManager, close: () => Promise<void>) {
    this.#cluster = cluster
    this.#manager = manager
    this.close = close
  }

  /** Makes the stream, with a copy on each server, and the consumer of the warehouse. */
  static async make(cluster: NatsCluster): Promise<SharedStream> {
    const connection = await connect({ servers: cluster.urls, maxReconnectAttempts: -1, reconnectTimeWait: 100 })
    const manager = await jetstreamManager(connection, { timeout: 1_000, checkAPI: false })
    const copies = { num_replicas: cluster.servers.length }
    // Until the servers have chosen a leader there is no answer.
    await untilDone(() => manager.streams.add({ name: STREAM, subjects: [SUBJECT], ...copies }))
    await untilDone(() =>
      manager.consumers.add(STREAM, {
        durable_name: CONSUMER,
        ack_policy: AckPolicy.Explicit,
        ack_wait: nanos(ACK_WAIT_MS),
        ...copies,
      }),
    )
    return new SharedStream(cluster, manager, () => connection.close())
  }

  /** Kills the server that leads the stream. Returns what starts it again. */
  async killLeader(): Promise<() => Promise<void>> {
    const name = await untilDone(async () => (await this.#manager.streams.info(STREAM)).cluster?.leader)
    const leader = this.#cluster.servers[Number(name.slice(1))]
    await leader?.kill()
    return async () => leader?.run()
  }

  /** How many messages it has stored. */
  count(): Promise<number> {
    return untilDone(async () => (await this.#manager.streams.info(STREAM)).state.messages)
  }
}

/** What a call returns when it returns something: a cluster that chooses a leader answers nobody. */
async function untilDone<Result>(call: () => Promise<Result | undefined>): Promise<Result> {
  const until = performance.now() + LONGEST_MS
  for (;;) {
    const result = await call().catch((error: unknown) => {
      if (performance.now() > until) throw error
      return undefined
    })
    if (result !== undefined) return result
    await sleep(100)
  }
}

/** After a server was killed the inbox waits as long, for what the broker had given it before. */
const ACK_WAIT_MS = 3_000
const LONGEST_MS = 60_000
