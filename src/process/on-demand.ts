import type pg from 'pg'
import { Sockets } from '../connection/sockets.ts'
import type { ClaimLines } from '../pull/claim-lines.ts'
import type { Execute } from '../table/statement.ts'
import type { InOnePacket, InOwnTransaction } from '../transaction/own-transaction.ts'
import type { BatchPools } from './batch-pools.ts'
import { WAKE_UPS } from './connection-plan.ts'
import type { CurrentWorker } from './current-worker.ts'
import { NO_PULSE, type Pulse } from './health.ts'
import type { Shared } from './shared.ts'

/**
 * The parts of a Sluice that have connections. Each is loaded when it is needed first: a process that enqueues in its
 * own transactions needs none of them. If a part cannot be loaded, the next call tries again.
 */
export class OnDemand {
  readonly #shared: Shared
  readonly #sockets = new Sockets()
  readonly #pools = new LoadedOnce<BatchPools>(async () => {
    const module = await import('./batch-pools.ts')
    return new module.BatchPools(this.#shared, this.#sockets)
  })
  readonly #worker = new LoadedOnce<CurrentWorker>(async () => {
    const [module, pools] = await Promise.all([import('./current-worker.ts'), this.pools()])
    this.#loaded = new module.CurrentWorker(this.#shared, pools)
    return this.#loaded
  })
  readonly #claimLines = new LoadedOnce<ClaimLines>(async () => {
    const module = await import('../pull/claim-lines.ts')
    return new module.ClaimLines(this.#shared.config, this.#shared.report, (signal) => this.#roomForLines(signal))
  })
  #loaded: CurrentWorker | undefined

  constructor(shared: Shared) {
    this.#shared = shared
  }

  /** The connections of the worker now. */
  get pulse(): Pulse {
    return this.#loaded?.pulse ?? NO_PULSE
  }

  worker(): Promise<CurrentWorker> {
    return this.#worker.get()
  }

  pools(): Promise<BatchPools> {
    return this.#pools.get()
  }

  claimLines(): Promise<ClaimLines> {
    return this.#claimLines.get()
  }

  /** @throws SluiceError UNREACHABLE, COMMIT_FAILED */
  readonly inOwnTransaction: InOwnTransaction = async (work, answerMs, lockMs) => {
    const pools = await this.pools()
    return pools.inOwnTransaction(work, answerMs, lockMs)
  }

  /** @throws SluiceError UNREACHABLE, COMMIT_FAILED */
  readonly inOnePacket: InOnePacket = async (send) => {
    const pools = await this.pools()
    return pools.inOnePacket(send)
  }

  /** Does work that opens one connection of its own. */
  readonly withRoom = async <T>(work: () => Promise<T>): Promise<T> => {
    const pools = await this.pools()
    return pools.withRoom(work)
  }

  /** Runs work in a transaction on a connection of its own, which is closed at the end: the Sluice may have stopped. */
  async inTransactionApart<T>(work: (execute: Execute) => Promise<T>, answerMs?: number): Promise<T> {
    const module = await import('./batch-pools.ts')
    const sockets = new Sockets()
    const pools = new module.BatchPools(this.#shared, sockets)
    try {
      return await pools.inOwnTransaction(work, answerMs)
    } finally {
      await pools.end()
      await sockets.closed()
    }
  }

  /** @throws SluiceError OPTION_INVALID if `maxConnections` leaves none; STOPPED if the signal aborts */
  async #roomForLines(signal: AbortSignal): Promise<() => void> {
    const { connections } = this.#shared
    const pools = await this.pools()
    connections.fix(WAKE_UPS)
    try {
      const leave = await pools.room(WAKE_UPS, signal)
      return () => {
        leave()
        connections.free(WAKE_UPS)
      }
    } catch (error) {
      connections.free(WAKE_UPS)
      throw error
    }
  }

  /** The configuration of connections that are cut when the Sluice has stopped. */
  owned(connection: pg.ClientConfig): pg.ClientConfig {
    return this.#sockets.of(connection)
  }

  /** Those who wait for a claim wait no longer. */
  async stopClaimLines(): Promise<void> {
    await (await this.#claimLines.had())?.stop()
  }

  /** Closes all connections. The pipelines must have ended. */
  async end(): Promise<void> {
    await (await this.#worker.had())?.stop()
    await (await this.#pools.had())?.end()
    await this.#sockets.closed()
  }

  /** Makes everything fail that still waits for the server. */
  cut(): void {
    this.#worker
      .had()
      .then((worker) => worker?.cut())
      .catch(() => undefined)
    this.#sockets.cut('The Sluice has stopped')
  }
}

/** A part that is loaded once. */
class LoadedOnce<T> {
  readonly #load: () => Promise<T>
  #loading: Promise<T> | undefined

  constructor(load: () => Promise<T>) {
    this.#load = load
  }

  get(): Promise<T> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = undefined
      throw error
    })
    return this.#loading
  }

  /** If it was asked for. One that could not be loaded need not be ended. */
  async had(): Promise<T | undefined> {
    return this.#loading?.catch(() => undefined)
  }
}
