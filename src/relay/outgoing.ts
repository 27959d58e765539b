import { HandedMessage } from '../claim/handed-message.ts'
import type { Message } from '../message.ts'
import type { Identity } from './cloud-event.ts'
import type { OutgoingMessage } from './destination.ts'
import { type FormatPlan, formatted, refusalBy } from './format.ts'
import { percentEncoded } from './percent-encoded.ts'

/** A message as it leaves the database. */
export function toOutgoing(message: Message, source: string, format: FormatPlan): OutgoingMessage {
  const identity = identityOf(message, source)
  const { body, headers } = formatted(format, message, identity, HandedMessage.storedOf(message).payload)
  return {
    ...identity,
    body: UTF_8.encode(body),
    headers: { ...userHeaders(message), ...ownHeaders(message), ...headers },
    message,
  }
}

/** Why no destination may get a message: its headers could add others or pass for the relay's own, or its format is refused. */
export function refusalOf(message: Message, source: string, format: FormatPlan): string | undefined {
  for (const [name, value] of Object.entries(message.headers)) {
    const shown = JSON.stringify(name)
    if (!TOKEN.test(name)) return `header ${shown}: expected a name of letters, digits and !#$%&'*+-.^_\`|~`
    if (OWN.test(name)) return `header ${shown}: expected a name that does not begin with ${PREFIX}`
    if (CONTROLS.test(textOf(value))) return `header ${shown}: expected a value without control characters`
  }
  return refusalBy(format, message, identityOf(message, source))
}

const UTF_8 = new TextEncoder()
const PREFIX = 'sluice-'
const OWN = new RegExp(`^${PREFIX}`, 'i')
/** As HTTP has it, and the brokers. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const CONTROLS = /\p{Cc}/u

/** An event is the same for all groups, and after a seek. Names of streams have no slash, so no message is called as an event is. */
function identityOf(message: Message, source: string): Identity {
  return { id: `${source}/${message.id}`, source }
}

function userHeaders({ headers }: Message): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, textOf(value)]))
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

function ownHeaders(message: Message): Record<string, string> {
  const { id, type, orderingKey, schemaVersion, enqueuedAt } = message
  return {
    [`${PREFIX}message-id`]: id,
    ...originOf(message),
    ...(type === null ? {} : { [`${PREFIX}type`]: percentEncoded(type) }),
    ...(orderingKey === null ? {} : { [`${PREFIX}ordering-key`]: percentEncoded(orderingKey) }),
    [`${PREFIX}schema-version`]: String(schemaVersion),
    [`${PREFIX}enqueued-at`]: enqueuedAt.toISOString(),
  }
}

/** Of an event its stream, and not its group: consumers get the same from each. */
function originOf({ queue, stream, position }: Message): Record<string, string> {
  if (stream === null) return { [`${PREFIX}queue`]: percentEncoded(queue) }
  return { [`${PREFIX}stream`]: percentEncoded(stream), [`${PREFIX}position`]: String(position) }
}
