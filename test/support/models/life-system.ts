import pg from 'pg'
import { inject } from 'vitest'
import { onSqlClock, stepSqlClock } from '../../../faults/environment/sql-clock.ts'
import { Claimer } from '../../../src/claim/claimer.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { ClaimedRow } from '../../../src/table/claim/claim.ts'
import { leaseOf } from '../../../src/table/claim/lease.ts'
import { popMessages, takeClaim } from '../../../src/table/pull/take.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { releaseHolds } from '../../../src/table/worker/release-holds.ts'
import { recordBatches } from '../../../src/table/worker/worker.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import type { TestDatabase } from '../servers/database.ts'
import type { Ask } from './life-dedupe.ts'
import type { End } from './life-model.ts'
import { HOUR_US, writeSettlement, writeUnderLease } from './life-settlements.ts'

const serverVersion = inject('serverVersion')
const HOUR_MS = 3_600_000
export const LEASE_HOURS = 2

/** A message to enqueue. */
export interface Spec {
  readonly key: string | null
  readonly priority: number
  readonly delayHours: number
  readonly ttlHours: number | null
  readonly payload: string
}

/** What somebody has in hand, in the database. */
export interface Hands {
  readonly rows: readonly ClaimedRow[]
  /** Of them, those whose life had ended when they were claimed. */
  readonly expired: ReadonlySet<string>
  /** An open transaction. */
  readonly connection?: BatchConnection
  readonly batchId?: number
  readonly lease?: string
  readonly claimId?: string
}

/** Kept from one sequence to the next: a new session makes all its plans anew. */
export interface LifeConnections {
  readonly operator: pg.Client
  readonly pool: pg.Pool
}

export async function connect({ url }: TestDatabase): Promise<LifeConnections & AsyncDisposable> {
  const config = { ...onSqlClock(url), pipeline: true }
  const [operator, pool] = [new pg.Client(config), new pg.Pool(config)]
  await operator.connect()
  // Nothing that an operator does waits for a batch.
  await operator.query(`SET lock_timeout = '2s'; LISTEN sluice`)
  const close = async () => void (await Promise.all([operator.end(), pool.end()]))
  return { operator, pool, [Symbol.asyncDispose]: close }
}

export interface LifeSystemOptions {
  readonly queue: string
  readonly workerId: number
  readonly buriesExpired: boolean
}

/** The real queue: one process with a claimer for each mode, whose floors last, and an operator. */
export class LifeSystem {
  readonly queue: string
  readonly execute: Execute
  /** By the numbers of the model. */
  readonly hands = new Map<number, Hands>()
  readonly #operator: pg.Client
  readonly #pool: pg.Pool
  readonly #claimers: Readonly<Record<'transaction' | 'lease', Claimer>>
  readonly #workerId: number
  #told = false
  #batches = 0
  #baseUs = 0

  private constructor({ operator, pool }: LifeConnections, { queue, workerId }: LifeSystemOptions) {
    this.queue = queue
    this.#operator = operator
    this.#workerId = workerId
    this.#pool = pool
    this.execute = executeOn(operator)
    const control = { execute: executeOn(operator) }
    const claimer = (batchSize: number) => new Claimer({ queue, batchSize, concurrency: 3, ordered: false }, control)
    this.#claimers = { transaction: claimer(4), lease: claimer(4) }
    operator.on('notification', this.#hears)
  }

  static async open(on: LifeConnections, options: LifeSystemOptions): Promise<LifeSystem> {
    const { operator } = on
    const system = new LifeSystem(on, options)
    await operator.query('SELECT sluice.queue_set($1, $2)', [
      options.queue,
      JSON.stringify({ on_expiry: options.buriesExpired ? 'dead_letter' : 'drop' }),
    ])
    // As behind a pooler: nobody finds it dead.
    await operator.query(
      `INSERT INTO sluice.worker (id, name, host, pid, version, pooled) OVERRIDING SYSTEM VALUE
       VALUES ($1, 'life', 'host', 1, '0', true)`,
      [options.workerId],
    )
    await system.#begin()
    return system
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { connection } of this.hands.values()) if (connection !== undefined) await this.#end(connection, false)
    await this.sql('DELETE FROM sluice.batch_record WHERE worker_id = $1', this.#workerId)
    this.#operator.off('notification', this.#hears)
  }

  async #begin(): Promise<void> {
    this.#baseUs = await this.nowUs()
  }

