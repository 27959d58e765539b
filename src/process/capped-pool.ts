import type pg from 'pg'
import { pause } from '../basics/pause.ts'
import type { Seats, Use } from '../connection/seats.ts'
import type { Connections } from '../transaction/check-out.ts'

/**
 * Keeps the connections of a pool, and those that are opened beside it, to so many together. Who has a seat finds one in the
 * pool, or may open it. Before others are opened, idle ones of the pool are closed.
 */
export class CappedPool {
  readonly #pool: pg.Pool
  readonly #max: number
  readonly #seats: Seats
  #besides = 0
  #closing = 0

  constructor(pool: pg.Pool, max: number, seats: Seats) {
    this.#pool = pool
    this.#max = max
    this.#seats = seats
    pool.options.max = max
  }

  /** Connections of the pool that wait for a seat. */
  connectionsFor(use: Use): Connections {
    const pool = this.#pool
    return {
      connect: pool.connect.bind(pool),
      get ending() {
        return pool.ending
      },
      seat: (signal) => this.#seats.take(use, signal),
    }
  }

  /** Room for one connection beside the pool, in the turn of calls. */
  async forCall(): Promise<() => void> {
    const leave = await this.#seats.take('calls')
    await this.#enter(1)
    return () => {
      this.#leave(1)
      leave()
    }
  }

  /** Room for connections beside the pool, for long. */
  async besides(count: number): Promise<() => void> {
    const leave = await this.#seats.besides(count)
    await this.#enter(count)
    return () => {
      this.#leave(count)
      leave()
    }
  }

  async #enter(count: number): Promise<void> {
    this.#besides += count
    this.#pool.options.max = Math.max(1, this.#max - this.#besides)
    const closed: Promise<void>[] = []
    while (this.#excess > 0 && this.#pool.idleCount > this.#pool.waitingCount) closed.push(this.#closeOne())
    await Promise.all(closed)
  }

  #leave(count: number): void {
    this.#besides -= count
    this.#pool.options.max = this.#max - this.#besides
  }

  get #excess(): number {
    return this.#pool.totalCount - this.#closing - (this.#max - this.#besides)
  }

  /** The pool gives idle connections before it opens others. */
  async #closeOne(): Promise<void> {
    this.#closing += 1
    try {
      const client = await this.#pool.connect()
      const late = new AbortController()
      client.connection.stream.once('close', () => late.abort())
      client.release(true)
      await pause(FAREWELL_MS, late.signal)
    } catch {
      // The server has closed it meanwhile.
    } finally {
      this.#closing -= 1
    }
  }
}

const FAREWELL_MS = 1_000
