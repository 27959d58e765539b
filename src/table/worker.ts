import type { ServerTransaction } from './claim.ts'
import { CONFIGURE_PLANNER } from './planner.ts'
import { booleanOf, type Execute, numberOf, statement } from './statement.ts'

/** What a worker registers with. */
export interface WorkerIdentity {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
}

/**
 * The number under which a worker process is known: the one that it had, or one from a sequence. A standby that takes
 * over may have lost the sequence's last values and rows of workers, so numbers can be given out again: one that stands
 * on the books for another process is not taken.
 */
export async function workerIdOf(execute: Execute, identity: WorkerIdentity, before?: number): Promise<number> {
  for (let id = before ?? (await newWorkerId(execute)); ; id = await newWorkerId(execute)) {
    const { name, host, pid } = identity
    const others = await execute(OF_ANOTHER, [id, name, host, pid])
    if (others.length === 0) return id
  }
}

/** The next number of the sequence. */
export async function newWorkerId(execute: Execute): Promise<number> {
  const [row] = await execute(NEW_WORKER_ID, [])
  if (row === undefined) throw new TypeError('expected a worker id')
  return numberOf(row, 'id')
}

/** Sets up the session of a control connection, unless it is shared. */
export async function configureControl(execute: Execute): Promise<void> {
  await execute(CONFIGURE, [])
  await execute(CONFIGURE_PLANNER, [])
}

/**
 * Registers a worker process, or registers it again after a lost connection: takes its liveness lock, ending a session
 * of its own that the server has not yet seen die, unless the session is shared; forgets the evidence that another
 * worker wrote meanwhile because it took this one for dead, and clears its record of batches: the caller writes down
 * those that it has in hand.
 *
 * @param pooled the session is shared: the worker can hold no lock, and is alive while it is heard of.
 */
export async function registerWorker(
  execute: Execute,
  id: number,
  identity: WorkerIdentity,
  queues: readonly string[],
  pooled = false,
): Promise<void> {
  const { name, host, pid, version } = identity
  if (!pooled) {
    await execute(END_OWN_GHOST, [id])
    await execute(LOCK_WORKER, [id])
  }
  await execute(REGISTER, [id, name, host, pid, version, queues, pooled])
  await execute(RESET, [id])
}

/** Writes down which queues a worker consumes: all of them. */
export async function registerQueues(execute: Execute, id: number, queues: readonly string[]): Promise<void> {
  await execute(REGISTER_QUEUES, [id, queues])
}

/** Takes the worker and its batches off the books: it stopped in good order. */
export async function unregisterWorker(execute: Execute, id: number): Promise<void> {
  await execute(UNREGISTER, [id])
}

/** A batch in hand: which messages, and how many tries of each had failed when it was claimed. */
export interface BatchRecord {
  readonly id: number
  readonly queue: string
  readonly messageIds: readonly string[]
  readonly attempts: readonly number[]
}

/**
 * Writes down which batches begin and which have ended, in one statement. Insert and delete by a key that is never used
 * twice: an update of one row per worker would leave a chain of dead versions to walk while a snapshot pins the
 * horizon.
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
    begun.map((batch) => `{${batch.messageIds.join()}}`),
    begun.map((batch) => `{${batch.attempts.join()}}`),
  ])
}

/** A worker found dead, and how many messages it had in hand. */
export interface DeadWorker {
  readonly workerId: number
  readonly messages: number
}

/**
 * Finds workers whose liveness lock is free, writes evidence about the messages that they had in hand and that are still
 * as they were claimed, and takes the workers off the books. None is written if the server itself has restarted since, if
 * the worker registered in another database, of which this one is a copy, or if it held no lock and is only silent. Like
 * `sluice.workers.alive`.
 */
export async function reapWorkers(execute: Execute, ownId: number): Promise<readonly DeadWorker[]> {
  const rows = await execute(REAP, [ownId])
  return rows.map((row) => ({ workerId: numberOf(row, 'id'), messages: numberOf(row, 'messages') }))
}

/**
 * Interrupts what the server does in a transaction of ours that is still open. Resolves when the signal is sent. Behind
 * a pooler the same server process serves others as soon as that transaction has ended, and then nobody is interrupted.
 */
export async function cancelStatement(execute: Execute, { pid, startedUs }: ServerTransaction): Promise<void> {
  await execute(CANCEL, [pid, startedUs])
}

/**
 * What a process of the server does: it is busy, and perhaps waits for a lock, or with COMMIT for a standby; it is not;
 * or the server does not say: there is none with this number, it belongs to another login, or it tracks no activities.
 */
export type ServerWork = 'busy' | 'none' | 'unknown'

