import { type ConfirmChannel, connect } from 'amqplib'
import { RabbitmqServer } from '../../faults/environment/rabbitmq-server.ts'
import { rabbitmq } from '../../src/rabbitmq.ts'
import { type Publisher, type RelayServer, relayBy, relayByHand } from './relay.ts'

const QUEUE = 'bench'

const task = {
  name: 'to-rabbitmq',
  cell: 'relay-rabbitmq',
  destination: "rabbitmq({ servers, exchange: '', routingKey })",
  byHand: 'publish with messageId and persistent on a confirm channel',
  loss: 'a message for which there is no queue is lost',
  start,
}

export const sluiceToRabbitmq = relayBy(task)
export const rawLoopToRabbitmq = relayByHand(task)

async function start(): Promise<RelayServer> {
  const server = await RabbitmqServer.start()
  if (server === undefined) throw new Error('rabbitmq-server is not installed')
  const connection = await connect(server.url)
  const channel = await connection.createChannel()
  await channel.assertQueue(QUEUE)
  await connection.close()
  return {
    to: rabbitmq({ servers: server.url, exchange: '', routingKey: QUEUE }),
    connect: () => publisherTo(server.url),
    stop: () => server.stop(),
  }
}

async function publisherTo(url: string): Promise<Publisher> {
  const connection = await connect(url)
  const channel = await connection.createConfirmChannel()
  return { publish: (id, payload) => publish(channel, id, payload), close: () => connection.close() }
}

function publish(channel: ConfirmChannel, messageId: string, payload: string): Promise<void> {
  return new Promise((resolve, reject) => {
    channel.sendToQueue(QUEUE, Buffer.from(payload), { messageId, persistent: true }, (error) => {
      if (error === null) resolve()
      else reject(error)
    })
  })
}
