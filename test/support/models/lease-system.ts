import pg from 'pg'
import { inject } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimFreeSlots, claimSlots } from '../../../src/table/claim/claim-ordered.ts'
import { type Lease, leaseOf } from '../../../src/table/claim/lease.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { renewLeases } from '../../../src/table/settle/leases.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { reapWorkers } from '../../../src/table/worker/reap.ts'
import { type Rewrite, rewriting } from '../permutations/rewrite.ts'
import { bottomOf, idsOf, put } from '../rows/claim-session.ts'
import {
  ackLeased,
  ackMessages,
  deadLetterLeased,
  deadLetterMessages,
  postponeLeased,
  postponeMessages,
} from '../rows/write-settled.ts'
import type { TestDatabase } from '../servers/database.ts'
import type { End, Way } from './lease-model.ts'

const LEASE_MS = 600_000
/** An INSERT by hand may say any id. */
const LOWEST_ID = '-9223372036854775808'
const HOUR_US = 3_600_000_000
const serverVersion = inject('serverVersion')

/** A row of sluice.message as the model has it. */
export interface SeenRow {
  readonly id: string
  readonly key: string | null
  readonly slot: number | null
  readonly due: boolean
  readonly lease: number | null
}

export interface LeaseSystemOptions {
  readonly queue: string
  readonly slots: readonly number[]
  /** The worker of a leased claim has this number, and the claim's on top. */
  readonly firstWorker: number
  readonly twin: readonly Rewrite[]
}

/** The statements of the library on one queue. */
export class LeaseSystem {
  readonly queue: string
  readonly #client: pg.Client
  readonly #execute: Execute
  readonly #slots: readonly number[]
  readonly #first: number

  private constructor(client: pg.Client, { queue, slots, firstWorker, twin }: LeaseSystemOptions) {
    this.#client = client
    this.queue = queue
    this.#slots = slots
    this.#first = firstWorker
    this.#execute = rewriting(executeOn(client), twin)
  }

