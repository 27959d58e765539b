import type { Options } from 'amqplib'
import type { OutgoingMessage } from '../relay/destination.ts'

/** What a message is published with. */
export function propertiesOf({ id, headers, message }: OutgoingMessage): Options.Publish {
  return {
    messageId: id,
    timestamp: Math.floor(message.enqueuedAt.getTime() / 1_000),
    contentType: headers['content-type'] ?? 'application/json',
    ...(message.type === null ? {} : { type: message.type }),
    headers,
    persistent: true,
    mandatory: true,
  }
}

/** Why a message with these headers can never be published; undefined: it can be. */
export function wrongHeaders(headers: OutgoingMessage['headers']): string | undefined {
  let size = LENGTH_BYTES
  for (const [name, value] of Object.entries(headers)) {
    if (ROUTING.includes(name)) return `header "${name}": expected another name, because RabbitMQ routes by this one`
    const bytes = Buffer.byteLength(name)
    if (bytes > LONGEST_NAME) return `header "${name}": expected a name of at most ${LONGEST_NAME} bytes`
    size += bytes + Buffer.byteLength(value) + HEADER_BYTES
  }
  return size > MOST_BYTES ? `headers: expected at most ${MOST_BYTES} bytes in all, received ${size}` : undefined
}

/** Their values are further routing keys. If a value is text, as ours are, the server closes the channel. */
const ROUTING = ['CC', 'BCC']
const LONGEST_NAME = 255
/** The buffer into which the client writes headers. */
const MOST_BYTES = 65_536
const LENGTH_BYTES = 4
/** The length of the name, the type of the value and its length. */
const HEADER_BYTES = 1 + 1 + LENGTH_BYTES
