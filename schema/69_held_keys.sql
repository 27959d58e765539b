-- Ordering keys whose messages wait for one that has failed or was snoozed.
--
-- Public views: sluice.held_keys.

CREATE VIEW sluice.held_keys AS
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), holder AS (
  SELECT s.queue, (k.value ->> 0)::bigint AS id
  FROM sluice.slot s CROSS JOIN clock c CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
  WHERE s.held <> '{}'::jsonb AND (k.value ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
  UNION
  SELECT m.queue, m.id FROM sluice.message m CROSS JOIN clock c
  WHERE m.slot IS NOT NULL AND m.lease IS NOT NULL AND m.lease = 0 AND m.due_at > c.now
), first AS (
  -- A batch can have put several messages of a key off.
  SELECT DISTINCT ON (m.queue, m.slot, m.ordering_key)
         m.queue, coalesce(m.slot, 256) AS slot, coalesce(m.ordering_key, '') AS key, m.ordering_key, m.id, m.attempt,
         m.failed_at, m.last_error, m.due_at
  FROM holder h JOIN sluice.message m ON m.queue = h.queue AND m.id = h.id
  ORDER BY m.queue, m.slot, m.ordering_key, m.id
)
SELECT f.queue, f.ordering_key::text, f.id AS message_id, f.attempt::integer, f.failed_at, f.last_error, f.due_at::timestamptz,
       w.messages
FROM first f JOIN (
  SELECT m.queue, coalesce(m.slot, 256) AS slot, coalesce(m.ordering_key, '') AS key, count(*) AS messages
  FROM sluice.message m CROSS JOIN clock c
  WHERE m.due_at <= c.now AND (m.expires_at IS NULL OR m.expires_at > c.now)
  GROUP BY m.queue, coalesce(m.slot, 256), coalesce(m.ordering_key, '')
) w ON w.queue = f.queue AND w.slot = f.slot AND w.key = f.key;
SELECT sluice_private.describe('{held_keys}', $$
*: One row per ordering key whose due messages wait for one that has failed or was snoozed. Its cost grows with the table.
queue: The queue.
ordering_key: The key; null: the queue is ordered as a whole.
message_id: The message that they wait for.
attempt: How many of its attempts have failed.
failed_at: When it failed last; null: it was snoozed.
last_error: The error of its last attempt.
due_at: When it is tried again.
messages: How many messages that are due wait for it.
$$);
