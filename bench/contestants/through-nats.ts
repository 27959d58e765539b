import { AckPolicy, jetstreamManager, RetentionPolicy } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type pg from 'pg'
import { NatsServer } from '../../faults/environment/nats-server.ts'
import { VERSION } from '../../src/basics/version.ts'
import { createSluice } from '../../src/index.ts'
import { fromNats, nats } from '../../src/nats.ts'
import type { Consumer, ConsumeSpec, Contestant } from '../contestant.ts'
import { messageTable } from './message-table.ts'

const STREAM = 'bench'
const CONSUMER = 'inbox'
const RECEIVED = 'received'

export const sluiceThroughNats: Contestant = {
  name: 'sluice-through-nats',
  title: `Sluice ${VERSION}`,
  guarantee:
    'Each message is published at least once and enqueued once; claim, handler and settlement are one transaction',
  onlyIn: 'relay-memory',
  ...messageTable,
  tables: [...messageTable.tables, 'sluice.receipt'],
  unsettled: async (client) => countOfAll(client),
  consumes: {
    configuration:
      'relay(queue, { to: nats({ servers, subject }), batchSize, concurrency }), inbox(another, { from: fromNats({ servers, stream, ' +
      'consumer }) }) and pipeline(another, { batchSize, concurrency }), all else as it comes; the stream is a work queue',
    run,
  },
}

/** In either queue. */
async function countOfAll(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>('SELECT count(*) FROM sluice.message')
  return Number(rows[0]?.count)
}

async function run(url: string, { batchSize, inFlight, onSettled }: ConsumeSpec): Promise<Consumer> {
  const server = await NatsServer.start()
  if (server === undefined) throw new Error('nats-server is not installed')
  await addStream(server.url)
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed' && event.queue === RECEIVED) onSettled(event.acked)
    if (event.kind === 'relay.unavailable' || event.kind === 'inbox.unavailable') throw new Error(event.error)
  })
  const to = nats({ servers: server.url, subject: STREAM })
  const from = fromNats({ servers: server.url, stream: STREAM, consumer: CONSUMER })
  library.relay('bench', { to, batchSize, concurrency: inFlight }).start()
  library.inbox(RECEIVED, { from, batchSize }).start()
  library
    .pipeline(RECEIVED, { batchSize, concurrency: inFlight })
    .handle(() => {})
    .subscribe()
  return {
    stop: async () => {
      await library.stop()
      await server.stop()
    },
  }
}

async function addStream(servers: string): Promise<void> {
  const connection = await connect({ servers })
  const { streams, consumers } = await jetstreamManager(connection)
  await streams.add({ name: STREAM, subjects: [STREAM], retention: RetentionPolicy.Workqueue })
  await consumers.add(STREAM, { durable_name: CONSUMER, ack_policy: AckPolicy.Explicit })
  await connection.close()
}
