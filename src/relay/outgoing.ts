import { HandedMessage } from '../claim/handed-message.ts'
import type { Message } from '../message.ts'
import type { Identity } from './cloud-event.ts'
import type { OutgoingMessage } from './destination.ts'
import { type FormatPlan, formatted } from './format.ts'
import { percentEncoded } from './percent-encoded.ts'

/**
 * A message as it leaves the database. Text: why no destination may get it. Its headers could add others or pass for the
 * relay's own, or its format is refused.
 */
export function toOutgoing(message: Message, source: string, format: FormatPlan): OutgoingMessage | string {
  const users = userHeaders(message)
  if (typeof users === 'string') return users
  const identity = identityOf(message, source)
  const made = formatted(format, message, identity, HandedMessage.storedOf(message).payload)
  if (typeof made === 'string') return made
  const { id } = identity
  const headers = joined(users, ownHeaders(message), made.headers)
  return { id, source, body: UTF_8.encode(made.body), headers, message }
}

const UTF_8 = new TextEncoder()
const PREFIX = 'sluice-'
const OWN = new RegExp(`^${PREFIX}`, 'i')
/** As HTTP has it, and the brokers. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const CONTROLS = /\p{Cc}/u

type Headers = Readonly<Record<string, string>>

/** An event is the same for all groups, and after a seek. Names of streams have no slash, so no message is called as an event is. */
function identityOf(message: Message, source: string): Identity {
  return { id: `${source}/${message.id}`, source }
}

/** The headers of the message as text; undefined: it has none. Text: why they are refused. */
function userHeaders({ headers }: Message): Headers | string | undefined {
  const texts = Object.entries(headers).map(([name, value]) => [name, textOf(value)] as const)
  if (texts.length === 0) return undefined
  for (const [name, text] of texts) {
    const wrong = wrongHeader(name, text)
    if (wrong !== undefined) return `header ${JSON.stringify(name)}: expected ${wrong}`
  }
  return Object.fromEntries(texts)
}

/** What is expected instead; undefined: it is well. */
function wrongHeader(name: string, text: string): string | undefined {
  if (!TOKEN.test(name)) return "a name of letters, digits and !#$%&'*+-.^_`|~"
  if (OWN.test(name)) return `a name that does not begin with ${PREFIX}`
  return CONTROLS.test(text) ? 'a value without control characters' : undefined
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

function ownHeaders({ id, queue, stream, position, type, orderingKey, schemaVersion, enqueuedAt }: Message): Headers {
  const own: Record<string, string> = {
    'sluice-message-id': id,
    'sluice-schema-version': String(schemaVersion),
    'sluice-enqueued-at': enqueuedAt.toISOString(),
  }
  if (stream === null) own['sluice-queue'] = percentEncoded(queue)
  else {
    // Not its group: consumers get the same from each.
    own['sluice-stream'] = percentEncoded(stream)
    own['sluice-position'] = String(position)
  }
  if (type !== null) own['sluice-type'] = percentEncoded(type)
  if (orderingKey !== null) own['sluice-ordering-key'] = percentEncoded(orderingKey)
  return own
}

/** Most messages have the relay's own alone: to copy these takes as long as to make them. */
function joined(users: Headers | undefined, own: Headers, added: Headers | undefined): Headers {
  return users === undefined && added === undefined ? own : { ...users, ...own, ...added }
}
