import type { ReceivedMessage } from './receiver.ts'

/** What a relay of Sluice says of a message. */
export interface Relayed {
  readonly source: string
  readonly id: string
  readonly type: string | undefined
  readonly orderingKey: string | undefined
  readonly schemaVersion: number | undefined
}

/** Undefined: no relay has published the message. */
export function relayedOf({ id, headers }: ReceivedMessage): Relayed | undefined {
  const number = headers[`${PREFIX}message-id`]
  if (id === undefined || number === undefined || !id.endsWith(`/${number}`)) return undefined
  const source = id.slice(0, -number.length - 1)
  // The sources of other publishers are names. They are not for whoever writes this header.
  if (!UUID.test(source)) return undefined
  const version = headers[`${PREFIX}schema-version`]
  return {
    source,
    id: number,
    type: decoded(headers[`${PREFIX}type`]),
    orderingKey: decoded(headers[`${PREFIX}ordering-key`]),
    schemaVersion: version === undefined ? undefined : Number(version),
  }
}

/** Without those of relays: another relay would refuse to publish them. Undefined: there are none. */
export function ownHeaders({ headers }: ReceivedMessage): Readonly<Record<string, string>> | undefined {
  const own = Object.entries(headers).filter(([name]) => !OF_RELAYS.test(name))
  return own.length === 0 ? undefined : Object.fromEntries(own)
}

const PREFIX = 'sluice-'
const OF_RELAYS = new RegExp(`^${PREFIX}`, 'i')
/** As PostgreSQL writes it. */
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** @throws URIError if it is not percent-encoded */
function decoded(text: string | undefined): string | undefined {
  return text === undefined ? undefined : decodeURIComponent(text)
}
