import { bigintArray } from '../bigint-array.ts'
import { CONFIGURE_PLANNER } from '../planner.ts'
import { booleanOf, type Execute, numberOf, only, statement } from '../statement.ts'
import { FREED, WAKE } from './reap.ts'

/** How a worker registers. */
export interface WorkerIdentity {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
}

/** The id of a worker process: the one that it had, unless another process is registered with it, or a new one. */
export async function workerIdOf(execute: Execute, identity: WorkerIdentity, before?: number): Promise<number> {
  if (before === undefined) return newWorkerId(execute)
  const { name, host, pid } = identity
  const others = await execute(OF_ANOTHER, [before, name, host, pid])
  return others.length === 0 ? before : newWorkerId(execute)
}

/**
 * The next id of the sequence that no worker has. A standby that takes over may have lost the sequence's last values and
 * rows of workers, so an id can come twice.
 */
export async function newWorkerId(execute: Execute): Promise<number> {
  for (;;) {
    const row = only(await execute(NEW_WORKER_ID, []))
    if (!booleanOf(row, 'taken')) return numberOf(row, 'id')
  }
}

/** Sets up the session of a control connection, unless it is shared. */
export async function configureControl(execute: Execute): Promise<void> {
  await Promise.all([execute(CONFIGURE, []), execute(CONFIGURE_PLANNER, [])])
}

/**
 * Registers a worker process, or registers it again after a lost connection. Unless the session is shared, it takes the
 * liveness lock, and ends an old session of the worker that the server has not yet seen die. It deletes the evidence
 * that another worker wrote meanwhile because it took this one for dead, and ends the leases of batches that no worker has.
 *
 * @param pooled whether the session is shared: then the worker can hold no lock, and its heartbeat shows that it is
 * alive
 * @param inHand the numbers of its batches in flight, and of claims on their way
 */
export async function registerWorker(
  execute: Execute,
  id: number,
  identity: WorkerIdentity,
  queues: readonly string[],
  pooled = false,
  inHand: readonly number[] = [],
): Promise<void> {
  const { name, host, pid, version } = identity
  // The row comes behind the lock: it must not outlive a failure to get that.
  if (!pooled) await Promise.all([execute(END_OWN_GHOST, [id]), execute(LOCK_WORKER, [id])])
  await Promise.all([execute(REGISTER, [id, name, host, pid, version, queues, pooled]), execute(RESET, [id, inHand])])
}

/** Records all queues that a worker consumes. */
export async function registerQueues(execute: Execute, id: number, queues: readonly string[]): Promise<void> {
  await execute(REGISTER_QUEUES, [id, queues])
}

/** Deletes the worker and its records of batches, because it stopped gracefully. */
export async function unregisterWorker(execute: Execute, id: number): Promise<void> {
  await execute(UNREGISTER, [id])
}

/** A batch in flight: its messages, and how many tries of each had failed when it was claimed. */
export interface BatchRecord {
  readonly id: number
  readonly queue: string
  readonly messageIds: readonly string[]
  readonly attempts: readonly number[]
  /** No transaction keeps the messages: see {@link leaseOf}. */
  readonly leased?: boolean
}

/**
 * Records which batches begin and which have ended, in one statement. It inserts and deletes rows whose key is never
 * used again. Updates of one row per worker would leave a chain of dead versions that every read walks while a snapshot
 * pins the vacuum horizon.
 */
export async function recordBatches(
  execute: Execute,
  workerId: number,
  ended: readonly number[],
  begun: readonly BatchRecord[],
): Promise<void> {
  await execute(RECORD_BATCHES, [
    workerId,
    ended,
    begun.map((batch) => batch.id),
    begun.map((batch) => batch.queue),
    begun.map((batch) => bigintArray(batch.messageIds)),
    begun.map(({ attempts }) => (attempts.some((failed) => failed > 0) ? bigintArray(attempts) : '{}')),
    begun.map((batch) => batch.leased === true),
  ])
}

