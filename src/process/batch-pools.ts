import pg from 'pg'
import type { SluiceConfig } from '../config.ts'
import type { Sockets } from '../connection/sockets.ts'
import { Address } from '../session/address.ts'
import { Session } from '../session/session.ts'
import type { Execute } from '../table/statement.ts'
import { inOnePacket, inOwnTransaction } from '../transaction/own-transaction.ts'
import type { Shared } from './shared.ts'

/**
 * The connections of batches, of enqueues in `ownTransaction` and of operations, opened when needed and closed after
 * ten idle seconds.
 */
export class BatchPools {
  readonly pool: pg.Pool
  /** Makes another pool of the same kind. */
  readonly create: () => pg.Pool

  constructor({ config, report }: Shared, sockets: Sockets) {
    // What has been learnt about prepared statements holds for the connections of all pools.
    const address = new Address(() => report({ kind: 'connection.pooled', role: 'batches', reason: WITHOUT_NAMES }))
    this.create = () => createBatchPool(config, sockets, address)
    this.pool = this.create()
  }

  /** @throws SluiceError UNREACHABLE, COMMIT_FAILED */
  inOwnTransaction<T>(work: (execute: Execute) => Promise<T>, answerMs?: number, lockMs?: number): Promise<T> {
    return inOwnTransaction(this.pool, work, answerMs, lockMs)
  }

  /** @throws SluiceError UNREACHABLE, COMMIT_FAILED */
  inOnePacket<T>(send: (execute: Execute) => Promise<T>): Promise<T> {
    return inOnePacket(this.pool, send)
  }
}

const WITHOUT_NAMES =
  'A pooler hands server sessions around and does not track prepared statements: statements go without names, which ' +
  'takes more time'

function createBatchPool(config: SluiceConfig, sockets: Sockets, address: Address): pg.Pool {
  const pool = new pg.Pool({
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: 'sluice',
    ...sockets.of(config.connection),
    pipeline: true,
    connectionTimeoutMillis: config.connectTimeoutMs,
    // The concurrency of the pipelines is the limit.
    max: Number.MAX_SAFE_INTEGER,
    idleTimeoutMillis: 10_000,
    allowExitOnIdle: true,
  })
  // If an idle connection breaks, another is opened when one is needed.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => {
    // Without a listener the process would end if the connection of a client in use breaks.
    client.on('error', () => undefined)
    learn(client, address).catch(() => undefined)
  })
  return pool
}

async function learn(client: pg.PoolClient, address: Address): Promise<void> {
  const session = Session.of(client)
  await session.learn(client, address)
  // Sent before a handler's first statement, which waits until the claim has been answered.
  if (session.pooled) await session.learnPoolerSettings(client)
}
