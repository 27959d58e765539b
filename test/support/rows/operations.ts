import pg from 'pg'
import { onTestFinished } from 'vitest'
import type { TestDatabase } from '../servers/database.ts'

export interface Burial {
  readonly queue: string
  readonly count?: number
  readonly reason?: string
  readonly error?: string
  readonly type?: string | null
  readonly agoMs?: number
  readonly tenant?: string
}

/** Puts dead letters into a queue and returns their ids, in ascending order. */
export async function bury(database: TestDatabase, burial: Burial): Promise<string[]> {
  const {
    queue,
    count = 1,
    reason = 'Too many attempts',
    error = null,
    type = 'order.paid',
    agoMs = 0,
    tenant = null,
  } = burial
  const rows = await database.sql<{ id: string }>(
    `INSERT INTO sluice.dead_letter
       (queue, id, priority, type, schema_version, payload, headers, attempt, reason, error, enqueued_at, died_at, tenant)
     SELECT $1::text, nextval(pg_get_serial_sequence('sluice.message', 'id')), 5, $2::text, 1, '{"order": 1}',
            '{"trace": "abc"}', 5, $3::text, $4::text, clock_timestamp() - interval '1 day',
            clock_timestamp() - $5::float8 * interval '1 millisecond', $7::text
     FROM generate_series(1, $6::integer)
     RETURNING id::text AS id`,
    [queue, type, reason, error, agoMs, count, tenant],
  )
  return rows.map((row) => row.id)
}

export interface Registration {
  readonly name: string
  readonly queues: readonly string[]
  readonly alive: boolean
  readonly inHand?: number
}

/** Puts a worker on the books, with messages in hand; a live one holds its lock until the test ends. */
export async function register(
  database: TestDatabase,
  { name, queues, alive, inHand = 0 }: Registration,
): Promise<void> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  const { rows } = await client.query<{ id: number }>(
    `INSERT INTO sluice.worker (name, host, pid, version, queues) VALUES ($1, 'host', 1, '0', $2) RETURNING id`,
    [name, queues],
  )
  const id = rows[0]?.id
  if (alive) await client.query('SELECT pg_advisory_lock(746502, $1)', [id])
  if (inHand === 0) return
  // Below zero: of events, which have no rows to be looked up.
  const ids = Array.from({ length: inHand }, (_, at) => -1 - at)
  await client.query(
    `INSERT INTO sluice.batch_record (worker_id, id, queue, message_ids, attempts) VALUES ($1, 1, $2, $3::bigint[], $4::integer[])`,
    [id, queues[0], ids, ids.map(() => 0)],
  )
}