  readonly #hears = ({ payload }: pg.Notification): void => {
    if (payload === `!holds!${this.queue}`) this.#told = true
  }

  async nowUs(): Promise<number> {
    const [row] = await this.sql(`SELECT ${US('clock_timestamp()')} AS us`)
    return Number(row?.us)
  }

  async step(hours: number): Promise<void> {
    await stepSqlClock((text, params = []) => this.sql(text, ...params), hours * HOUR_MS + 60_000)
    // Behind a pooler a worker lives for as long as it is heard of.
    await this.sql('UPDATE sluice.worker SET seen_at = clock_timestamp() WHERE id = $1', this.#workerId)
  }

  async enqueue({ key, priority, delayHours, ttlHours, payload }: Spec): Promise<string> {
    const [row] = await this.sql(
      `SELECT sluice.enqueue($1, to_jsonb($2::text), ordering_key => $3, priority => $4, delay => $5::float8 * interval '1 hour',
         ttl => $6::float8 * interval '1 hour')::text AS id`,
      ...[this.queue, payload, key, priority, delayHours, ttlHours],
    )
    return String(row?.id)
  }

  async ask({ dedupeKey, policy, forHours, key, delayHours, ttlHours, payload }: Ask) {
    const [row] = await this.sql(
      `SELECT e.id::text AS id, e.outcome FROM sluice.enqueue_deduped($1, to_jsonb($2::text), $3, $4::float8 * interval '1 hour', $5,
         ordering_key => $6, delay => $7::float8 * interval '1 hour', ttl => $8::float8 * interval '1 hour') e`,
      ...[this.queue, payload, dedupeKey, forHours, policy, key, delayHours, ttlHours],
    )
    return { id: String(row?.id), outcome: String(row?.outcome) }
  }

  /** A claim of a pipeline, which stays open in transactional mode. Undefined: it has found nothing. */
  async claim(mode: 'transaction' | 'lease', most: number): Promise<Hands | undefined> {
    const connection = await BatchConnection.acquire(this.#pool)
    const batchId = ++this.#batches
    const lease = leaseOf(this.#workerId, batchId)
    connection.begin()
    const claimer = this.#claimers[mode]
    const written = mode === 'lease' ? { lease, ms: LEASE_HOURS * HOUR_MS, serverVersion } : undefined
    const answer = await claimer.take(connection, claimer.send(connection, { most, lease: written }))
    const expired = new Set(
      answer.rows.filter(({ options }) => (options?.expiresUs ?? Infinity) <= answer.nowUs).map(({ id }) => id),
    )
    if (answer.rows.length === 0) {
      await this.#end(connection, false)
      return undefined
    }
    if (mode === 'transaction') {
      await this.#record([], batchId, answer.rows)
      return { rows: answer.rows, expired, connection, batchId }
    }
    await this.#end(connection, true)
    const hands = { rows: answer.rows, expired, batchId, lease }
    await writeUnderLease(this.execute, this.queue, hands, [...expired], 'expired', 0, await this.nowUs())
    return hands
  }

  async takeClaim(limit: number, leaseHours: number, graceHours: number): Promise<Hands | undefined> {
    const terms = { limit, leaseMs: leaseHours * HOUR_MS, graceMs: graceHours * HOUR_MS, maxAttempts: 20 }
    const taken = await takeClaim(this.execute, this.queue, terms)
    return taken && { rows: taken.rows, expired: new Set(), claimId: taken.id }
  }

  async pop(limit: number): Promise<readonly string[]> {
    return (await popMessages(this.execute, this.queue, limit)).map(({ id }) => id)
  }

  /** A transaction settles what it has, and commits. */
  async commits(number: number, ends: ReadonlyMap<string, End | 'expired'>, hours: number): Promise<void> {
    const { connection, rows, batchId } = this.#take(number)
    if (connection === undefined) throw new TypeError(`expected a transaction, received holder ${number}`)
    await writeSettlement(connection.execute, this.queue, rows, ends, {
      nowUs: await this.nowUs(),
      afterUs: hours * HOUR_US,
    })
    await this.#end(connection, true)
    const left = rows.filter(({ id }) => (ends.get(id) ?? 'leave') === 'leave')
    this.#claimers.transaction.release(left)
    await this.#ended(batchId)
  }

  async rollsBack(number: number): Promise<void> {
    const { connection, rows, batchId } = this.#take(number)
    if (connection !== undefined) await this.#end(connection, false)
    this.#claimers.transaction.release(rows)
    await this.#ended(batchId)
  }

  /** Settles messages of a lease. Resolves with those that it still had. */
  async settleLease(number: number, ids: readonly string[], end: End, hours: number): Promise<readonly string[]> {
    const hands = this.hands.get(number)!
    return writeUnderLease(this.execute, this.queue, hands, ids, end, hours, await this.nowUs())
  }

  /** Slots that somebody has locked. */
  async lockedSlots(): Promise<ReadonlySet<number>> {
    const rows = await this.sql(
      `WITH free AS MATERIALIZED (SELECT s.slot FROM sluice.slot s WHERE s.queue = $1 FOR UPDATE SKIP LOCKED)
       SELECT s.slot FROM sluice.slot s WHERE s.queue = $1 AND NOT EXISTS (SELECT FROM free WHERE free.slot = s.slot)`,
      this.queue,
    )
    return new Set(rows.map(({ slot }) => Number(slot)))
  }

  /** What can be seen of the queue, with times in minutes since it began. */
  async look() {
    const minute = (at: string) => `round((${US(at)} - $2::bigint) / 60e6)::integer`
    const [rows, dead, known] = await Promise.all([
      this.sql(
        `SELECT m.id::text AS id, m.state, m.ordering_key AS key, m.priority, m.payload #>> '{}' AS payload, m.attempt > 0 AS tried,
                ${minute('m.due_at')} AS due, ${minute('m.expires_at')} AS expires, m.held_by::text AS "heldBy"
         FROM sluice.messages m WHERE m.queue = $1 ORDER BY m.id::bigint`,
        ...[this.queue, this.#baseUs],
      ),
      this.sql('SELECT id::text AS id FROM sluice.dead_letter WHERE queue = $1', this.queue),
      this.sql(
        `SELECT d.key, s.message_id::text AS id, s.state, s.requeued_id::text AS "requeuedId", ${minute('s.taken_until')} AS until
         FROM sluice.dedupe d CROSS JOIN LATERAL sluice.status($1, dedupe_key => d.key) s WHERE d.queue = $1 ORDER BY d.key`,
        ...[this.queue, this.#baseUs],
      ),
    ])
    return { rows, dead: new Set(dead.map(({ id }) => String(id))), known }
  }

  /** The states of messages that were ever there. */
  async states(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const rows = await this.sql(
      `SELECT given.id::text AS id, s.state FROM unnest($2::bigint[]) AS given (id)
       CROSS JOIN LATERAL sluice.status($1, id => given.id) s`,
      ...[this.queue, ids],
    )
    return new Map(rows.map(({ id, state }) => [String(id), String(state)]))
  }

  async sql(text: string, ...params: readonly unknown[]): Promise<readonly Record<string, unknown>[]> {
    return (await this.#operator.query({ name: nameOf(text), text, values: [...params] })).rows
  }

  /** What a worker does that has been told of holds: when a batch ends, it looks for those of messages that are gone. */
  async #ended(batchId: number | undefined): Promise<void> {
    await this.#record(batchId === undefined ? [] : [batchId])
    if (this.#told) this.#told = (await releaseHolds(this.execute, this.queue)) > 0
  }

  async #record(ended: readonly number[], batchId?: number, rows: readonly ClaimedRow[] = []): Promise<void> {
    const [messageIds, attempts] = [rows.map(({ id }) => id), rows.map(({ attempt }) => attempt)]
    const begun = batchId === undefined ? [] : [{ id: batchId, queue: this.queue, messageIds, attempts }]
    await recordBatches(this.execute, this.#workerId, ended, begun)
  }

  #take(number: number): Hands {
    const hands = this.hands.get(number)
    if (hands === undefined) throw new TypeError(`nobody has the number ${number}`)
    this.hands.delete(number)
    return hands
  }

  async #end(connection: BatchConnection, committed: boolean): Promise<void> {
    if (committed) await connection.commit()
    else await connection.rollback()
    connection.release()
  }
}

const US = (instant: string) => `(extract(epoch FROM ${instant}) * 1000000)::bigint`

const names = new Map<string, string>()

/** Planned once. */
function nameOf(text: string): string {
  const name = names.get(text) ?? `life_${names.size}`
  names.set(text, name)
  return name
}
