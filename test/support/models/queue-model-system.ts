import type pg from 'pg'
import { expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { LeasedContext } from '../../../src/handle/handler.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { deleteDeadLetters, redriveDeadLetters } from '../../../src/table/operate/messages/change-dead-letters.ts'
import type { DeadLetterMatch } from '../../../src/table/operate/messages/dead-letters.ts'
import type { TestDatabase } from '../servers/database.ts'
import { prepared } from '../servers/prepared.ts'
import { waitFor } from '../wait.ts'
import {
  type Given,
  HOUR_US,
  MOST_ATTEMPTS,
  type ModelFilter,
  type ModelMessage,
  POLICY_HOURS,
  WHOLE_QUEUE,
} from './queue-model.ts'
import type { Run } from './queue-model-run.ts'
import { ScriptPlayer, type Step } from './queue-model-script.ts'

/** A message to enqueue. */
export interface Spec extends Given {
  readonly script: readonly Step[]
  /** Due so many hours from now, as a delay or as an instant; null: at once. */
  readonly hours: number | null
  readonly at: 'delay' | 'dueAt'
}

/** How messages get in: one call each, one for all, or the function of the schema. */
export type Way = 'enqueue' | 'enqueueMany' | 'sql'

export interface OpenTransaction {
  readonly client: pg.PoolClient
  readonly messages: readonly ModelMessage[]
}

/** The real queue, on a database whose clock can be stepped. */
export class QueueSystem {
  readonly player = new ScriptPlayer()
  readonly open: OpenTransaction[] = []
  readonly queue: string
  readonly #database: TestDatabase
  readonly #sluice: Sluice

  constructor(database: TestDatabase, sluice: Sluice, queue: string) {
    this.#database = prepared(database)
    this.#sluice = sluice
    this.queue = queue
  }

  /** Statements outside of the queue. */
  get sql(): TestDatabase['sql'] {
    return this.#database.sql
  }

  /** Ends what is still open. */
  async close(): Promise<void> {
    for (const transaction of this.open.splice(0)) await this.end(transaction, false)
  }

  async nowUs(): Promise<number> {
    const [row] = await this.#database.sql<{ us: string }>(`SELECT ${US('clock.clock_timestamp()')} AS us`)
    return Number(row?.us)
  }

  /** Enqueues in a transaction that stays open, and returns what the database made of the messages. */
  async begin(way: Way, specs: readonly Spec[]): Promise<OpenTransaction> {
    const client = await this.#database.pool.connect()
    try {
      return { client, messages: await this.#insert(client, way, specs) }
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  async #insert(client: pg.PoolClient, way: Way, specs: readonly Spec[]): Promise<readonly ModelMessage[]> {
    await client.query('BEGIN; SET LOCAL search_path = clock, pg_catalog, public')
    const fromUs = await this.nowUs()
    const ids = await this.#enqueue(client, way, specs, fromUs)
    const toUs = await this.nowUs()
    const { rows } = await client.query<{ id: string; slot: number | null; due: string; enqueued: string }>(
      `SELECT id::text AS id, slot, ${US('due_at')} AS due, ${US('enqueued_at')} AS enqueued FROM sluice.message WHERE queue = $1 AND id = ANY ($2::bigint[]) ORDER BY message.id`,
      [this.queue, ids],
    )
    expect(rows.map(({ id }) => id)).toEqual(ids)
    return specs.map(({ script: _script, hours, at: _at, ...given }, at): ModelMessage => {
      const { id, slot, due, enqueued } = rows[at]!
      const laterUs = (hours ?? 0) * HOUR_US
      // A dueAt has milliseconds.
      expect(Number(due)).toBeGreaterThanOrEqual(fromUs + Math.max(0, laterUs) - 1_000)
      expect(Number(due)).toBeLessThanOrEqual(toUs + Math.max(0, laterUs))
      const known = { id, slot: slot ?? WHOLE_QUEUE, enqueuedUs: Number(enqueued), due: Number(due) }
      return { ...given, ...known, attempt: 0, failed: false, error: null, closes: false }
    })
  }

  async end({ client }: OpenTransaction, committed: boolean): Promise<void> {
    await client.query(committed ? 'COMMIT' : 'ROLLBACK')
    client.release()
  }

  /** Runs a pipeline until nothing is due that it may take, and returns what its handlers saw. */
  async run(run: Run) {
    const runnable = run.leased ? this.#leased(run) : this.#transactional(run)
    if (run.concurrency === 1) {
      await runnable.runOnce()
    } else {
      await using subscription = runnable.subscribe()
      await waitFor(async () => (await this.#count(TAKEABLE, run.ordered)) === 0, { what: 'nothing to be due' })
      await subscription.drain()
    }
    return this.player.takeTrace()
  }

  #transactional({ mode, ordered, batchSize, concurrency }: Run) {
    const pipeline = this.#sluice.pipeline(this.queue, { ...RETRIES, ordered, batchSize, concurrency })
    return mode === 'each' ? pipeline.handle(this.player.handle) : pipeline.handleBatch(this.player.handleBatch)
  }

  /** As many messages in hand as batches would have. */
  #leased({ mode, batchSize, concurrency }: Run) {
    const pipeline = this.#sluice.pipeline(this.queue, {
      ...RETRIES,
      mode: 'leased',
      batchSize,
      concurrency: concurrency * batchSize,
    })
    const lend =
      (transaction: LeasedContext['transaction']): Parameters<ScriptPlayer['handleLeased']>[1] =>
      (work) =>
        transaction((tx) => work({ tx, enqueue: (queue, payload) => this.#sluice.enqueue(tx, queue, payload) }))
    return mode === 'each'
      ? pipeline.handle((message, { transaction }) => this.player.handleLeased(message, lend(transaction)))
      : pipeline.handleBatch((messages, { transaction }) => this.player.handleBatchLeased(messages, lend(transaction)))
  }

  async redrive(filter: ModelFilter, way: 'sql' | 'library'): Promise<number> {
    if (way === 'library') return redriveDeadLetters(this.#execute, this.#filter(filter))
    const { ids, type, diedBefore, diedAfter } = filter
    const at = (us: string) => `timestamptz 'epoch' + ${us}::bigint * interval '1 microsecond'`
    return this.#count(
      `SELECT sluice.redrive($1, $2::bigint[], $3, died_before => ${at('$4')}, died_after => ${at('$5')}) AS count`,
      ids,
      type,
      diedBefore,
      diedAfter,
    )
  }

  deleteDead(filter: ModelFilter): Promise<number> {
    return deleteDeadLetters(this.#execute, this.#filter(filter))
  }

  /** What the public views say once nothing is in hand, and what the handlers have left. */
  async observe() {
    // The record of a batch may come, and go, after its messages have been settled.
    const idle = async () => {
      const seen = await this.#look()
      const busy = seen.counts?.inFlight !== 0 || seen.messages.some(({ worker }) => worker !== null)
      return busy ? undefined : seen
    }
    return waitFor(idle, { what: 'the record of the last batch to be tidied' })
  }

  async #look() {
    const { sql } = this.#database
    const [messages, dead, [counts], effects, children, peeked] = await Promise.all([
      sql<ObservedMessage>(MESSAGES, [this.queue]),
      sql<ObservedDead>(DEAD, [this.queue]),
      sql<ObservedCounts>(COUNTS, [this.queue]),
      sql<{ id: string; count: number }>(EFFECTS, [this.queue]),
      sql<{ id: string }>(`SELECT payload #>> '{}' AS id FROM sluice.messages WHERE queue = $1`, [
        `${this.queue}.child`,
      ]),
      sql<{ id: string }>('SELECT id FROM sluice.peek($1, 3)', [this.queue]),
    ])
    return { messages, dead, counts, effects, children, peeked: peeked.map(({ id }) => id) }
  }

  async #enqueue(client: pg.PoolClient, way: Way, specs: readonly Spec[], nowUs: number): Promise<string[]> {
    const messages = specs.map((spec) => ({
      payload: this.player.payloadFor(spec.script),
      orderingKey: spec.key ?? undefined,
      type: spec.type ?? undefined,
      priority: spec.priority,
      maxAttempts: spec.maxAttempts ?? undefined,
      headers: spec.headers as Record<string, string>,
      delay: spec.hours === null || spec.at !== 'delay' ? undefined : Math.max(0, spec.hours) * (HOUR_US / 1_000),
      dueAt:
        spec.hours === null || spec.at !== 'dueAt'
          ? undefined
          : new Date(Math.floor((nowUs + spec.hours * HOUR_US) / 1_000)),
    }))
    if (way === 'enqueueMany') return this.#sluice.enqueueMany(client, this.queue, messages)
    const ids: string[] = []
    for (const { payload, ...options } of messages) {
      if (way === 'enqueue') ids.push(await this.#sluice.enqueue(client, this.queue, payload, options))
      else ids.push(await enqueueBySql(client, this.queue, payload, options))
    }
    return ids
  }

  #filter(filter: ModelFilter): DeadLetterMatch {
    return { queue: this.queue, tenant: null, reason: null, error: null, ...filter }
  }

  get #execute() {
    return executeOn(this.#database.pool)
  }

  async #count(text: string, ...params: readonly unknown[]): Promise<number> {
    const [row] = await this.#database.sql<{ count: string }>(text, [this.queue, ...params])
    return Number(row?.count)
  }
}

async function enqueueBySql(
  client: pg.PoolClient,
  queue: string,
  payload: number,
  options: Readonly<Record<string, unknown>>,
): Promise<string> {
  const { type, headers, orderingKey, priority, delay, dueAt, maxAttempts } = options
  const { rows } = await client.query<{ id: string }>(
    `SELECT sluice.enqueue(queue => $1, payload => $2, type => $3, headers => $4, ordering_key => $5, priority => $6,
       delay => $7::float8 * interval '1 millisecond', due_at => $8, max_attempts => $9) AS id`,
    [queue, payload, type, headers, orderingKey, priority, delay, dueAt, maxAttempts],
  )
  return rows[0]!.id
}

export interface ObservedMessage extends Given {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly due: string
  readonly failed: boolean
  readonly error: string | null
  readonly heldBy: string | null
  readonly worker: string | null
}

export interface ObservedDead extends Given {
  readonly id: string
  readonly attempt: number
  readonly reason: string
  readonly error: string | null
  readonly died: string
}

interface ObservedCounts {
  readonly ready: number
  readonly held: number
  readonly scheduled: number
  readonly retrying: number
  readonly inFlight: number
  readonly dead: number
  readonly nextDue: string | null
}

const US = (instant: string) => `(extract(epoch FROM ${instant}) * 1000000)::bigint`

const RETRIES = { maxAttempts: MOST_ATTEMPTS, retry: { kind: 'fixed', delay: `${POLICY_HOURS}h` } } as const

/** Leased, or due and not of a key that waits, as the claims see it; uncommitted batches have not taken theirs yet. */
const TAKEABLE = `
SELECT count(*) AS count FROM sluice.message m
LEFT JOIN sluice.slot s ON s.queue = m.queue AND s.slot = coalesce(m.slot, 256) AND (m.slot IS NOT NULL OR $2::boolean)
WHERE m.queue = $1 AND (m.lease > 0
  OR (m.due_at <= clock.clock_timestamp() OR (m.due_at <= m.enqueued_at AND m.slot IS NOT NULL AND m.lease IS NULL))
    AND coalesce((s.held -> coalesce(m.ordering_key, '') ->> 1)::bigint, 0) <= ${US('clock.clock_timestamp()')}
    AND NOT EXISTS (SELECT FROM sluice.message c WHERE c.queue = m.queue AND c.ordering_key = m.ordering_key AND c.lease IS NOT NULL AND c.id < m.id))`

const GIVEN = 'ordering_key AS key, type, priority, max_attempts AS "maxAttempts", headers'

const MESSAGES = `
SELECT id, state, attempt, ${US('due_at')} AS due, failed_at IS NOT NULL AS failed, last_error AS error,
       held_by AS "heldBy", worker, ${GIVEN}
FROM sluice.messages WHERE queue = $1 ORDER BY messages.id`

const DEAD = `
SELECT id, attempt, reason, error, ${US('died_at')} AS died, ${GIVEN}
FROM sluice.dead_letters WHERE queue = $1 ORDER BY dead_letters.id`

const COUNTS = `
SELECT coalesce(max(ready), 0)::integer AS ready, coalesce(max(held), 0)::integer AS held, coalesce(max(scheduled), 0)::integer AS scheduled,
       coalesce(max(retrying), 0)::integer AS retrying, coalesce(max(in_flight), 0)::integer AS "inFlight",
       coalesce(max(dead), 0)::integer AS dead, ${US('max(next_due_at)')} AS "nextDue"
FROM sluice.queues WHERE queue = $1`

const EFFECTS = 'SELECT message_id AS id, count(*)::integer AS count FROM effect WHERE queue = $1 GROUP BY 1 ORDER BY 1'
