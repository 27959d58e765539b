import { type ConfirmChannel, connect, type GetMessage } from 'amqplib'
import { RabbitmqServer } from '../../../faults/environment/rabbitmq-server.ts'
import type { PublishedMessage } from '../../../src/testing/conformance.ts'
import type { MessageToPublish } from '../../../src/testing/receiver-conformance.ts'
import { test as base } from '../sluice.ts'

/**
 * `test` with a RabbitMQ server of the file's own, which takes seconds to start: each test has an exchange and queues of its own
 * names. Skips the test where RabbitMQ is not installed.
 */
export const test = base
  .extend('started', { scope: 'file' }, async ({}, { onCleanup }) => {
    const server = await RabbitmqServer.start([`max_message_size = ${MOST_BYTES}`])
    onCleanup(() => server?.stop())
    return server
  })
  .extend('broker', ({ started, skip }) => started ?? skip('rabbitmq-server is not installed'))

/** The largest message that it takes. */
export const MOST_BYTES = 100_000

/** What is done on a channel beside the relay's. */
export async function onChannel<T>({ url }: RabbitmqServer, work: (channel: ConfirmChannel) => Promise<T>): Promise<T> {
  const connection = await connect(url)
  connection.on('error', () => undefined)
  try {
    const channel = await connection.createConfirmChannel()
    const result = await work(channel)
    // The end of the connection would overtake what is on its way.
    await channel.waitForConfirms()
    return result
  } finally {
    await connection.close()
  }
}

/** Takes all messages out of a queue, in its order. */
export function takenFrom(broker: RabbitmqServer, queue: string): Promise<readonly GetMessage[]> {
  return onChannel(broker, async (channel) => {
    const taken: GetMessage[] = []
    for (;;) {
      const message = await channel.get(queue, { noAck: true })
      if (message === false) return taken
      taken.push(message)
    }
  })
}

/** A message as its consumer gets it. */
export function published({ properties, content }: GetMessage): PublishedMessage {
  const headers = Object.entries(properties.headers ?? {}).map(([name, value]) => [name, String(value)])
  return { id: String(properties.messageId), body: content.toString(), headers: Object.fromEntries(headers) }
}

/** Puts messages into a queue, in their order, which keeps them when the server is killed. */
export function sendTo(broker: RabbitmqServer, queue: string, messages: readonly MessageToPublish[]): Promise<void> {
  return onChannel(broker, async (channel) => {
    await channel.assertQueue(queue)
    for (const { id, body, headers } of messages)
      channel.sendToQueue(queue, Buffer.from(body), { messageId: id, headers, persistent: true })
  })
}
