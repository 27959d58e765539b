import type { Message } from 'amqplib'
import type { ReceivedMessage } from '../inbox/receiver.ts'

/** A message as the inbox takes it. */
export function receivedOf({ content, properties }: Message): ReceivedMessage {
  const { messageId, type, headers } = properties
  return { id: textOf(messageId), body: content, headers: headersOf(headers ?? {}), type: textOf(type) }
}

function textOf(property: unknown): string | undefined {
  return typeof property === 'string' && property !== '' ? property : undefined
}

/** Strings as they are, and all other values as JSON. */
function headersOf(table: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const own = Object.entries(table).filter(([name]) => !ORDERS.includes(name))
  return Object.fromEntries(own.map(([name, value]) => [name, typeof value === 'string' ? value : toJson(value)]))
}

const toJson = (value: unknown) => JSON.stringify(value)

/** By these the publisher has told the server where, or when, to deliver the message. */
const ORDERS = ['CC', 'BCC', 'x-delay']
