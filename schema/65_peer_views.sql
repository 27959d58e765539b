-- Shows whether relays and inboxes can do their work.
--
-- Public views: sluice.relays, sluice.inboxes.

-- What a heartbeat says of a relay or of an inbox: whether what is at the other end is within reach. No row: it says nothing. A
-- login that may work may write anything into its row, and one row must not break the views. It costs 10 us, because SET keeps it
-- from being inlined: the views call it only for queues of which a heartbeat says something.
CREATE FUNCTION sluice_private.read_peer(said jsonb) RETURNS TABLE (
  system text, state text, side text, since timestamptz, cause text, error text, retry_at timestamptz
)
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
  SELECT said ->> 'system', f.state,
         CASE WHEN f.state = 'unavailable' THEN CASE said ->> 'side' WHEN 'database' THEN 'database' ELSE 'receiver' END END,
         f.since,
         CASE WHEN f.state = 'unavailable' THEN CASE said ->> 'cause' WHEN 'settings' THEN 'settings' ELSE 'outage' END END,
         said ->> 'error',
         CASE WHEN said @@ 'strict $.retryAtMs > 0 && $.retryAtMs < 100000000000000'
           THEN timestamptz 'epoch' + (said ->> 'retryAtMs')::double precision * interval '1 millisecond' END
  FROM (
    SELECT CASE WHEN said ->> 'error' IS NULL THEN 'available' ELSE 'unavailable' END AS state,
           CASE WHEN said @@ 'strict $.sinceMs > 0 && $.sinceMs < 100000000000000'
             THEN timestamptz 'epoch' + (said ->> 'sinceMs')::double precision * interval '1 millisecond' END AS since
  ) f
  WHERE f.since IS NOT NULL
$$;

-- The relays and the inboxes of live workers. What one that is gone or hangs has written last says nothing about now.
CREATE VIEW sluice_private.peers AS
SELECT k.kind, q.key AS queue, v.id AS worker_id, v.name AS worker, p.system, p.state, p.side, p.since, p.cause, p.error,
       p.retry_at, w.seen_at AS as_of
FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id
CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(w.statistics) WHEN 'object' THEN w.statistics END) AS q (key, value)
CROSS JOIN (SELECT 'relay' AS kind UNION ALL SELECT 'inbox') k
CROSS JOIN LATERAL sluice_private.read_peer(q.value -> k.kind) p
WHERE v.alive AND NOT v.stale AND q.value ? k.kind;

CREATE VIEW sluice.relays AS
SELECT p.queue, p.worker_id, p.worker, p.system AS destination, p.state, p.since, p.cause, p.error, p.retry_at, p.as_of
FROM sluice_private.peers p WHERE p.kind = 'relay';
SELECT sluice_private.describe('{relays}', $$
*: Whether the relays of live workers reach their destinations: one row per worker and queue, once something was tried.
queue: The queue.
worker_id: The worker's number.
worker: The worker's name.
destination: The kind of its destination, such as nats.
state: available, or unavailable: nothing is claimed until one message gets through.
since: Since when, by the worker's clock.
cause: Of the last try: outage, which may pass by itself, or settings: it waits for a change by hand. Null: it is available.
error: Why it is unavailable; otherwise null.
retry_at: When it is tried next; null: it is available. A time that has just passed: it is being tried.
as_of: The worker's last heartbeat. A new state comes with the next poll.
$$);

CREATE VIEW sluice.inboxes AS
SELECT p.queue, p.worker_id, p.worker, p.system AS receiver, p.state, p.side, p.since, p.cause, p.error, p.retry_at, p.as_of
FROM sluice_private.peers p WHERE p.kind = 'inbox';
SELECT sluice_private.describe('{inboxes}', $$
*: Whether the inboxes of live workers can receive and store: one row per worker and queue, once something was tried.
queue: The queue into which it enqueues.
worker_id: The worker's number.
worker: The worker's name.
receiver: The kind of what it receives from, such as nats.
state: available, or unavailable: it receives nothing, or stores nothing.
side: Which side fails: receiver, the broker, or database, in which it cannot store. Null: it is available.
since: Since when, by the worker's clock.
cause: Of the last try: outage, which may pass by itself, or settings: it waits for a change by hand. Null: it is available.
error: Why it is unavailable; otherwise null.
retry_at: When it is tried next; null: it is available. A time that has just passed: it is being tried.
as_of: The worker's last heartbeat. A new state comes with the next poll.
$$);
