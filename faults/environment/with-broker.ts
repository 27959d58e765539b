import { deliveryOf, GROUPS } from '../ledger.ts'
import { connect, type Environment, ownDatabase } from '../run/environment.ts'
import { BrokerBooks } from './broker-books.ts'
import { type NatsPlace, STREAM, startNatsPlace } from './nats-place.ts'

/** A database, and a NATS server to which workers relay. What its streams have is booked as their effects. */
export interface WithBroker extends Environment, NatsPlace {}

/** The stream for what a group publishes: in one stream the second group's events would be dropped as duplicates. */
export function streamFor(group: string): string {
  return `${STREAM}-${group}`
}

export async function withBroker(serverUrl: string): Promise<WithBroker | { readonly missing: string }> {
  const nats = await startNatsPlace([STREAM, ...GROUPS.map(streamFor)])
  if (nats === undefined) return NATS_MISSING
  const { place, url, end } = nats
  const database = await ownDatabase(serverUrl)
  const client = await connect(database.ledgerUrl)
  const of = (stream: string, bookedId: (id: string) => string) =>
    new BrokerBooks({ ask: (work) => work(place.manager), stream, client, bookedId })
  const books = [
    of(STREAM, (id) => id),
    ...GROUPS.map((group) => of(streamFor(group), (id) => deliveryOf(positionIn(id), group))),
  ]
  const stop = async () => {
    for (const one of books) await one.stop()
    await client.end()
    await end()
    await database.stop()
  }
  const booked = async () => void (await Promise.all(books.map((one) => one.complete())))
  return { ...database, ...place, outside: { kind: 'broker', servers: [url] }, booked, stop }
}

export const NATS_MISSING = { missing: 'nats-server is not installed' }

/** Of an event, whose id is `<stream>/<position>`. */
function positionIn(id: string): number {
  return Number(id.split('/').at(-1))
}
