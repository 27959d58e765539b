import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'

/** Writes into the ledger on a connection of its own, for as long as it takes. */
export class LedgerWriter {
  readonly #url: string
  #client: Promise<pg.Client> | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(url: string) {
    this.#url = url
  }

  /** Resolves when it is written. Whoever tries again after a lost answer may write it twice. */
  async write(text: string, values: readonly unknown[], signal?: AbortSignal): Promise<void> {
    await this.read(text, values, signal)
  }

  async read(text: string, values: readonly unknown[], signal?: AbortSignal): Promise<Record<string, unknown>[]> {
    for (;;) {
      signal?.throwIfAborted()
      try {
        const client = await this.#connected()
        return await this.#inTurn(async () => (await client.query<Record<string, unknown>>(text, [...values])).rows)
      } catch (error) {
        if (error instanceof pg.DatabaseError && !PASSING.test(error.code ?? '')) throw error
        this.#client = undefined
        await pause(50)
      }
    }
  }

  /** Several scripts of a scenario may write at the same time, and a connection takes one statement after another. */
  #inTurn<T>(query: () => Promise<T>): Promise<T> {
    const answer = this.#last.then(query)
    this.#last = answer.catch(() => undefined)
    return answer
  }

  async end(): Promise<void> {
    const client = await this.#client?.catch(() => undefined)
    await client?.end().catch(() => undefined)
  }

  #connected(): Promise<pg.Client> {
    this.#client ??= connect(this.#url)
    return this.#client
  }
}

/** A connection of the ledger's: faults that look for victims pass it by. */
export const LEDGER = 'ledger'

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString,
    application_name: LEDGER,
    connectionTimeoutMillis: 5_000,
  })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** Connections (08), resources (53: too many clients, disk full) and interventions (57: shutdown, cancel). */
const PASSING = /^(08|53|57)/
