import { setTimeout as pause } from 'node:timers/promises'
import type { JetStreamManager, StoredMsg } from '@nats-io/jetstream'
import type pg from 'pg'
import { until } from '../run/until.ts'

/** Asks a server of the broker that answers. */
export type AskNats = <T>(work: (manager: JetStreamManager) => Promise<T>) => Promise<T>

export interface BrokerBooksOptions {
  readonly ask: AskNats
  readonly stream: string
  readonly client: pg.Client
  /** What the books call a message of this id. */
  readonly bookedId: (messageId: string) => string
}

/** Reads a stream from its beginning, and books each of its messages as an effect, in its order. */
export class BrokerBooks {
  readonly #options: BrokerBooksOptions
  readonly #reading: Promise<void>
  #next = 1
  /** For how many messages it asks at a time: twice as many after each time that all were there. */
  #count = 1
  #stopped = false

  constructor(options: BrokerBooksOptions) {
    this.#options = options
    this.#reading = this.#read()
  }

  /** Resolves when all that the stream has now is booked. */
  async complete(): Promise<void> {
    const { ask, stream } = this.#options
    const last = async () => (await ask((manager) => manager.streams.info(stream))).state.last_seq
    const isComplete = () =>
      last().then(
        (seq) => this.#next > seq,
        () => false,
      )
    await until(isComplete, `the books of stream ${stream}`, COMPLETE_MS, EVERY_MS)
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
    const { client, bookedId } = this.#options
    const found = await this.#stored()
    this.#count = found.length < this.#count ? 1 : Math.min(2 * this.#count, MOST)
    if (found.length === 0) return false
    await client.query(BOOK, [found.map(({ header }) => bookedId(header.get('sluice-message-id')))])
    this.#next += found.length
    return true
  }

  /** The next messages, up to the first that is missing. */
  async #stored(): Promise<readonly StoredMsg[]> {
    const { ask, stream } = this.#options
    const numbers = Array.from({ length: this.#count }, (_, at) => this.#next + at)
    const stored = await ask((manager) =>
      Promise.all(numbers.map((seq) => manager.streams.getMessage(stream, { seq }))),
    )
    const missing = stored.indexOf(null)
    return stored.slice(0, missing < 0 ? stored.length : missing).filter((message) => message !== null)
  }
}

const EVERY_MS = 10
const MOST = 64
const COMPLETE_MS = 60_000

/** All that is known of an effect at a broker is that it is there: its attempt is not. */
const BOOK = `
WITH came AS (
  SELECT m.id, m.place FROM unnest($1::bigint[]) WITH ORDINALITY AS m (id, place)
), begun AS (
  INSERT INTO ledger.started (message_id, worker, attempt, at) SELECT id, 'broker', 1, now() FROM came ORDER BY place
)
INSERT INTO ledger.effect (message_id, worker, attempt, at) SELECT id, 'broker', 1, now() FROM came ORDER BY place`