/** @param ms busy only with a transaction that is older than this */
export async function workOf(execute: Execute, pid: number, ms: number): Promise<ServerWork> {
  const [row] = await execute(WORKS_SINCE, [pid, ms])
  if (row === undefined) return 'unknown'
  return booleanOf(row, 'busy') ? 'busy' : 'none'
}

const CANCEL = statement(
  'cancel',
  `
SELECT pg_cancel_backend(a.pid) FROM pg_stat_activity a
WHERE a.pid = $1::integer AND (date_part('epoch', a.xact_start) * 1000000::double precision)::bigint = $2::bigint`,
)

const WORKS_SINCE = statement(
  'works_since',
  `
SELECT coalesce(a.state = 'active' AND a.xact_start <= clock_timestamp() - $2::double precision * interval '1 millisecond', false) AS busy
FROM pg_stat_activity a
WHERE a.pid = $1::integer AND a.state <> 'disabled'`,
)

// Nothing that the control connection writes needs to survive a crash of the server. The server finds out within half a
// minute, not two hours, that the machine of a worker is gone: until then it keeps the locks. Plans are kept, because
// making one takes longer than running it. No statement waits longer for a lock: the process would give up and connect
// anew, and the session that waits would stay with the server, one more with every attempt. NOTIFY waits for a lock of
// the whole server, which a COMMIT that has notified keeps until its standby has answered; others wait for tables while
// a migration runs.
const CONFIGURE = statement(
  'control_configure',
  `
SELECT set_config('synchronous_commit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('tcp_keepalives_idle', '15', false),
       set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false),
       set_config('lock_timeout', '1s', false)`,
)

const NEW_WORKER_ID = statement(
  'worker_id',
  `SELECT nextval(pg_get_serial_sequence('sluice.worker', 'id')::regclass)::integer AS id`,
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
  AND l.pid <> pg_backend_pid()
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

const RESET = statement(
  'worker_reset',
  `
WITH batches AS (DELETE FROM sluice.batch b WHERE b.worker_id = $1::integer)
DELETE FROM sluice.crash c WHERE c.worker_id = $1::integer AND c.kind = 'vanished'`,
)

const UNREGISTER = statement(
  'worker_unregister',
  `
WITH batches AS (DELETE FROM sluice.batch b WHERE b.worker_id = $1::integer)
DELETE FROM sluice.worker w WHERE w.id = $1::integer`,
)

const RECORD_BATCHES = statement(
  'batch_record',
  `
WITH ended AS (
  DELETE FROM sluice.batch b WHERE b.worker_id = $1::integer AND b.id = ANY ($2::bigint[])
)
INSERT INTO sluice.batch (worker_id, id, queue, message_ids, attempts)
SELECT $1::integer, b.id, b.queue, b.message_ids::bigint[], b.attempts::integer[]
FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[]) AS b (id, queue, message_ids, attempts)
ON CONFLICT (worker_id, id) DO NOTHING`,
)

const REAP = statement(
  'worker_reap',
  `
WITH dead AS (
  DELETE FROM sluice.worker w
  WHERE w.id <> $1::integer
    AND CASE WHEN w.pooled THEN w.seen_at < clock_timestamp() - interval '3 minutes'
             ELSE pg_try_advisory_xact_lock_shared(746502, w.id) END
  RETURNING w.id, w.name, w.server_started_at, w.database_oid, w.pooled
), batch AS (
  DELETE FROM sluice.batch b USING dead WHERE b.worker_id = dead.id
  RETURNING b.worker_id, b.id, b.queue, b.message_ids, b.attempts
), in_hand AS (
  SELECT dead.id AS worker_id, dead.name, batch.id AS batch_id, batch.queue, m.id, m.attempt,
         count(*) OVER (PARTITION BY dead.id) = 1 AS alone
  FROM dead
  JOIN batch ON batch.worker_id = dead.id
  CROSS JOIN LATERAL unnest(batch.message_ids, batch.attempts) AS m (id, attempt)
  WHERE dead.server_started_at = pg_postmaster_start_time() AND NOT dead.pooled
    AND dead.database_oid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
), evidence AS (
  INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
  SELECT h.queue, h.id, h.worker_id, h.batch_id, 'vanished', h.name, h.alone
  FROM in_hand h
  WHERE EXISTS (SELECT FROM sluice.message m WHERE m.queue = h.queue AND m.id = h.id AND m.attempt = h.attempt)
  ON CONFLICT DO NOTHING
)
SELECT dead.id, (SELECT count(*) FROM in_hand h WHERE h.worker_id = dead.id)::integer AS messages FROM dead`,
)