  static async open({ url }: TestDatabase, options: LeaseSystemOptions): Promise<LeaseSystem> {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const system = new LeaseSystem(client, options)
    await ensureSlots(system.#execute, options.queue, options.slots)
    return system
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#client.end()
  }

  put(keys: readonly (string | null)[]): Promise<readonly string[]> {
    const on = { sql: async (text: string, params: readonly unknown[] = []) => this.#sql(text, ...params) }
    return put(
      on as Pick<TestDatabase, 'sql'>,
      this.queue,
      keys.map((key) => ({ key })),
    )
  }

  /** Inserts a message with a lower id than those that are there. */
  async putBelow(key: string): Promise<string> {
    const [row] = await this.#sql(
      `INSERT INTO sluice.message (queue, id, ordering_key, due_at, payload) OVERRIDING SYSTEM VALUE
       SELECT $1, coalesce(min(m.id), 0) - 1, $2, clock_timestamp() - interval '1 s', '{}'
       FROM sluice.message m WHERE m.queue = $1 RETURNING id::text AS id`,
      this.queue,
      key,
    )
    return String(row!.id)
  }

  /** Takes messages and leases them. */
  async lease(way: Way, limit: number, number: number): Promise<readonly string[]> {
    await this.#register(number)
    return this.#inTransaction('COMMIT', () => this.#claim(way, limit, this.#leaseOf(number)))
  }

  /** Takes messages and settles them, in one transaction. */
  handle(way: Way, limit: number, end: End | 'roll back'): Promise<readonly string[]> {
    return this.#inTransaction(end === 'roll back' ? 'ROLLBACK' : 'COMMIT', async () => {
      const ids = await this.#claim(way, limit)
      if (end !== 'roll back' && ids.length > 0) await this.#settleLocked(ids, end)
      return ids
    })
  }

  settle(ids: readonly string[], number: number, end: End): Promise<readonly string[]> {
    const { lease } = this.#leaseOf(number)
    const nowUs = Date.now() * 1_000
    const dueUs = end === 'retry later' ? nowUs + HOUR_US : nowUs - 1_000_000
    const messages = ids.map((id) => ({ id, lease, dueUs, attempt: 0, error: 'broken', reason: 'broken' }))
    const [execute, queue] = [this.#execute, this.queue]
    return this.#inTransaction('COMMIT', () => {
      if (end === 'ack') return ackLeased(execute, queue, messages, serverVersion)
      if (end === 'bury') return deadLetterLeased(execute, queue, messages, serverVersion)
      return postponeLeased(execute, queue, messages, nowUs, serverVersion)
    })
  }

  renew(ids: readonly string[], number: number): Promise<readonly string[]> {
    const { lease } = this.#leaseOf(number)
    const messages = ids.map((id) => ({ id, lease }))
    return renewLeases(this.#execute, this.queue, messages, LEASE_MS, serverVersion)
  }

  async expire(number: number): Promise<void> {
    await this.#sql(
      `UPDATE sluice.message SET due_at = clock_timestamp() - interval '1 s' WHERE queue = $1 AND lease = $2`,
      this.queue,
      this.#leaseOf(number).lease,
    )
  }

  /** The worker of a claim is found dead. */
  async rescue(number: number): Promise<void> {
    await this.#register(number)
    // Nobody holds its lock.
    await this.#sql('UPDATE sluice.worker SET pooled = false WHERE id = $1', this.#first + number)
    await reapWorkers(this.#execute, 0)
  }

  /** As behind a pooler, where a worker counts as alive that has been heard of. */
  async #register(number: number): Promise<void> {
    await this.#sql(
      `INSERT INTO sluice.worker (id, name, host, pid, version, database_oid, pooled) OVERRIDING SYSTEM VALUE
       SELECT $1, 'model', 'host', 1, '0', d.oid, true FROM pg_database d WHERE d.datname = current_database()
       ON CONFLICT DO NOTHING`,
      this.#first + number,
    )
  }

  async cancel(id: string): Promise<void> {
    await this.#sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', this.queue, id)
  }

  async timePasses(): Promise<void> {
    await this.#sql(
      `UPDATE sluice.message SET due_at = clock_timestamp() - interval '1 s' WHERE queue = $1 AND coalesce(lease, 0) = 0`,
      this.queue,
    )
    await this.#sql(`UPDATE sluice.slot SET held = '{}' WHERE queue = $1`, this.queue)
  }

  async look() {
    const rows = await this.#sql(
      `SELECT id::text, ordering_key AS key, slot, due_at <= clock_timestamp() AS due,
              CASE WHEN lease > 0 THEN (lease >> 32) - $2 ELSE lease END::integer AS lease
       FROM sluice.message WHERE queue = $1 ORDER BY message.id`,
      this.queue,
      this.#first,
    )
    const dead = await this.#sql('SELECT id::text FROM sluice.dead_letter WHERE queue = $1', this.queue)
    const evidence = await this.#sql(
      'SELECT message_id::text AS id, worker_id - $2 AS claim, kind FROM sluice.crash WHERE queue = $1',
      this.queue,
      this.#first,
    )
    return {
      rows: rows as unknown as readonly SeenRow[],
      dead: new Set(dead.map(({ id }) => String(id))),
      evidence: new Map(evidence.map(({ id, claim: by, kind }) => [`${id} ${by}`, String(kind)])),
    }
  }

  async #claim(way: Way, limit: number, lease?: Lease): Promise<readonly string[]> {
    const slots = this.#slots.map((slot) => ({ slot, id: LOWEST_ID }))
    const [execute, queue] = [this.#execute, this.queue]
    if (way === 'unkeyed') return idsOf(await claim(execute, queue, bottomOf(5), limit, lease))
    if (way === 'slots') return idsOf(await claimSlots(execute, queue, slots, limit, [], lease))
    return idsOf(await claimFreeSlots(execute, queue, slots, limit, lease))
  }

  async #settleLocked(ids: readonly string[], end: End): Promise<void> {
    const [execute, queue] = [this.#execute, this.queue]
    if (end === 'ack') return ackMessages(execute, queue, ids, serverVersion)
    if (end === 'bury')
      return deadLetterMessages(
        execute,
        queue,
        ids.map((id) => ({ id, attempt: 1, reason: 'broken', error: null })),
      )
    const nowUs = Date.now() * 1_000
    const dueUs = end === 'retry later' ? nowUs + HOUR_US : nowUs - 1_000_000
    await postponeMessages(
      execute,
      queue,
      ids.map((id) => ({ id, dueUs, attempt: 0, error: 'broken' })),
      nowUs,
    )
    const keys = await this.#sql(
      `SELECT slot, ordering_key AS key, min(id)::text AS id FROM sluice.message
       WHERE queue = $1 AND id = ANY ($2::bigint[]) AND slot IS NOT NULL GROUP BY 1, 2`,
      queue,
      ids,
    )
    const held = keys.map(({ slot, key, id }) => ({
      slot: Number(slot),
      orderingKey: String(key),
      messageId: String(id),
      untilUs: dueUs,
    }))
    if (held.length > 0) await holdKeys(execute, queue, held, nowUs)
  }

  #leaseOf(number: number): Lease {
    return { lease: leaseOf(this.#first + number, 1), ms: LEASE_MS, serverVersion }
  }

  async #inTransaction<T>(end: 'COMMIT' | 'ROLLBACK', work: () => Promise<T>): Promise<T> {
    await this.#client.query('BEGIN ISOLATION LEVEL READ COMMITTED')
    const result = await work()
    await this.#client.query(end)
    return result
  }

  async #sql(text: string, ...params: readonly unknown[]): Promise<readonly Record<string, unknown>[]> {
    return (await this.#client.query(text, [...params])).rows
  }
}
