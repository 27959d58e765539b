import { setTimeout as pause } from 'node:timers/promises'
import type { JetStreamManager } from '@nats-io/jetstream'
import type pg from 'pg'
import { until } from '../run/until.ts'

/** Reads a stream from its beginning, and books each of its messages as an effect, in its order. */
export class BrokerBooks {
  readonly #manager: JetStreamManager
  readonly #stream: string
  readonly #client: pg.Client
  readonly #bookedId: (messageId: string) => string
  readonly #reading: Promise<void>
  #next = 1
  #stopped = false

  constructor(manager: JetStreamManager, stream: string, client: pg.Client, bookedId: (messageId: string) => string) {
    this.#stream = stream
    this.#manager = manager
    this.#client = client
    this.#bookedId = bookedId
    this.#reading = this.#read()
  }

  /** Resolves when all that the stream has now is booked. */
  async complete(): Promise<void> {
    const { state } = await this.#manager.streams.info(this.#stream)
    await until(() => this.#next > state.last_seq, `the books of ${state.last_seq} messages`, 30_000)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#reading
  }

  async #read(): Promise<void> {
    while (!this.#stopped) {
      // The broker may be down, and there are no books before the load begins.
      const found = await this.#bookNext().catch(() => false)
      if (!found) await pause(EVERY_MS)
    }
  }

  async #bookNext(): Promise<boolean> {
    const stored = await this.#manager.streams.getMessage(this.#stream, { seq: this.#next })
    if (stored === null) return false
    await this.#client.query(BOOK, [this.#bookedId(stored.header.get('sluice-message-id'))])
    this.#next += 1
    return true
  }
}

const EVERY_MS = 10

/** All that is known of an effect at a broker is that it is there: its attempt is not. */
const BOOK = `
WITH begun AS (
  INSERT INTO ledger.started (message_id, worker, attempt, at) VALUES ($1::bigint, 'broker', 1, now())
)
INSERT INTO ledger.effect (message_id, worker, attempt, at) VALUES ($1::bigint, 'broker', 1, now())`
