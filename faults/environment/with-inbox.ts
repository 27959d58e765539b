import { AckPolicy, type JetStreamManager } from '@nats-io/jetstream'
import { nanos } from '@nats-io/transport-node'
import { connect, type Environment, ownDatabase } from '../run/environment.ts'
import { until } from '../run/until.ts'
import { type NatsPlace, STREAM, startNatsPlace } from './nats-place.ts'
import { type OwnServer, ownServer } from './own-server.ts'
import { NATS_MISSING } from './with-broker.ts'

/** A database, and a NATS server to which workers relay, and from which they receive. */
export interface WithInbox extends Environment, NatsPlace {}

/** The queue into which their inbox enqueues. */
export const RECEIVED = 'received'

/** The durable consumer of the stream. */
export const CONSUMER = 'inbox'

export function withInbox(serverUrl: string): Promise<WithInbox | { readonly missing: string }> {
  return receivingIn(() => ownDatabase(serverUrl))
}

/** The same with a server of PostgreSQL that may be brought down. */
export function withInboxAndServer(): Promise<(WithInbox & OwnServer) | { readonly missing: string }> {
  return receivingIn(() => ownServer())
}

async function receivingIn<Database extends Environment>(
  make: () => Promise<Database>,
): Promise<(Database & WithInbox) | { readonly missing: string }> {
  const nats = await startNatsPlace([STREAM])
  if (nats === undefined) return NATS_MISSING
  const { place, url, end } = nats
  await addConsumer(place.manager)
  const database = await make()
  const stop = async () => {
    await end()
    await database.stop()
  }
  const booked = () => untilHandled(database.ledgerUrl, () => isReceived(place.manager))
  return { ...database, ...place, outside: { kind: 'broker', servers: [url], inbox: true }, booked, stop }
}

/** What is not acked is free again after a second and a half. */
export async function addConsumer(manager: JetStreamManager): Promise<void> {
  const terms = { ack_policy: AckPolicy.Explicit, ack_wait: nanos(1_500) }
  await manager.consumers.add(STREAM, { durable_name: CONSUMER, ...terms })
}

async function isReceived(manager: JetStreamManager): Promise<boolean> {
  const { num_pending: waiting, num_ack_pending: unacked } = await manager.consumers.info(STREAM, CONSUMER)
  return waiting + unacked === 0
}

/** Resolves when all that was published is received and handled, or at last without that: what is missing then is lost. */
export async function untilHandled(ledgerUrl: string, isAllReceived: () => Promise<boolean>): Promise<void> {
  const client = await connect(ledgerUrl)
  const isHandled = async () => {
    if (!(await isAllReceived())) return false
    const { rows } = await client.query('SELECT FROM sluice.message WHERE queue = $1 LIMIT 1', [RECEIVED])
    return rows.length === 0
  }
  try {
    await until(() => isHandled().catch(() => false), 'all to be handled', HANDLED_MS, EVERY_MS)
  } catch {
    // The auditor says what is missing.
  } finally {
    await client.end()
  }
}

const HANDLED_MS = 30_000
const EVERY_MS = 50
