import { setTimeout as pause } from 'node:timers/promises'
import { type Channel, type ConsumeMessage, connect } from 'amqplib'
import type pg from 'pg'
import { until } from '../run/until.ts'

/**
 * Consumes a queue, and books each of its messages as an effect, in its order. RabbitMQ drops no copies, so it does, by their
 * ids, as every consumer must. The queue of a cluster needs a single active consumer: when the server of a consumer is killed,
 * another one would get later messages before the queue has taken back those that the first had not acked.
 */
export class RabbitmqBooks {
  readonly #urls: readonly string[]
  readonly #queue: string
  readonly #client: pg.Client
  readonly #reading: Promise<void>
  /** How often the queue was found empty. */
  #empty = 0
  #stopped = false

  /** @param urls of the servers, one of which answers */
  constructor(urls: readonly string[], queue: string, client: pg.Client) {
    this.#urls = urls
    this.#queue = queue
    this.#client = client
    this.#reading = this.#read()
  }

  /** Resolves when all that the queue has now is booked. */
  async complete(): Promise<void> {
    const before = this.#empty
    await until(() => this.#empty > before, 'the books of the queue', 60_000)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#reading
    await this.#client.end()
  }

  async #read(): Promise<void> {
    for (let at = 0; !this.#stopped; at += 1) {
      // A server may be down, and there are no books before the load begins.
      await this.#consume(this.#urls[at % this.#urls.length] ?? '').catch(() => undefined)
      await pause(EVERY_MS)
    }
  }

  async #consume(url: string): Promise<void> {
    const connection = await connect(url)
    connection.on('error', () => undefined)
    try {
      const channel = await connection.createChannel()
      await channel.prefetch(AT_A_TIME)
      const arrived: ConsumeMessage[] = []
      await channel.consume(this.#queue, (message) => {
        if (message !== null) arrived.push(message)
      })
      while (!this.#stopped) {
        if (!(await this.#bookSome(channel, arrived))) await pause(EVERY_MS)
      }
    } finally {
      await connection.close().catch(() => undefined)
    }
  }

  async #bookSome(channel: Channel, arrived: ConsumeMessage[]): Promise<boolean> {
    const messages = arrived.splice(0)
    const last = messages.at(-1)
    if (last === undefined) {
      // What it has delivered has arrived before this answer.
      const { messageCount } = await channel.checkQueue(this.#queue)
      if (messageCount === 0 && arrived.length === 0) this.#empty += 1
      return false
    }
    await this.#client.query(BOOK, [messages.map(({ properties }) => properties.headers?.['sluice-message-id'])])
    channel.ack(last, true)
    return true
  }
}

const EVERY_MS = 10
const AT_A_TIME = 100

/** All that is known of an effect at a broker is that it is there: its attempt is not. */
const BOOK = `
WITH came AS (
  SELECT message.id, min(message.place) AS place FROM unnest($1::bigint[]) WITH ORDINALITY AS message (id, place)
  WHERE NOT EXISTS (SELECT FROM ledger.effect WHERE message_id = message.id)
  GROUP BY message.id
), begun AS (
  INSERT INTO ledger.started (message_id, worker, attempt, at) SELECT id, 'broker', 1, now() FROM came ORDER BY place
)
INSERT INTO ledger.effect (message_id, worker, attempt, at) SELECT id, 'broker', 1, now() FROM came ORDER BY place`
