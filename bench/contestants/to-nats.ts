import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { NatsServer } from '../../faults/environment/nats-server.ts'
import { nats } from '../../src/nats.ts'
import { type Publisher, type RelayServer, relayBy, relayByHand } from './relay.ts'

const STREAM = 'bench'

const task = {
  name: 'to-nats',
  cell: 'relay',
  destination: 'nats({ servers, subject })',
  byHand: 'publish with msgID',
  start,
}

export const sluiceToNats = relayBy(task)
export const rawLoopToNats = relayByHand(task)

async function start(): Promise<RelayServer> {
  const server = await NatsServer.start()
  if (server === undefined) throw new Error('nats-server is not installed')
  const connection = await connect({ servers: server.url })
  const { streams } = await jetstreamManager(connection)
  await streams.add({ name: STREAM, subjects: [STREAM] })
  await connection.close()
  return {
    to: nats({ servers: server.url, subject: STREAM }),
    connect: () => publisherTo(server.url),
    stop: () => server.stop(),
  }
}

async function publisherTo(servers: string): Promise<Publisher> {
  const connection = await connect({ servers })
  const client = jetstream(connection)
  return {
    publish: (msgID, payload) => client.publish(STREAM, payload, { msgID }),
    close: () => connection.close(),
  }
}
