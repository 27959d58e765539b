import pg from 'pg'
import type { SluiceConfig } from '../config.ts'
import type { Use } from '../connection/seats.ts'
import type { Sockets } from '../connection/sockets.ts'
import { Address } from '../session/address.ts'
import { Session } from '../session/session.ts'
import type { Execute } from '../table/statement.ts'
import type { Connections } from '../transaction/check-out.ts'
import { inOnePacket, inOwnTransaction } from '../transaction/own-transaction.ts'
import { CappedPool } from './capped-pool.ts'
import type { Shared } from './shared.ts'

/**
 * The connections of batches, of enqueues in `ownTransaction` and of operations, opened when needed and closed after
 * ten idle seconds.
 */
export class BatchPools {
  readonly connections: Readonly<Record<Use, Connections>>
  readonly #pool: pg.Pool
  readonly #create: () => pg.Pool
  readonly #capped: CappedPool | undefined

  constructor({ config, connections, report }: Shared, sockets: Sockets) {
    // What has been learnt about prepared statements holds for the connections of all pools.
    const address = new Address(() => report({ kind: 'connection.pooled', role: 'batches', reason: WITHOUT_NAMES }))
    this.#create = () => createBatchPool(config, sockets, address)
    const pool = this.#create()
    this.#pool = pool
    const { limited } = connections
    this.#capped = limited && new CappedPool(pool, limited.max, limited.seats)
    const connectionsFor = (use: Use): Connections => this.#capped?.connectionsFor(use) ?? pool
    this.connections = {
      batches: connectionsFor('batches'),
      transactions: connectionsFor('transactions'),
      claims: connectionsFor('claims'),
      settlements: connectionsFor('settlements'),
      calls: connectionsFor('calls'),
    }
  }

  /** @throws SluiceError UNREACHABLE, COMMIT_FAILED */
  inOwnTransaction<T>(work: (execute: Execute) => Promise<T>, answerMs?: number, lockMs?: number): Promise<T> {
    return inOwnTransaction(this.connections.calls, work, answerMs, lockMs)
  }

  /** @throws SluiceError UNREACHABLE, COMMIT_FAILED */
  inOnePacket<T>(send: (execute: Execute) => Promise<T>): Promise<T> {
    return inOnePacket(this.connections.calls, send)
  }

  /** Does work with new connections, one at a time. */
  apart<T>(work: (connections: Connections) => Promise<T>): Promise<T> {
    return this.withRoom(async () => {
      const pool = this.#create()
      try {
        return await work(pool)
      } finally {
        const ended = pool.end()
        // Where nothing counts connections, the goodbye need not be waited for.
        if (this.#capped !== undefined) await ended
      }
    })
  }

  /** Does work that opens one connection of its own. */
  async withRoom<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.#capped?.roomForCall()
    try {
      return await work()
    } finally {
      leave?.()
    }
  }

  /**
   * Resolves when so many connections beside those of the pool may be opened, with what says that they are closed.
   *
   * @param signal they are not wanted any more
   * @throws SluiceError STOPPED
   */
  async room(count: number, signal?: AbortSignal): Promise<() => void> {
    return (await this.#capped?.room(count, signal)) ?? (() => undefined)
  }

  async end(): Promise<void> {
    await this.#pool.end()
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
    // The concurrency of the pipelines is the limit, or `maxConnections`.
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
