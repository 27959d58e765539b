-- Views of messages.
--
-- Public views: sluice.workers, sluice.in_flight, sluice.messages, sluice.dead_letters, sluice.completed,
-- sluice.queues.
--
-- The types of their columns are public and so are no domains: m.due_at::timestamptz.

-- Comments on views and their columns, a line for each: its name, or * for the view itself, and what is said about it. A
-- line that is indented belongs to the one before. The last file removes this.
CREATE FUNCTION sluice_private.describe(views text[], lines text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  view text;
  line text;
  name text;
BEGIN
  FOREACH view IN ARRAY views LOOP
    FOREACH line IN ARRAY string_to_array(btrim(regexp_replace(lines, chr(10) || ' +', ' ', 'g'), chr(10)), chr(10)) LOOP
      name := split_part(line, ':', 1);
      EXECUTE format(
        'COMMENT ON %s IS %L',
        CASE name WHEN '*' THEN format('VIEW sluice.%I', view) ELSE format('COLUMN sluice.%I.%I', view, name) END,
        substr(line, length(name) + 3)
      );
    END LOOP;
  END LOOP;
END
$$;

-- What the views see of sluice.batch_record. A hot standby refuses every statement that names an unlogged table, when
-- it plans it, and there the record is empty anyway. In plpgsql a statement is planned when it is reached.
CREATE FUNCTION sluice_private.batch_records() RETURNS SETOF sluice.batch_record
LANGUAGE plpgsql STABLE ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_is_in_recovery() THEN
    RETURN QUERY SELECT b.* FROM sluice.batch_record b;
  END IF;
END
$$;

CREATE VIEW sluice.workers AS
SELECT w.id, w.name, w.host, w.pid, w.version, w.queues, w.started_at, w.seen_at, l.alive,
       -- A heartbeat comes at least every 30 seconds. An open connection of a pooler proves nothing.
       l.alive AND NOT w.pooled AND w.seen_at < (SELECT sluice_private.clock()) - interval '90 seconds' AS stale,
       (SELECT coalesce(sum(CASE WHEN b.leased THEN (
            -- Leased messages are settled one by one, and the row of their batch stays until the last of them is. The
            -- batch of a worker that hangs may be over for the server, and others have settled its messages.
            SELECT count(*) FROM unnest(b.message_ids) AS given (id)
            JOIN sluice.message m ON m.queue = b.queue AND m.id = given.id AND m.lease = b.worker_id::bigint << 32 | b.id
          ) ELSE (
            SELECT count(*) FROM unnest(b.message_ids) AS given (id)
            WHERE given.id < 0 OR EXISTS (SELECT FROM sluice.message m WHERE m.queue = b.queue AND m.id = given.id)
          ) END), 0)
        FROM sluice_private.batch_records() b WHERE b.worker_id = w.id)::integer AS in_flight
FROM sluice.worker w CROSS JOIN LATERAL (
  -- The locks of the primary cannot be seen from a standby.
  SELECT CASE WHEN w.pooled OR pg_catalog.pg_is_in_recovery()
    THEN w.seen_at >= (SELECT sluice_private.clock()) - interval '3 minutes'
  ELSE EXISTS (
    SELECT FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = w.id::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
  ) END AS alive
) l;
SELECT sluice_private.describe('{workers}', $$
*: Worker processes, with their queues and when they started.
id: The worker's number, new at every start of a process.
name: The name given in the configuration, by default host:pid.
host: The machine's host name.
pid: The process id on that machine.
version: The version of Sluice that it runs.
queues: The queues that its pipelines consume.
started_at: When it registered.
seen_at: Its last heartbeat.
alive: Whether its control connection is open now; behind a pooler and on a standby, whether it sent a heartbeat in the
  last three minutes.
stale: Whether its control connection is open, and it has sent no heartbeat for 90 seconds: the process hangs or is stopped, or
  its machine is gone. Never behind a pooler.
in_flight: How many messages it has in flight.
$$);

CREATE VIEW sluice.in_flight AS
SELECT b.queue, m.message_id AS id, coalesce(m.attempt, 0) + 1 AS attempt, b.claimed_at,
       (SELECT sluice_private.clock()) - b.claimed_at AS running_for, b.id AS batch, w.id AS worker_id, w.name AS worker,
       w.alive AS worker_alive, l.leased_until, NULL::bigint AS claim,
       CASE WHEN m.message_id < 0 THEN -m.message_id END AS event_position
FROM sluice_private.batch_records() b
JOIN sluice.workers w ON w.id = b.worker_id
CROSS JOIN LATERAL unnest(b.message_ids, b.attempts) AS m (message_id, attempt)
LEFT JOIN LATERAL (
  SELECT had.due_at::timestamptz AS leased_until FROM sluice.message had
  WHERE b.leased AND had.queue = b.queue AND had.id = m.message_id AND had.lease = b.worker_id::bigint << 32 | b.id
) l ON true
-- The record of a worker that hangs, or that the reaper has not found yet, may be of a batch whose messages others have
-- settled since.
WHERE l.leased_until IS NOT NULL OR NOT b.leased AND (
  m.message_id < 0 OR EXISTS (SELECT FROM sluice.message had WHERE had.queue = b.queue AND had.id = m.message_id)
)
UNION ALL
SELECT c.queue, m.id, m.attempt + 1, c.claimed_at, (SELECT sluice_private.clock()) - c.claimed_at, NULL, NULL, NULL, NULL,
       m.due_at::timestamptz, c.id, m.event_position
FROM sluice.claim c CROSS JOIN LATERAL unnest(c.message_ids) AS given (id)
JOIN sluice.message m ON m.queue = c.queue AND m.id = given.id AND m.lease = -c.id
  AND m.due_at > (SELECT sluice_private.clock())
WHERE c.expires_at > (SELECT sluice_private.clock());
SELECT sluice_private.describe('{in_flight}', $$
*: Messages that workers and claims have in flight, with their worker and their start.
queue: The queue.
id: The message. An event that a group reads for the first time has no message; its id is its position, negated.
attempt: The number of this attempt, from 1.
claimed_at: When its batch, or its claim, was claimed.
running_for: How long ago that was.
batch: The worker's number for the batch: messages with the same number were claimed together, and in transactional mode
  share a transaction. Null: it is in a claim.
worker_id: The worker's number. Null: it is in a claim.
worker: The worker's name. Null: it is in a claim.
worker_alive: False: the worker is gone; the message is available again, or its lease ends soon, and the next reaper pass
  counts the crash. Null: it is in a claim.
leased_until: In leased mode and in a claim: when its lease ends unless renewed. Null: a transaction has locked it.
claim: The claim that it is in. Null: a worker has it.
event_position: The event's position in its stream, if a group reads it for the first time. sluice.messages has the
  positions of messages.
$$);

CREATE VIEW sluice.messages AS
SELECT m.queue, m.id,
       CASE WHEN f.id IS NOT NULL OR m.lease <> 0 AND m.due_at > (SELECT sluice_private.clock()) OR k.pid IS NOT NULL
         THEN 'in_flight'
            WHEN m.expires_at <= (SELECT sluice_private.clock()) THEN 'expired'
            WHEN m.due_at <= (SELECT sluice_private.clock()) THEN 'ready'
            WHEN m.attempt > 0 THEN 'retrying'
            ELSE 'scheduled'
       END AS state,
       m.type::text, m.schema_version::integer, m.payload, m.headers, m.ordering_key::text, m.priority::smallint,
       m.attempt::integer, m.max_attempts::integer, m.enqueued_at, m.due_at::timestamptz, m.expires_at::timestamptz,
       m.failed_at, m.last_error, m.tenant::text, m.dedupe_key::text, m.retry_policy::text,
       m.lease_ms * interval '1 millisecond' AS lease,
       CASE WHEN (h.held ->> 1)::bigint > extract(epoch FROM (SELECT sluice_private.clock())) * 1000000
         AND (h.held ->> 0)::bigint <> m.id
            THEN (h.held ->> 0)::bigint
            ELSE nullif((SELECT min(e.id) FROM sluice.message e
                         WHERE e.queue = m.queue AND e.slot = m.slot AND e.lease IS NOT NULL
                           AND e.ordering_key = m.ordering_key), m.id)
       END AS held_by,
       coalesce(f.worker, (
         SELECT w.name FROM sluice.worker w
         WHERE m.lease > 0 AND m.due_at > (SELECT sluice_private.clock()) AND w.id = (m.lease >> 32)::integer
       )) AS worker,
       CASE WHEN m.lease <> 0 AND m.due_at > (SELECT sluice_private.clock()) THEN m.due_at END AS leased_until,
       CASE WHEN m.lease < 0 AND m.due_at > (SELECT sluice_private.clock()) THEN -m.lease END AS claim,
       m.event_position, m.failures, (k.pid #>> '{}')::integer AS locked_by
FROM sluice.message m
LEFT JOIN (
  -- For an instant the row of a batch that has ended is beside the next.
  SELECT DISTINCT ON (b.queue, given.id) b.queue, given.id, coalesce(given.attempt, 0) AS attempt, b.claimed_at,
    w.name AS worker
  FROM sluice_private.batch_records() b
  JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  CROSS JOIN LATERAL unnest(b.message_ids, b.attempts) AS given (id, attempt)
  -- The row of a leased message itself says which worker has it.
  WHERE NOT b.leased
  ORDER BY b.queue, given.id, b.claimed_at DESC
-- One that has failed since, or was put off, has been settled.
) f ON f.queue = m.queue AND f.id = m.id AND m.attempt <= f.attempt AND m.due_at <= f.claimed_at
LEFT JOIN LATERAL (
  SELECT s.held -> coalesce(m.ordering_key, '') AS held
  FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256)
) h ON true
LEFT JOIN LATERAL (
  -- The session that has the row locked, a worker or not: claims pass it over. The locks are read once, if any row has
  -- been locked since it was written. A prepared transaction has no process: its number is there, with null.
  SELECT (SELECT jsonb_object_agg(l.transactionid::text, l.pid) FROM pg_catalog.pg_locks l
          WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted) -> m.xmax::text AS pid
  WHERE m.xmax <> '0'::xid
) k ON true;
SELECT sluice_private.describe('{messages}', $$
*: Every message that is not dead, with its state as of now.
queue: The queue.
id: The message's id: unique in the database, the same through retries, dead letters and redrive.
state: scheduled (due later, never tried), ready, in_flight, retrying (failed, due later), expired (its life has ended,
  not removed yet).
type: The message's type, dot-separated, for routing; may be null.
schema_version: The version of the payload's schema, from 1.
payload: The content.
headers: Metadata that travels with it: an object.
ordering_key: Messages with the same key are handled one at a time, in order of id; null: no order.
priority: 0 (first) to 9; messages with an ordering key go by their order instead.
attempt: The number of failed attempts so far.
max_attempts: The number of failed attempts after which it becomes a dead letter; null: the pipeline's number.
enqueued_at: When it was enqueued.
due_at: When it may be delivered or retried.
expires_at: When it expires, unless it is in flight then; null: never.
tenant: Its tenant, in a queue that divides its workers among tenants.
dedupe_key: While it is there, an enqueue with the same key adds no second message.
retry_policy: The name of its own retry policy, if it has one.
lease: Its own lease in leased mode, if it has one.
failed_at: When its last attempt failed.
last_error: The error of its last attempt.
held_by: The message with the same ordering key that blocks it: an earlier one, or one that was claimed before this one
  was committed.
worker: The worker that handles it.
leased_until: In leased mode and in a claim: when its lease ends unless renewed.
claim: The claim that it is in.
failures: Its last five failures, the latest last: attempt, at, error, the worker if known, and the stack of the latest if
  known. Null: no attempt failed.
locked_by: The server process (pid) that has locked it: a worker's batch, or any other session.
event_position: In the queue of a group: the event's position in its stream.
$$);

CREATE VIEW sluice.dead_letters AS
SELECT d.queue, d.id, d.reason, d.error, d.attempt, d.died_at, (SELECT sluice_private.clock()) - d.died_at AS age, d.type,
       d.schema_version, d.payload, d.headers, d.ordering_key, d.priority, d.max_attempts, d.enqueued_at, d.tenant,
       d.dedupe_key, d.event_position, d.failures
FROM sluice.dead_letter d;
SELECT sluice_private.describe('{dead_letters}', $$
*: Messages that are not retried unless they are redriven.
reason: Why it became a dead letter.
error: The error of its last attempt, if it had one. Errors of earlier attempts are in failures.
attempt: The number of its attempts.
died_at: When it was moved here.
age: How long ago that was.
payload: The content.
failures: Its last five failures, the latest last: attempt, at, error, the worker if known, and the stack of the latest if
  known. Null: it died without a failure.
event_position: In the queue of a group: the event's position in its stream.
$$);

CREATE VIEW sluice.completed AS
SELECT c.queue, c.id, 'completed' AS state, c.completed_at, c.claimed_at, c.completed_at - c.claimed_at AS took,
       c.worker, c.claim, c.type, c.schema_version, c.payload, c.headers, c.ordering_key, c.priority, c.attempt,
       c.max_attempts, c.enqueued_at, c.failed_at, c.last_error, c.tenant, c.dedupe_key, c.retry_policy
FROM sluice.completed_message c;
SELECT sluice_private.describe('{completed}', $$
*: Messages that have succeeded, of queues that keep their history.
state: completed.
completed_at: When its queue's statement removed it.
claimed_at: When the attempt that succeeded was claimed.
took: The time from claimed_at to completed_at.
worker: The name of the worker that handled it. Null: it was in a claim or popped.
claim: The claim that settled it. Null: a worker handled it, or it was popped.
payload: The content, as it was enqueued.
attempt: The number of the attempt that succeeded, from 1.
failed_at: When its last attempt failed; null: none failed.
last_error: The error of that attempt.
retry_policy: The name of its own retry policy, if it had one.
$$);
SELECT sluice_private.describe('{dead_letters,completed}', $$
queue: The queue.
id: The message's id.
type: The message's type.
schema_version: The version of the payload's schema.
headers: Its headers.
ordering_key: Its ordering key.
priority: Its priority.
max_attempts: Its own limit of attempts, if it had one.
enqueued_at: When it was enqueued.
tenant: Its tenant, if it had one.
dedupe_key: Its dedupe key, if it had one.
$$);

CREATE VIEW sluice.queues AS
-- One time for all of them: each subselect would read it anew, and count a message that becomes due in between twice. Every
-- row is counted anyway, so sluice_private.clock() would save nothing.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), held AS (
  -- Leased messages are counted by their rows: they are not due. Events that are not deferred have no row: their ids are
  -- negative.
  SELECT f.queue, count(DISTINCT f.id) AS in_flight, count(DISTINCT f.id) FILTER (WHERE f.id > 0) AS of_rows
  FROM sluice.in_flight f
  WHERE f.worker_alive AND f.leased_until IS NULL GROUP BY f.queue
), closed AS MATERIALIZED (
  -- Keys whose later messages wait: for one that has failed or was snoozed, or for one that is or was leased. All in one
  -- object, which is read once and searched for each message: a join might be planned as a loop over both.
  SELECT jsonb_object_agg(k.name, true) AS keys
  FROM (
    SELECT s.queue || ' ' || s.slot || ' ' || k.key AS name
    FROM sluice.slot s CROSS JOIN clock c CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
    WHERE (k.value ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
    UNION ALL
    SELECT m.queue || ' ' || m.slot || ' ' || m.ordering_key FROM sluice.message m
    WHERE m.slot IS NOT NULL AND m.lease IS NOT NULL
  ) k
), live AS (
  SELECT m.queue,
         count(*) FILTER (WHERE m.due_at <= c.now AND e.lives AND NOT e.held) AS due,
         count(*) FILTER (WHERE m.due_at <= c.now AND e.lives AND e.held) AS held,
         count(*) FILTER (WHERE m.due_at > c.now AND m.attempt = 0 AND coalesce(m.lease, 0) = 0 AND e.lives) AS scheduled,
         count(*) FILTER (WHERE m.due_at > c.now AND m.attempt > 0 AND coalesce(m.lease, 0) = 0 AND e.lives) AS retrying,
         count(*) FILTER (WHERE m.due_at > c.now AND m.lease <> 0) AS leased,
         count(*) FILTER (WHERE NOT e.lives AND (m.due_at <= c.now OR coalesce(m.lease, 0) = 0)) AS expired,
         max(c.now - greatest(m.due_at, '0001-01-01 00:00Z'))
           FILTER (WHERE m.due_at <= c.now AND e.lives AND NOT e.held) AS oldest_ready_age,
         min(m.due_at) FILTER (WHERE m.due_at > c.now AND coalesce(m.lease, 0) = 0 AND e.lives) AS next_due_at
  FROM sluice.message m CROSS JOIN clock c CROSS JOIN LATERAL (
    SELECT m.expires_at IS NULL OR m.expires_at > c.now AS lives,
           -- A message that closes its key is not held by itself.
           CASE WHEN (m.lease IS NULL OR m.lease = 0 AND m.slot IS NULL) AND m.due_at <= c.now AND (SELECT k.keys FROM closed k) IS NOT NULL
                THEN (SELECT k.keys FROM closed k)
                     ? (m.queue || ' ' || coalesce(m.slot, 256) || ' ' || coalesce(m.ordering_key, ''))
                ELSE false
           END AS held
    OFFSET 0 -- a fence: computed once for each message
  ) e
  GROUP BY m.queue
), expired AS (
  -- Those in a transaction, which are no less in flight for having expired. Only of queues where some have expired.
  SELECT l.queue, (
    SELECT count(DISTINCT f.id) FROM sluice.in_flight f JOIN sluice.message m ON m.queue = f.queue AND m.id = f.id
    WHERE f.queue = l.queue AND f.worker_alive AND f.leased_until IS NULL AND m.expires_at <= c.now
  ) AS in_hand
  FROM live l CROSS JOIN clock c WHERE l.expired > 0
), dead AS (
  SELECT d.queue, count(*) AS dead FROM sluice.dead_letter d GROUP BY d.queue
), consumed AS (
  SELECT unnest(w.queues) AS queue, count(*) AS workers FROM sluice.workers w WHERE w.alive GROUP BY 1
)
SELECT queue,
       greatest(coalesce(live.due, 0) - coalesce(held.of_rows, 0) + coalesce(expired.in_hand, 0), 0) AS ready,
       coalesce(live.scheduled, 0) AS scheduled,
       coalesce(live.retrying, 0) AS retrying,
       coalesce(held.in_flight, 0) + coalesce(live.leased, 0) AS in_flight,
       coalesce(dead.dead, 0) AS dead,
       live.oldest_ready_age,
       live.next_due_at,
       coalesce(consumed.workers, 0) AS workers,
       greatest(coalesce(live.expired, 0) - coalesce(expired.in_hand, 0), 0) AS expired,
       (SELECT q.paused_at FROM sluice.queue q
         WHERE q.queue = coalesce(live.queue, held.queue, dead.queue, consumed.queue)) AS paused_at,
       coalesce(live.held, 0) AS held
FROM live
FULL JOIN held USING (queue)
FULL JOIN dead USING (queue)
FULL JOIN consumed USING (queue)
LEFT JOIN expired USING (queue);
SELECT sluice_private.describe('{queues}', $$
*: One row per queue that has messages, dead letters or workers. The counts are exact, so the cost grows with the table.
queue: The queue.
ready: Messages that are due, not in flight and not held.
held: Messages that are due and wait for an earlier one of their ordering key, which has failed, was snoozed or is leased.
scheduled: Messages due later that were never tried.
retrying: Messages that failed and are due later.
in_flight: Messages that live workers handle, leased messages, and messages in claims.
dead: Dead letters.
oldest_ready_age: How long the oldest due message that is not held has been due.
next_due_at: When the next message becomes due.
workers: The number of live worker processes that consume the queue.
expired: Messages whose life has ended, until they are removed.
paused_at: When it was paused; null: it is not paused.
$$);
