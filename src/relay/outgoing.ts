import { HandedMessage } from '../claim/handed-message.ts'
import type { Message } from '../message.ts'
import type { OutgoingMessage } from './destination.ts'

/** A message as it leaves the database. */
export function toOutgoing(message: Message, source: string): OutgoingMessage {
  const { payload } = HandedMessage.storedOf(message)
  return {
    id: `${source}/${message.id}`,
    source,
    body: UTF_8.encode(payload),
    headers: { ...userHeaders(message), ...ownHeaders(message) },
    message,
  }
}

/** Why no destination may get a message, by its headers: they could add others, or pass for the relay's own. */
export function refusalOf({ headers }: Message): string | undefined {
  for (const [name, value] of Object.entries(headers)) {
    const shown = JSON.stringify(name)
    if (!TOKEN.test(name)) return `header ${shown}: expected a name of letters, digits and !#$%&'*+-.^_\`|~`
    if (OWN.test(name)) return `header ${shown}: expected a name that does not begin with ${PREFIX}`
    if (CONTROLS.test(textOf(value))) return `header ${shown}: expected a value without control characters`
  }
  return undefined
}

const UTF_8 = new TextEncoder()
const PREFIX = 'sluice-'
const OWN = new RegExp(`^${PREFIX}`, 'i')
/** As HTTP has it, and the brokers. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const CONTROLS = /\p{Cc}/u

function userHeaders({ headers }: Message): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, textOf(value)]))
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

function ownHeaders({ id, queue, type, orderingKey, schemaVersion, enqueuedAt }: Message): Record<string, string> {
  return {
    [`${PREFIX}message-id`]: id,
    [`${PREFIX}queue`]: encoded(queue),
    ...(type === null ? {} : { [`${PREFIX}type`]: encoded(type) }),
    ...(orderingKey === null ? {} : { [`${PREFIX}ordering-key`]: encoded(orderingKey) }),
    [`${PREFIX}schema-version`]: String(schemaVersion),
    [`${PREFIX}enqueued-at`]: enqueuedAt.toISOString(),
  }
}

/** Percent-encoded where it holds anything but visible ASCII characters: keys and types are any text. */
function encoded(text: string): string {
  return text.replaceAll(/[^!-$&-~]+/g, encodeURIComponent)
}
