import { type ConfirmChannel, connect } from 'amqplib'
import { RabbitmqServer } from '../../faults/environment/rabbitmq-server.ts'
import { VERSION } from '../../src/basics/version.ts'
import { createSluice } from '../../src/index.ts'
import { rabbitmq } from '../../src/rabbitmq.ts'
import type { Consumer, ConsumeSpec, Contestant } from '../contestant.ts'
import { messageTable } from './message-table.ts'
import { loopByHand } from './raw-loop.ts'

const QUEUE = 'bench'

export const relayRabbitmq: Contestant = {
  name: 'rabbitmq',
  title: `Sluice ${VERSION}`,
  guarantee: 'A row goes in the transaction of its batch, after the confirm; in order of each key',
  onlyIn: 'relay-rabbitmq',
  ...messageTable,
  keepsOrder: true,
  consumes: {
    configuration:
      "relay(queue, { to: rabbitmq({ servers, exchange: '', routingKey }), batchSize, concurrency }), all else as it comes",
    run: async (url, spec) => withServer((server) => relayTo(server, url, spec)),
  },
}

/** With the same client, as it comes. */
export const relayRabbitmqByHand: Contestant = {
  name: 'rabbitmq-by-hand',
  title: 'By hand',
  guarantee:
    'A row goes in the transaction of its batch, after the confirm; the first that fails stops its batch for ever, and a message ' +
    'for which there is no queue is lost',
  onlyIn: 'relay-rabbitmq',
  ...messageTable,
  fill: (client, { keys: _, ...spec }) => messageTable.fill(client, spec),
  consumes: {
    configuration:
      'the loop by hand; publish with messageId and persistent on a confirm channel for each message of a batch, without waiting ' +
      'in between, then all confirms',
    run: async (url, spec) => withServer((server) => publishByHand(server, url, spec)),
  },
}

async function relayTo(
  servers: string,
  url: string,
  { batchSize, inFlight, onSettled }: ConsumeSpec,
): Promise<Consumer> {
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') onSettled(event.acked)
    if (event.kind === 'relay.unavailable') throw new Error(event.error)
  })
  const to = rabbitmq({ servers, exchange: '', routingKey: QUEUE })
  library.relay('bench', { to, batchSize, concurrency: inFlight }).start()
  return { stop: () => library.stop() }
}

async function publishByHand(server: string, url: string, spec: ConsumeSpec): Promise<Consumer> {
  const connection = await connect(server)
  const channel = await connection.createConfirmChannel()
  const loop = await loopByHand(url, {
    ...spec,
    work: async (_, rows) => {
      await Promise.all(rows.map(({ id, payload }) => publish(channel, id, payload)))
    },
  })
  return {
    stop: async () => {
      await loop.stop()
      await connection.close()
    },
  }
}

function publish(channel: ConfirmChannel, messageId: string, payload: string): Promise<void> {
  return new Promise((resolve, reject) => {
    channel.sendToQueue(QUEUE, Buffer.from(payload), { messageId, persistent: true }, (error) => {
      if (error === null) resolve()
      else reject(error)
    })
  })
}

/** With a server and a durable queue of the sample's own. */
async function withServer(start: (server: string) => Promise<Consumer>): Promise<Consumer> {
  const server = await RabbitmqServer.start()
  if (server === undefined) throw new Error('rabbitmq-server is not installed')
  const connection = await connect(server.url)
  const channel = await connection.createChannel()
  await channel.assertQueue(QUEUE)
  await connection.close()
  const consumer = await start(server.url)
  return {
    stop: async () => {
      await consumer.stop()
      await server.stop()
    },
  }
}