// Nothing that the control connection writes needs to survive a crash of the server. TCP keepalive tells the server
// within half a minute, not two hours, that the machine of a worker is gone; until then it keeps the locks. Plans are
// kept, because making one takes longer than running it. The wait for a lock is limited: otherwise the process would
// give up and connect again, and every attempt would leave one more waiting session on the server. NOTIFY waits for a
// lock of the whole server, which a COMMIT that has notified keeps until its standby has answered; other statements
// wait for tables while a migration runs.
const CONFIGURE = statement(
  'control_configure',
  `
SELECT set_config('synchronous_commit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('tcp_keepalives_idle', '15', false),
       set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false),
       set_config('lock_timeout', '1s', false)`,
)

const NEW_WORKER_ID = statement(
  'worker_id',
  `
SELECT next.id, EXISTS (SELECT FROM sluice.worker w WHERE w.id = next.id) AS taken
FROM (SELECT nextval(pg_get_serial_sequence('sluice.worker', 'id')::regclass)::integer AS id OFFSET 0) next`,
)

const OF_ANOTHER = statement(
  'worker_of_another',
  `
SELECT FROM sluice.worker w
WHERE w.id = $1::integer AND (w.name <> $2::text OR w.host <> $3::text OR w.pid <> $4::integer)`,
)

const END_OWN_GHOST = statement(
  'worker_end_ghost',
  `
SELECT pg_terminate_backend(l.pid)
FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.classid = 746502::oid AND l.objid = $1::integer::oid AND l.objsubid = 2 AND l.granted
  AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`,
)

const LOCK_WORKER = statement('worker_lock', 'SELECT pg_advisory_lock(746502, $1::integer)')

const REGISTER = statement(
  'worker_register',
  `
INSERT INTO sluice.worker (id, name, host, pid, version, queues, pooled, database_oid)
OVERRIDING SYSTEM VALUE
SELECT $1::integer, $2::text, $3::text, $4::integer, $5::text, $6::text[], $7::boolean, d.oid
FROM pg_database d WHERE d.datname = current_database()
ON CONFLICT (id) DO UPDATE
SET seen_at = clock_timestamp(), server_started_at = pg_postmaster_start_time(), pooled = EXCLUDED.pooled,
    database_oid = EXCLUDED.database_oid`,
)

const REGISTER_QUEUES = statement(
  'worker_queues',
  'UPDATE sluice.worker w SET queues = $2::text[], seen_at = clock_timestamp() WHERE w.id = $1::integer',
)

// A record that is of no batch in flight may be of a claim whose answer was lost: its leases end.
const RESET = statement(
  'worker_reset',
  `
WITH batch AS (
  DELETE FROM sluice.batch_record b WHERE b.worker_id = $1::integer AND b.id <> ALL ($2::bigint[])
  RETURNING b.worker_id, b.id, b.queue, b.message_ids, b.leased${FREED}
), alive AS (
  DELETE FROM sluice.crash c WHERE c.worker_id = $1::integer AND c.kind = 'vanished'
)
SELECT ${WAKE}`,
)

const UNREGISTER = statement(
  'worker_unregister',
  `
WITH batch AS (
  DELETE FROM sluice.batch_record b WHERE b.worker_id = $1::integer
  RETURNING b.worker_id, b.id, b.queue, b.message_ids, b.leased${FREED}
), gone AS (
  DELETE FROM sluice.worker w WHERE w.id = $1::integer
)
SELECT ${WAKE}`,
)

const RECORD_BATCHES = statement(
  'batch_record',
  `
WITH ended AS (
  DELETE FROM sluice.batch_record b WHERE b.worker_id = $1::integer AND b.id = ANY ($2::bigint[])
)
INSERT INTO sluice.batch_record (worker_id, id, queue, message_ids, attempts, leased)
SELECT $1::integer, b.id, b.queue, b.message_ids::bigint[], b.attempts::integer[], b.leased
FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::boolean[]) AS b (id, queue, message_ids, attempts, leased)
ON CONFLICT (worker_id, id) DO NOTHING`,
)
