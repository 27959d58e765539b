import type { BatchPools } from './batch-pools.ts'
import type { SluiceConfig } from './config.ts'
import { Sockets } from './connection/sockets.ts'
import type { Waiting } from './pull/waiting.ts'
import type { Alphabet } from './session/alphabet.ts'
import type { Execute } from './table/statement.ts'
import type { Report } from './telemetry/events.ts'
import type { Workers } from './workers.ts'

/**
 * The parts of a Sluice that have connections. Each is loaded when it is needed first: a process that enqueues in its
 * own transactions needs none of them. If a part cannot be loaded, the next call tries again.
 */
export class OnDemand {
  readonly #config: SluiceConfig
  readonly #alphabet: Alphabet
  readonly #report: Report
  readonly #sockets = new Sockets()
  #pools: Promise<BatchPools> | undefined
  #workers: Promise<Workers> | undefined
  #waiting: Promise<Waiting> | undefined

  constructor(config: SluiceConfig, alphabet: Alphabet, report: Report) {
    this.#config = config
    this.#alphabet = alphabet
    this.#report = report
  }

  workers(): Promise<Workers> {
    this.#workers ??= Promise.all([import('./workers.ts'), this.pools()])
      .then(([module, pools]) => new module.Workers(this.#config, pools, this.#alphabet, this.#report))
      .catch((error: unknown) => {
        this.#workers = undefined
        throw error
      })
    return this.#workers
  }

  pools(): Promise<BatchPools> {
    this.#pools ??= import('./batch-pools.ts')
      .then((module) => new module.BatchPools(this.#config, this.#sockets, this.#report))
      .catch((error: unknown) => {
        this.#pools = undefined
        throw error
      })
    return this.#pools
  }

  waiting(): Promise<Waiting> {
    this.#waiting ??= import('./pull/waiting.ts')
      .then((module) => new module.Waiting(this.#config, this.#report))
      .catch((error: unknown) => {
        this.#waiting = undefined
        throw error
      })
    return this.#waiting
  }

  /** Runs work in a transaction on a connection of its own, which is closed at the end: the Sluice may have stopped. */
  async inTransactionApart<T>(work: (execute: Execute) => Promise<T>, answerMs?: number): Promise<T> {
    const module = await import('./batch-pools.ts')
    const sockets = new Sockets()
    const pools = new module.BatchPools(this.#config, sockets, this.#report)
    try {
      return await pools.inOwnTransaction(work, answerMs)
    } finally {
      await pools.pool.end()
      await sockets.closed()
    }
  }

  /** Those who wait for a claim wait no longer. */
  async stopWaiting(): Promise<void> {
    // A part that could not be loaded need not be ended.
    await (await this.#waiting?.catch(() => undefined))?.stop()
  }

  /** Closes all connections. The pipelines must have ended. */
  async end(): Promise<void> {
    await (await this.#workers?.catch(() => undefined))?.stop()
    await (await this.#pools?.catch(() => undefined))?.pool.end()
    await this.#sockets.closed()
  }

  /** Makes everything fail that still waits for the server. */
  cut(): void {
    this.#workers?.then((workers) => workers.cut()).catch(() => undefined)
    this.#sockets.cut('The Sluice has stopped')
  }
}
