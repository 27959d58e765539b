import type pg from 'pg'
import { createSluice, type Sluice } from '../../src/index.ts'
import { bookingsOf } from '../ledger.ts'
import { connect } from '../run/environment.ts'
import type { Stage } from '../run/stage.ts'

/** An application beside the load, with one transaction that the scenario holds open for as long as it likes. */
export class Visitor {
  readonly #stage: Stage
  readonly #client: pg.Client
  readonly #sluice: Sluice
  readonly #intent: string
  readonly #ids: string[] = []

  private constructor(stage: Stage, client: pg.Client) {
    visitors += 1
    this.#intent = `visitor.${visitors}`
    this.#stage = stage
    this.#client = client
    this.#sluice = createSluice({ connection: stage.environment.url })
  }

  static async begin(stage: Stage, isolation = 'READ COMMITTED'): Promise<Visitor> {
    const client = await connect(stage.environment.url)
    await client.query(`BEGIN ISOLATION LEVEL ${isolation}`)
    return new Visitor(stage, client)
  }

  /** Reads, and so has a snapshot that keeps vacuum from what it could still see. */
  async look(): Promise<void> {
    await this.#client.query('SELECT count(*) FROM sluice.message')
  }

  /** Enqueues so many messages that succeed; with `keyed`, in an order of their own. */
  async enqueue(count: number, { keyed = false } = {}): Promise<void> {
    const orderingKey = keyed ? this.#intent : undefined
    const message = { payload: { fate: 'ack', failures: 0 }, ...(orderingKey === undefined ? {} : { orderingKey }) }
    const messages = Array.from({ length: count }, () => message)
    const { queue, isStream } = this.#stage
    const ids = isStream
      ? (await this.#sluice.appendMany(this.#client, queue, messages)).map(String)
      : await this.#sluice.enqueueMany(this.#client, queue, messages)
    const booked = ids.flatMap((id) => bookingsOf(id, isStream))
    await this.#client.query(
      `INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures)
       SELECT m.id, $2, $3 || m.of, $4 + m.place, 'ack', 0
       FROM unnest($1::bigint[], $5::text[]) WITH ORDINALITY AS m (id, of, place)`,
      [booked.map((one) => one.bookedId), this.#intent, orderingKey, this.#ids.length, booked.map((one) => one.of)],
    )
    for (const { bookedId } of booked) this.#ids.push(bookedId)
  }

  async commit(): Promise<void> {
    await this.#client.query('COMMIT')
    await this.#leave('committed')
  }

  async rollBack(): Promise<void> {
    await this.#client.query('ROLLBACK')
    await this.#leave('rolled back')
  }

  async #leave(outcome: string): Promise<void> {
    await this.#client.end()
    await this.#sluice.stop()
    await this.#stage.sql(
      'INSERT INTO ledger.told (intent, message_ids, outcome, ambiguous) VALUES ($1, $2::bigint[], $3, false)',
      [this.#intent, this.#ids, outcome],
    )
  }
}

let visitors = 0
