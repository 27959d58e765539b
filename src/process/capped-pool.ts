import type pg from 'pg'
import type { Seats, Use } from '../connection/seats.ts'
import type { Connections } from '../transaction/check-out.ts'
import { closed } from '../transaction/closed.ts'

/**
 * Limits the connections of a pool and those that are opened beside it together. The holder of a seat finds a connection in the
 * pool, or the pool opens one. Before others are opened, idle ones of the pool are closed.
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
  async roomForCall(): Promise<() => void> {
    const leave = await this.#seats.take('calls')
    await this.#enter(1)
    return () => {
      this.#leave(1)
      leave()
    }
  }

  /** Room for connections beside the pool, for long. @param signal leaves the line. @throws SluiceError STOPPED */
  async room(count: number, signal?: AbortSignal): Promise<() => void> {
    const leave = await this.#seats.room(count, signal)
    await this.#enter(count)
    return () => {
      this.#leave(count)
      leave()
    }
  }

  async #enter(count: number): Promise<void> {
    this.#besides += count
    this.#pool.options.max = Math.max(1, this.#max - this.#besides)
    const closing: Promise<void>[] = []
    while (this.#excess > 0 && this.#pool.idleCount > this.#pool.waitingCount) closing.push(this.#closeOne())
    await Promise.all(closing)
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
    // The server may have closed it meanwhile.
    const client = await this.#pool.connect().catch(() => undefined)
    client?.release(true)
    // The pool no longer counts it.
    this.#closing -= 1
    if (client !== undefined) await closed(client)
  }
}
