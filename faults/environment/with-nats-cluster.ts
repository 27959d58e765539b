import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type Environment, ownDatabase } from '../run/environment.ts'
import { BrokerBooks } from './broker-books.ts'
import { NatsCluster } from './nats-cluster.ts'
import { connectBooks, STREAM } from './nats-place.ts'
import { askingAnyOf, ReplicatedStream } from './replicated-stream.ts'
import { NATS_MISSING } from './with-broker.ts'

/** A database, and three NATS servers to which workers relay. What their stream has is booked as the effects. */
export interface WithNatsCluster extends Environment {
  readonly cluster: NatsCluster
  readonly stream: ReplicatedStream
}

export async function withNatsCluster(serverUrl: string): Promise<WithNatsCluster | { readonly missing: string }> {
  const cluster = await NatsCluster.start()
  if (cluster === undefined) return NATS_MISSING
  // One for each server: the books ask another one where one does not answer.
  const connections = await Promise.all(cluster.urls.map((url) => connectBooks([url])))
  const terms = { timeout: 1_000, checkAPI: false }
  const ask = askingAnyOf(await Promise.all(connections.map((one) => jetstreamManager(one, terms))))
  const stream = await ReplicatedStream.add(ask, STREAM)
  const database = await ownDatabase(serverUrl)
  const client = await connect(database.ledgerUrl)
  const books = new BrokerBooks({ ask, stream: STREAM, client, bookedId: (id) => id })
  const stop = async () => {
    await books.stop()
    await client.end()
    await Promise.all(connections.map((one) => one.close()))
    await cluster.stop()
    await database.stop()
  }
  const booked = async () => {
    await stream.whole()
    await books.complete()
  }
  return { ...database, outside: { kind: 'broker', servers: cluster.urls }, cluster, stream, booked, stop }
}
