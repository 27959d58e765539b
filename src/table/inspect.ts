import { booleanOf, type Execute, numberOf, type Row, statement, textOf, textOrNull, textsOf } from './statement.ts'

/** What waits, runs and fails in one queue. */
export interface QueueStatus {
  readonly queue: string
  readonly ready: number
  readonly scheduled: number
  readonly retrying: number
  readonly inFlight: number
  readonly dead: number
  /** For how long the oldest due message has been due; null: none is due. */
  readonly oldestReadyAgeMs: number | null
  /** When the next message falls due, in ISO 8601; null: none is waiting for its time. */
  readonly nextDueAt: string | null
  readonly nextDueInMs: number | null
  /** Live worker processes that consume it. */
  readonly workers: number
}

/** One worker process, as it registered. */
export interface WorkerStatus {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly queues: readonly string[]
  readonly startedAt: string
  readonly seenAt: string
  readonly seenAgoMs: number
  readonly alive: boolean
  readonly inFlight: number
}

/** One message that is not dead. Payload and headers are JSON texts, as the server wrote them. */
export interface PeekedMessage {
  readonly queue: string
  readonly id: string
  readonly state: string
  readonly type: string | null
  readonly schemaVersion: number
  readonly payload: string
  readonly headers: string
  readonly orderingKey: string | null
  readonly priority: number
  readonly attempt: number
  readonly maxAttempts: number | null
  readonly enqueuedAt: string
  /** Null: at no time that can be told. */
  readonly enqueuedAgoMs: number | null
  /** Null: never. */
  readonly dueAt: string | null
  /** Negative: it has been due for so long. Null: never. */
  readonly dueInMs: number | null
  readonly failedAt: string | null
  readonly lastError: string | null
  /** The earlier message with the same ordering key for which it waits. */
  readonly heldBy: string | null
  /** Who has it in hand. */
  readonly worker: string | null
}

/** The queues by name, or only the one given. Counts exactly: the cost grows with the table. */
export async function readQueues(execute: Execute, queue: string | null): Promise<readonly QueueStatus[]> {
  const rows = await execute(QUEUES, [queue])
  return rows.map((row) => ({
    queue: textOf(row, 'queue'),
    ready: numberOf(row, 'ready'),
    scheduled: numberOf(row, 'scheduled'),
    retrying: numberOf(row, 'retrying'),
    inFlight: numberOf(row, 'in_flight'),
    dead: numberOf(row, 'dead'),
    oldestReadyAgeMs: integerOrNull(row, 'oldest_ready_age_ms'),
    nextDueAt: textOrNull(row, 'next_due_at'),
    nextDueInMs: integerOrNull(row, 'next_due_in_ms'),
    workers: numberOf(row, 'workers'),
  }))
}

/** The worker processes in the order of their starts, or only those that consume the queue given. */
export async function readWorkers(execute: Execute, queue: string | null): Promise<readonly WorkerStatus[]> {
  const rows = await execute(WORKERS, [queue])
  return rows.map((row) => ({
    id: textOf(row, 'id'),
    name: textOf(row, 'name'),
    host: textOf(row, 'host'),
    pid: numberOf(row, 'pid'),
    version: textOf(row, 'version'),
    queues: textsOf(row, 'queues'),
    startedAt: textOf(row, 'started_at'),
    seenAt: textOf(row, 'seen_at'),
    seenAgoMs: Math.round(numberOf(row, 'seen_ago_ms')),
    alive: booleanOf(row, 'alive'),
    inFlight: numberOf(row, 'in_flight'),
  }))
}

/** The names of all queues that have messages, dead letters or workers. From each to the next by an index: it counts nothing. */
export async function readQueueNames(execute: Execute): Promise<readonly string[]> {
  const rows = await execute(QUEUE_NAMES, [])
  return rows.map((row) => textOf(row, 'queue'))
}

/** The next messages of a queue in the order in which they fall due, without claiming them. */
export async function peekMessages(execute: Execute, queue: string, limit: number): Promise<readonly PeekedMessage[]> {
  const rows = await execute(PEEK, [queue, limit])
  return rows.map((row) => ({
    queue: textOf(row, 'queue'),
    id: textOf(row, 'id'),
    state: textOf(row, 'state'),
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    payload: textOf(row, 'payload'),
    headers: textOf(row, 'headers'),
    orderingKey: textOrNull(row, 'ordering_key'),
    priority: numberOf(row, 'priority'),
    attempt: numberOf(row, 'attempt'),
    maxAttempts: integerOrNull(row, 'max_attempts'),
    enqueuedAt: textOf(row, 'enqueued_at'),
    enqueuedAgoMs: integerOrNull(row, 'enqueued_ago_ms'),
    dueAt: textOrNull(row, 'due_at'),
    dueInMs: integerOrNull(row, 'due_in_ms'),
    failedAt: textOrNull(row, 'failed_at'),
    lastError: textOrNull(row, 'last_error'),
    heldBy: textOrNull(row, 'held_by'),
    worker: textOrNull(row, 'worker'),
  }))
}

