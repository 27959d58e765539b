import { setTimeout as sleep } from 'node:timers/promises'
import type { TestDatabase } from '../servers/database.ts'

/** Looks again and again, in a session of its own, how many rows of a queue are locked, and by how many transactions. */
export class LockedSampler implements AsyncDisposable {
  most = 0
  mostByOne = 0
  samples = 0
  readonly #database: TestDatabase
  readonly #queue: string
  readonly #looking: Promise<void>
  #stopped = false

  constructor(database: TestDatabase, queue: string) {
    this.#database = database
    this.#queue = queue
    this.#looking = this.#look()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true
    await this.#looking
  }

  /**
   * First which transactions run, then which rows they hold: a row that is let go in between counts for its holder,
   * and one taken by a later transaction does not count, so each sample is of one instant, or of less.
   * To try the locks instead would take rows away from the claims.
   */
  async #look(): Promise<void> {
    while (!this.#stopped) {
      const running = await this.#database.sql<{ xid: string }>(
        `SELECT transactionid::text AS xid FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock'`,
      )
      const held = await this.#database.sql<{ rows: number }>(
        `SELECT count(*)::integer AS rows FROM sluice.message m
         WHERE m.queue = $1 AND m.xmax = ANY ($2::xid[]) GROUP BY m.xmax`,
        [this.#queue, running.map(({ xid }) => xid)],
      )
      this.most = Math.max(
        this.most,
        held.reduce((sum, { rows }) => sum + rows, 0),
      )
      this.mostByOne = Math.max(this.mostByOne, ...held.map(({ rows }) => rows))
      this.samples += 1
      await sleep(1)
    }
  }
}
