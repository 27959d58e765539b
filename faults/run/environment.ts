import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { LEDGER } from '../actors/ledger-writer.ts'

/** Where the load goes to outside of the database. */
export type Outside =
  /** Workers publish to these servers, of NATS or RabbitMQ; with `inbox` they also receive from there, and handle what they receive. */
  | { readonly kind: 'broker'; readonly servers: readonly string[]; readonly inbox?: boolean }
  /** Producers send webhooks to endpoints under this host, whose names one name server knows, and workers send them on. */
  | { readonly kind: 'endpoints'; readonly host: string; readonly nameServer: string }

/** Where a scenario runs: an empty database, and the ways to it. */
export interface Environment {
  /** The application's way to the database, for producers and batches. */
  readonly url: string
  /** The way for sessions of their own. @default url */
  readonly directUrl?: string | undefined
  /** A way that no fault blocks, for the books and for the auditor. It may be down while the server is. */
  readonly ledgerUrl: string
  /** @default the load is handled where it is */
  readonly outside?: Outside | undefined
  /**
   * Resolves when the books have all effects that there are. There is a time between an effect and the end of its message, because
   * the effect happens elsewhere. @default they are written at once
   */
  readonly booked?: () => Promise<void>
  /** A pooler keeps the server's connections open. */
  readonly pooled?: boolean
  /** Workers have no sessions of their own: who vanishes stays on the books for a while. */
  readonly unsupervised?: boolean
  stop(): Promise<void>
}

/** A database of a scenario's own on a server that others use as well. */
export async function ownDatabase(serverUrl: string): Promise<Environment> {
  const name = `faults_${randomBytes(5).toString('hex')}`
  await onServer(serverUrl, `CREATE DATABASE ${name}`)
  const url = new URL(serverUrl)
  url.pathname = name
  return {
    url: url.href,
    ledgerUrl: url.href,
    stop: () => onServer(serverUrl, `DROP DATABASE ${name} WITH (FORCE)`),
  }
}

/** One statement on a connection of its own. */
export async function onServer(url: string, text: string): Promise<void> {
  const client = await connect(url)
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

/** A connection for the harness, which faults pass by. */
export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: LEDGER })
  client.on('error', () => undefined)
  await client.connect()
  return client
}
