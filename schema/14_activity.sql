-- What workers have done, minute by minute: for charts, and for what was an hour ago.

-- One row per worker and minute in which a handler has ended there, written by the worker itself with one INSERT for all of its
-- queues: {queue: {acked, retried, snoozed, dead, batches, waiting: {maxMs, buckets}, handling: {totalMs, maxMs, buckets}}}.
-- buckets: {bucket: how many}, four buckets for each doubling, from 2^-10 ms on (see sluice.activity): those of several workers
-- can be added up, which percentiles cannot. Kept for two days: 29,000 rows for ten workers that are never idle. No trigger,
-- no key of a message, nothing that a handler waits for. number: the worker counts its rows, so that one that it writes
-- again, because the answer to its COMMIT was lost, is there once.
CREATE TABLE sluice.worker_activity (
  worker_id integer     NOT NULL,
  number    integer     NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  queues    jsonb       NOT NULL CONSTRAINT "queues: an object" CHECK (jsonb_typeof(queues) = 'object'),
  CONSTRAINT worker_activity_pkey PRIMARY KEY (worker_id, number)
) WITH (vacuum_truncate = off);

-- The rows of a time, for charts and for their removal.
CREATE INDEX worker_activity_at_idx ON sluice.worker_activity (at);

CREATE FUNCTION sluice_private.prune_activity(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - interval '2 days';
  removed integer;
BEGIN
  DELETE FROM sluice.worker_activity a WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.worker_activity o WHERE o.at < before ORDER BY o.at LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END
$$;
