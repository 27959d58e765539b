import { type Execute, numberOf, statement, textOf } from '../statement.ts'

/** A worker that vanished, and how many messages it had in flight. */
export interface DeadWorker {
  readonly workerId: number
  /** Its name. */
  readonly worker: string
  readonly messages: number
}

/**
 * Finds workers whose liveness lock is free, writes evidence about the messages that they had in flight and that are
 * still as they were claimed, and deletes the workers. There is no evidence if the server has restarted since, if the
 * worker registered in another database, of which this one is a copy, or if it held no lock and only stopped its
 * heartbeat. The same rule as in `sluice.workers.alive`.
 *
 * A worker that is taken for dead while it claims under a lease leaves the record of a worker that is gone, and without
 * evidence that goes as well. All records are read: there are as many as batches in flight.
 */
export async function reapWorkers(execute: Execute, ownId: number): Promise<readonly DeadWorker[]> {
  const rows = await execute(REAP, [ownId])
  return rows.map((row) => ({
    workerId: numberOf(row, 'id'),
    worker: textOf(row, 'name'),
    messages: numberOf(row, 'messages'),
  }))
}

/** Ends the leases of batches that no worker has in flight, and deletes their records. Returns those that had one. */
export async function freeBatches(
  execute: Execute,
  workerId: number,
  batchIds: readonly number[],
): Promise<readonly number[]> {
  const [row] = await execute(FREE_BATCHES, [workerId, batchIds])
  const ids = row === undefined ? '' : textOf(row, 'ids')
  return ids === '' ? [] : ids.split(',').map(Number)
}

/** What makes worker `w` a dead one, to the worker whose number this parameter has. */
const isDead = (ownId: string) => `w.id <> ${ownId}::integer
    AND CASE WHEN w.pooled THEN w.seen_at < clock_timestamp() - interval '3 minutes'
             ELSE pg_try_advisory_xact_lock_shared(746502, w.id) END`

/** What makes batch `b` one that no worker has. */
const IS_LEFT = 'NOT EXISTS (SELECT FROM sluice.worker w WHERE w.id = b.worker_id)'

/** Whether {@link reapWorkers} would find anything, as a condition: it reads all workers, and all records of batches. */
export const anyDead = (ownId: string) => `(
    EXISTS (SELECT FROM sluice.worker w WHERE ${isDead(ownId)}) OR EXISTS (SELECT FROM sluice.batch_record b WHERE ${IS_LEFT})
  )`

/** Ends the leases of `batch`, which has been deleted, and returns the queues of their messages. Left open. */
export const FREED = `
), left_leased AS MATERIALIZED (
  SELECT b.queue, given.id, b.worker_id::bigint << 32 | b.id AS lease
  FROM batch b CROSS JOIN LATERAL pg_catalog.unnest(b.message_ids) AS given (id)
  WHERE b.leased
), freed AS (
  UPDATE sluice.message m
  SET due_at = (SELECT c.now FROM (SELECT clock_timestamp() AS now OFFSET 0) c),
      lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at)
  WHERE m.ctid = ANY (ARRAY(
    -- One that a stopped process has locked in a transaction of a handler keeps its lease: nobody waits for it.
    SELECT at.ctid FROM left_leased l CROSS JOIN LATERAL (
      SELECT r.ctid FROM sluice.message r WHERE r.queue = l.queue AND r.id = l.id AND r.lease = l.lease LIMIT 1
      FOR UPDATE SKIP LOCKED
    ) at
  ))
  RETURNING m.queue`

/** An UPDATE fires no trigger that would wake anybody. With the server's queue of notifications full, COMMIT would fail. */
export const WAKE = `CASE WHEN pg_notification_queue_usage() < 0.5::double precision THEN (
  SELECT count(pg_notify('sluice', f.queue)) FROM (SELECT DISTINCT queue FROM freed) f
) END AS woken`

const FREE_BATCHES = statement(
  'batches_free',
  `
WITH batch AS (
  DELETE FROM sluice.batch_record b WHERE b.worker_id = $1::integer AND b.id = ANY ($2::bigint[])
  RETURNING b.worker_id, b.id, b.queue, b.message_ids, b.leased${FREED}
)
SELECT ${WAKE}, coalesce((SELECT pg_catalog.string_agg(b.id::text, ',') FROM batch b), '') AS ids`,
)

const REAP = statement(
  'worker_reap',
  `
WITH dead AS (
  DELETE FROM sluice.worker w
  WHERE ${isDead('$1')}
  RETURNING w.id, w.name, w.server_started_at, w.database_oid, w.pooled
), batch AS (
  DELETE FROM sluice.batch_record b
  WHERE b.worker_id IN (SELECT dead.id FROM dead) OR ${IS_LEFT}
  RETURNING b.worker_id, b.id, b.queue, b.message_ids, b.attempts, b.leased${FREED}
), in_hand AS (
  SELECT dead.id AS worker_id, dead.name, batch.id AS batch_id, batch.queue, m.id, coalesce(m.attempt, 0) AS attempt,
         count(*) OVER (PARTITION BY dead.id) = 1 AS alone
  FROM dead
  JOIN batch ON batch.worker_id = dead.id
  CROSS JOIN LATERAL unnest(batch.message_ids, batch.attempts) AS m (id, attempt)
  WHERE dead.server_started_at = pg_postmaster_start_time() AND NOT dead.pooled
    AND dead.database_oid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    -- A leased message that has been settled is not in hand any more, although its batch is.
    AND (NOT batch.leased OR EXISTS (
      SELECT FROM sluice.message had
      WHERE had.queue = batch.queue AND had.id = m.id AND had.lease = batch.worker_id::bigint << 32 | batch.id
    ))
), evidence AS (
  SELECT sluice_private.record_crash(h.queue, h.id, h.worker_id, h.batch_id, 'vanished', h.name, h.alone)
  FROM in_hand h
  -- A number below zero is the position of an event.
  WHERE h.id < 0 OR EXISTS (SELECT FROM sluice.message m WHERE m.queue = h.queue AND m.id = h.id AND m.attempt = h.attempt)
)
SELECT dead.id, dead.name, (SELECT count(*) FROM evidence) AS recorded,
       (SELECT count(*) FROM in_hand h WHERE h.worker_id = dead.id)::integer AS messages,
       ${WAKE}
FROM dead`,
)
