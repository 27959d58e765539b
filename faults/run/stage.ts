import { LedgerWriter } from '../actors/ledger-writer.ts'
import type { Fate, LoadPayload } from '../ledger.ts'
import type { Random } from '../random.ts'
import type { Environment } from './environment.ts'
import type { Fleet, WorkerActor } from './fleet.ts'
import { until } from './until.ts'

export interface StageOptions<E extends Environment> {
  readonly environment: E
  readonly fleet: Fleet
  readonly queue: string
  readonly isStream: boolean
  readonly random: Random
  readonly recoveryMs: number
  /** The twin runs. @default false */
  readonly broken?: boolean
}

/** A message that the scenario itself enqueues. */
export interface StagedMessage extends LoadPayload {
  readonly tenant?: string
  /** How many bytes its payload has besides. @default 0 */
  readonly bytes?: number
}

/** What a scenario has at hand: the fleet, the database, chance, and the clock that says what lasted from when to when. */
export class Stage<E extends Environment = Environment> {
  readonly environment: E
  readonly fleet: Fleet
  readonly queue: string
  /** The load is appended to a stream of the queue's name. */
  readonly isStream: boolean
  readonly random: Random
  /** How soon all must be well again. */
  readonly recoveryMs: number
  /** What the scenario itself does is to be done wrongly, if its twin says so. */
  readonly broken: boolean
  readonly #ledger: LedgerWriter
  #enqueued = 0

  constructor({ environment, fleet, queue, isStream, random, recoveryMs, broken = false }: StageOptions<E>) {
    this.environment = environment
    this.fleet = fleet
    this.queue = queue
    this.isStream = isStream
    this.random = random
    this.recoveryMs = recoveryMs
    this.broken = broken
    this.#ledger = new LedgerWriter(environment.ledgerUrl)
  }

  /** Rows of a statement on a connection that no fault touches; waits while the server is away. */
  sql(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return this.#ledger.read(text, values)
  }

  /** One of the workers that run. */
  victim(): WorkerActor {
    const [first, ...others] = this.fleet.workers
    if (first === undefined) throw new Error('No worker runs')
    return this.random.pick([first, ...others])
  }

  /** Injects a fault and writes down when it began and ended. What it returns may be waited for afterwards. */
  async fault<T>(name: string, act: () => T | Promise<T>): Promise<T> {
    const beganAt = Date.now()
    const result = await act()
    await this.writeFault(name, beganAt, Date.now())
    return result
  }

  /** Milliseconds since 1970. */
  async writeFault(name: string, beganAt: number, endedAt: number): Promise<void> {
    await this.sql(
      'INSERT INTO ledger.fault (name, began_at, ended_at) VALUES ($1, to_timestamp($2::double precision / 1000), to_timestamp($3::double precision / 1000))',
      [name, beganAt, endedAt],
    )
  }

  /** Enqueues one message in a transaction of its own, beside the load. Returns its id. */
  async enqueue(fate: Fate, failures = 0): Promise<string> {
    const [id = ''] = await this.enqueueAll([{ fate, failures }])
    return id
  }

  /** Enqueues messages in one transaction, in an order of their own if they have a key. Returns their ids. */
  async enqueueAll(messages: readonly StagedMessage[], orderingKey: string | null = null): Promise<readonly string[]> {
    this.#enqueued += 1
    const rows = await this.sql(ENQUEUE, [
      this.queue,
      messages.map(({ fate }) => fate),
      messages.map(({ failures }) => failures),
      `stage.${this.#enqueued}`,
      orderingKey,
      messages.map(({ tenant = null }) => tenant),
      messages.map(({ bytes = 0 }) => bytes),
    ])
    return rows.map(({ id }) => String(id))
  }

  /** Resolves with the worker that has begun this attempt of a message. @throws Error if nobody does in time. */
  async begun(id: string, attempt: number): Promise<WorkerActor> {
    const begins = async () => {
      const text = 'SELECT worker FROM ledger.started WHERE message_id = $1 AND attempt = $2 ORDER BY at DESC LIMIT 1'
      const [row] = await this.sql(text, [id, attempt])
      return this.fleet.workers.find(({ actor }) => actor.name === row?.worker)
    }
    return until(begins, `attempt ${attempt} of message ${id}`, BEGUN_MS)
  }

  /** Lets a worker die, wherever it was told to, and puts a new one in its place. */
  async replace({ actor, mode }: WorkerActor): Promise<void> {
    await actor.ended
    await this.fleet.startWorker({ mode })
  }

  /** Resolves when so many more messages have taken effect. @throws Error if they do not within `timeoutMs`. */
  async flows(effects = 20, timeoutMs = 30_000): Promise<void> {
    const before = await this.#effects()
    await until(async () => (await this.#effects()) >= before + effects, `${effects} more effects`, timeoutMs)
  }

  /** Whether all that was committed by the end of the last fault has been handled, but for what fails on purpose. */
  async caughtUp(): Promise<boolean> {
    const [row] = await this.sql(`
      SELECT NOT EXISTS (
        SELECT FROM ledger.enqueued q WHERE q.fate = 'ack' AND q.at <= (SELECT max(f.ended_at) FROM ledger.fault f)
          AND NOT EXISTS (SELECT FROM ledger.effect e WHERE e.message_id = q.message_id)
      ) AS done`)
    return row?.done === true
  }

  /** Resolves when this message has taken effect. @throws Error if it has not within `timeoutMs`. */
  async handled(id: string, timeoutMs: number): Promise<void> {
    const taken = async () => {
      const [row] = await this.sql('SELECT EXISTS (SELECT FROM ledger.effect WHERE message_id = $1) AS taken', [id])
      return row?.taken === true
    }
    await until(taken, `message ${id} to take effect`, timeoutMs)
  }

  async end(): Promise<void> {
    await this.#ledger.end()
  }

  async #effects(): Promise<number> {
    const [row] = await this.sql('SELECT count(*)::integer AS effects FROM ledger.effect')
    return Number(row?.effects)
  }
}

/** Longer than any lease that a scenario waits for. */
const BEGUN_MS = 40_000

const ENQUEUE = `
WITH message AS (
  INSERT INTO sluice.message (queue, ordering_key, tenant, payload)
  SELECT $1::text, $5::text, given.tenant,
         jsonb_build_object('fate', given.fate, 'failures', given.failures, 'filler', repeat('-', given.bytes))
  FROM unnest($2::text[], $3::integer[], $6::text[], $7::integer[]) WITH ORDINALITY AS given (fate, failures, tenant, bytes, place)
  ORDER BY given.place
  RETURNING id, tenant, payload
)
INSERT INTO ledger.enqueued (message_id, intent, ordering_key, tenant, place, fate, failures)
SELECT m.id, $4::text, $5::text, m.tenant, m.id, m.payload ->> 'fate', (m.payload ->> 'failures')::integer FROM message m
ORDER BY m.id
RETURNING message_id::text AS id`
