import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { NatsServer } from '../../faults/environment/nats-server.ts'
import { VERSION } from '../../src/basics/version.ts'
import { createSluice } from '../../src/index.ts'
import { nats } from '../../src/nats.ts'
import type { Consumer, ConsumeSpec, Contestant } from '../contestant.ts'
import { messageTable } from './message-table.ts'
import { loopByHand } from './raw-loop.ts'

const STREAM = 'bench'

export const relay: Contestant = {
  name: 'relay',
  title: `Sluice ${VERSION}`,
  guarantee: 'A row goes in the transaction of its batch, after the confirm; in order of each key',
  onlyIn: 'relay',
  ...messageTable,
  keepsOrder: true,
  consumes: {
    configuration: 'relay(queue, { to: nats({ servers, subject }), batchSize, concurrency }), all else as it comes',
    run: async (url, spec) => withServer(async (servers) => relayTo(servers, url, spec)),
  },
}

/** With the same client, as it comes. */
export const relayByHand: Contestant = {
  name: 'relay-by-hand',
  title: 'By hand',
  guarantee:
    'A row goes in the transaction of its batch, after the confirm; the first that fails stops its batch for ever',
  onlyIn: 'relay',
  ...messageTable,
  fill: (client, { keys: _, ...spec }) => messageTable.fill(client, spec),
  consumes: {
    configuration:
      'the loop by hand; publish with msgID for each message of a batch, without waiting in between, then all confirms',
    run: async (url, spec) =>
      withServer(async (servers) => {
        const connection = await connect({ servers })
        return publishByHand(connection, url, spec)
      }),
  },
}

function relayTo(servers: string, url: string, { batchSize, inFlight, onSettled }: ConsumeSpec): Consumer {
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') onSettled(event.acked)
    if (event.kind === 'relay.unavailable') throw new Error(event.error)
  })
  const to = nats({ servers, subject: STREAM })
  library.relay('bench', { to, batchSize, concurrency: inFlight }).start()
  return { stop: () => library.stop() }
}

async function publishByHand(connection: NatsConnection, url: string, spec: ConsumeSpec): Promise<Consumer> {
  const client = jetstream(connection)
  const loop = await loopByHand(url, {
    ...spec,
    work: async (_, rows) => {
      await Promise.all(rows.map(({ id, payload }) => client.publish(STREAM, payload, { msgID: id })))
    },
  })
  return {
    stop: async () => {
      await loop.stop()
      await connection.close()
    },
  }
}

/** With a server and a stream of the sample's own. */
async function withServer(start: (servers: string) => Promise<Consumer>): Promise<Consumer> {
  const server = await NatsServer.start()
  if (server === undefined) throw new Error('nats-server is not installed')
  const connection = await connect({ servers: server.url })
  const { streams } = await jetstreamManager(connection)
  await streams.add({ name: STREAM, subjects: [STREAM] })
  await connection.close()
  const consumer = await start(server.url)
  return {
    stop: async () => {
      await consumer.stop()
      await server.stop()
    },
  }
}
