import type pg from 'pg'
import type { Connections } from '../transaction/check-out.ts'

/** A pool that can open a connection before anybody asks for one. The first who asks gets it, and waits for it if need be. */
export class AheadPool implements Connections {
  readonly #pool: Connections
  #ahead: Promise<pg.PoolClient> | undefined

  constructor(pool: Connections) {
    this.#pool = pool
  }

  get ending(): boolean {
    return this.#pool.ending
  }

  connect(): Promise<pg.PoolClient> {
    return this.#take() ?? this.#pool.connect()
  }

  /** If it cannot be opened, the first who asks tries again, and hears why. */
  async open(): Promise<void> {
    if (this.#ahead !== undefined) return
    const ahead = this.#connect()
    this.#ahead = ahead
    const client = await ahead.catch(() => undefined)
    if (this.#ahead !== ahead) return
    this.#ahead = undefined
    client?.release()
  }

  /** The driver throws at once if it cannot read its configuration. */
  async #connect(): Promise<pg.PoolClient> {
    return this.#pool.connect()
  }

  #take(): Promise<pg.PoolClient> | undefined {
    const ahead = this.#ahead
    this.#ahead = undefined
    return ahead
  }
}