/** The database's clock, in microseconds since 1970. */
export async function readClockUs(execute: Execute): Promise<number> {
  const [row] = await execute(CLOCK, [])
  if (row === undefined) throw new TypeError('The server returned no time')
  return numberOf(row, 'now_us')
}

/** Null also for what is infinite, as an instant of SQL can be. */
function integerOrNull(row: Row, column: string): number | null {
  const number = Number(row[column] ?? Number.NaN)
  return Number.isFinite(number) ? Math.round(number) : null
}

// Instants leave as text, because a driver's Date would cut their microseconds; to_char makes infinity null. Differences
// are taken between epochs: before PostgreSQL 17 an infinite instant cannot be subtracted.
const QUEUES = statement(
  'inspect_queues',
  `
SELECT q.queue, q.ready, q.scheduled, q.retrying, q.in_flight, q.dead, q.workers,
       (extract(epoch FROM q.oldest_ready_age) * 1000.0) AS oldest_ready_age_ms,
       to_char(q.next_due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS next_due_at,
       ((extract(epoch FROM q.next_due_at) - extract(epoch FROM clock_timestamp())) * 1000.0) AS next_due_in_ms
FROM sluice.queues q
WHERE $1::text IS NULL OR q.queue = $1::text
ORDER BY q.queue`,
)

const WORKERS = statement(
  'inspect_workers',
  `
SELECT w.id, w.name, w.host, w.pid, w.version, w.queues, w.alive, w.in_flight,
       to_char(w.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS started_at,
       to_char(w.seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS seen_at,
       (extract(epoch FROM clock_timestamp() - w.seen_at) * 1000.0) AS seen_ago_ms
FROM sluice.workers w
WHERE $1::text IS NULL OR $1::text = ANY (w.queues)
ORDER BY w.id`,
)

const QUEUE_NAMES = statement(
  'inspect_queue_names',
  `
WITH RECURSIVE live (queue) AS (
  SELECT (SELECT m.queue FROM sluice.messages m ORDER BY m.queue, m.id LIMIT 1)
  UNION ALL
  SELECT (SELECT m.queue FROM sluice.messages m WHERE m.queue > l.queue ORDER BY m.queue, m.id LIMIT 1)
  FROM live l WHERE l.queue IS NOT NULL
), dead (queue) AS (
  SELECT (SELECT d.queue FROM sluice.dead_letters d ORDER BY d.queue, d.id LIMIT 1)
  UNION ALL
  SELECT (SELECT d.queue FROM sluice.dead_letters d WHERE d.queue > l.queue ORDER BY d.queue, d.id LIMIT 1)
  FROM dead l WHERE l.queue IS NOT NULL
)
SELECT l.queue FROM live l WHERE l.queue IS NOT NULL
UNION SELECT d.queue FROM dead d WHERE d.queue IS NOT NULL
UNION SELECT pg_catalog.unnest(w.queues) FROM sluice.workers w`,
)

const PEEK = statement(
  'inspect_peek',
  `
SELECT m.queue, m.id::text AS id, m.state, m.type, m.schema_version, m.payload::text AS payload, m.headers::text AS headers,
       m.ordering_key, m.priority, m.attempt, m.max_attempts, m.last_error, m.held_by::text AS held_by, m.worker,
       coalesce(to_char(m.enqueued_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), m.enqueued_at::text) AS enqueued_at,
       ((extract(epoch FROM clock_timestamp()) - extract(epoch FROM m.enqueued_at)) * 1000.0) AS enqueued_ago_ms,
       to_char(m.due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS due_at,
       ((extract(epoch FROM m.due_at) - extract(epoch FROM clock_timestamp())) * 1000.0) AS due_in_ms,
       to_char(m.failed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS failed_at
FROM sluice.peek($1::text, $2::integer) m
ORDER BY m.due_at, m.id`,
)

const CLOCK = statement('clock', 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint AS now_us')
