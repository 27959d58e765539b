-- What each queue has to do, for monitoring and autoscaling: counted no further than 10,000.
--
-- Public views: sluice.backlogs.

-- The names come from each to the next in one descent of an index, and a condition on the queue is applied to them before
-- anything is counted. Per queue: of message_due_idx one range for each priority, from its start to now; of
-- message_slot_idx the first 10,000 messages with keys; for the oldest the first of each priority, and of each slot, as
-- a slot's order is not that of due times; of dead_letter_pkey and of message_retrying_idx the first 10,000. The keys that
-- wait for a failed or snoozed message are in the rows of the queue's slots, and in leased mode in message_lease_idx. In
-- flight is what the few records of batches and claims say.
CREATE VIEW sluice.backlogs AS
WITH RECURSIVE clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), live (queue) AS (
  SELECT (SELECT m.queue FROM sluice.message m ORDER BY m.queue, m.id LIMIT 1)
  UNION ALL
  SELECT (SELECT m.queue FROM sluice.message m WHERE m.queue > l.queue ORDER BY m.queue, m.id LIMIT 1)
  FROM live l WHERE l.queue IS NOT NULL
), dead (queue) AS (
  SELECT (SELECT d.queue FROM sluice.dead_letter d ORDER BY d.queue, d.id LIMIT 1)
  UNION ALL
  SELECT (SELECT d.queue FROM sluice.dead_letter d WHERE d.queue > l.queue ORDER BY d.queue, d.id LIMIT 1)
  FROM dead l WHERE l.queue IS NOT NULL
), consumed AS MATERIALIZED (
  SELECT unnest(w.queues) AS queue, count(*) AS workers FROM sluice.workers w WHERE w.alive GROUP BY 1
), named AS (
  SELECT l.queue FROM live l WHERE l.queue IS NOT NULL
  UNION SELECT d.queue FROM dead d WHERE d.queue IS NOT NULL
  UNION SELECT c.queue FROM consumed c
), held AS MATERIALIZED (
  SELECT f.queue, count(DISTINCT f.id) AS in_flight,
         count(DISTINCT f.id) FILTER (WHERE f.leased_until IS NOT NULL) AS leased
  FROM sluice.in_flight f WHERE f.worker_alive IS NOT FALSE GROUP BY f.queue
)
SELECT n.queue, due.messages AS due, coalesce(h.leased, 0) AS leased, coalesce(h.in_flight, 0) AS in_flight,
       clock.now - oldest.due_at AS oldest_due_age, gone.messages AS dead,
       coalesce(c.workers, 0) AS workers, q.concurrency, q.paused_at, failed.messages AS retrying, closed.keys AS held_keys
FROM named n CROSS JOIN clock
CROSS JOIN LATERAL (
  SELECT count(*) AS messages FROM (
    SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= clock.now
      ORDER BY m.due_at, m.id LIMIT 10000
    ) unkeyed
    UNION ALL
    SELECT FROM (
      SELECT m.due_at FROM sluice.message m WHERE m.queue = n.queue AND m.slot IS NOT NULL
      ORDER BY m.slot, m.id LIMIT 10000
    ) keyed WHERE keyed.due_at <= clock.now
    LIMIT 10000
  ) counted
) due
CROSS JOIN LATERAL (
  SELECT min(greatest(head.due_at, '0001-01-01 00:00Z')) AS due_at FROM (
    SELECT first.due_at FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot IS NULL AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT 1
    ) first
    UNION ALL
    SELECT first.due_at FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 1
    ) first
  ) head WHERE head.due_at <= clock.now
) oldest
CROSS JOIN LATERAL (
  SELECT count(*) AS messages FROM (
    -- An equality is expected to find few, so all that it finds would be read and sorted.
    SELECT d.queue FROM sluice.dead_letter d WHERE d.queue >= n.queue ORDER BY d.queue, d.id LIMIT 10000
  ) next WHERE next.queue = n.queue
) gone
CROSS JOIN LATERAL (
  SELECT count(*) AS messages FROM (
    -- As above.
    SELECT m.queue FROM sluice.message m
    WHERE (m.queue, m.due_at) > (n.queue, clock.now) AND m.attempt > 0 AND coalesce(m.lease, 0) = 0
    ORDER BY m.queue, m.due_at LIMIT 10000
  ) next WHERE next.queue = n.queue
) failed
CROSS JOIN LATERAL (
  SELECT count(*) AS keys FROM (
    (SELECT s.slot, k.key FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
     WHERE s.queue = n.queue AND (k.value ->> 1)::bigint > extract(epoch FROM clock.now) * 1000000
     LIMIT 10000)
    UNION
    SELECT m.slot, coalesce(m.ordering_key, '') FROM (
      SELECT m.slot, m.ordering_key, m.lease, m.due_at FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot IS NOT NULL AND m.lease IS NOT NULL ORDER BY m.slot, m.id, m.lease LIMIT 10000
    ) m WHERE m.lease = 0 AND m.due_at > clock.now
    LIMIT 10000
  ) waiting
) closed
LEFT JOIN held h ON h.queue = n.queue
LEFT JOIN consumed c ON c.queue = n.queue
LEFT JOIN sluice.queue q ON q.queue = n.queue;
SELECT sluice_private.describe('{backlogs}', $$
*: One row per queue that has messages, dead letters or workers, for monitoring and autoscaling. Nothing is counted further
  than 10,000, so that a row costs about as much with ten million messages as with ten thousand.
queue: The queue.
due: Messages that are due, up to 10,000. Those that a transactional worker handles now are among them, and so are held and
  expired ones. Of those with ordering keys, the first 10,000 are looked at.
leased: Messages that are leased, or in claims: they are not due.
in_flight: Messages that live workers and claims have in flight. due and leased together have them too.
oldest_due_age: How long the oldest due message has been due. Of those with ordering keys, only the first of each slot counts.
  Null: none is due.
dead: Dead letters, up to 10,000.
workers: The number of live worker processes that consume the queue.
concurrency: How many messages may be in flight, in all processes together. Null: no limit.
paused_at: When it was paused; null: it is not paused.
retrying: Messages that have failed and wait for their next attempt, up to 10,000.
held_keys: Ordering keys whose messages wait for one of theirs that has failed or was snoozed, up to 10,000.
$$);
