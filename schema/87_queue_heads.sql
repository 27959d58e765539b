-- What is first in a queue: the first messages of each priority and of each slot, and what is in flight of it.

-- The first messages without a key, up to 20 of each priority, by message_due_idx.
CREATE FUNCTION sluice_private.next_unkeyed(queue text, locks jsonb)
RETURNS TABLE (id bigint, due_at timestamptz, expired boolean, leased boolean, holder integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT m.id, m.due_at::timestamptz, coalesce(m.expires_at <= clock_timestamp(), false), coalesce(m.lease <> 0, false),
         (locks ->> m.xmax::text)::integer
  FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT m.id, m.due_at, m.expires_at, m.lease, m.xmax FROM sluice.message m
    WHERE m.queue = next_unkeyed.queue AND m.slot IS NULL AND m.priority = p.priority
    ORDER BY m.due_at, m.id LIMIT 20
  ) m
$$;

-- Each slot with messages, with what is first in it, as far as its first 20 messages tell: from one slot to the next by
-- one descent of message_slot_idx, and the closed keys of each by message_lease_idx. due: one could be claimed now.
-- held: all that are due wait for another message of their keys; first_id is such a message.
CREATE FUNCTION sluice_private.look_at_slots(queue text, locks jsonb) RETURNS TABLE (
  slot smallint, holder integer, due bigint, held bigint, due_at timestamptz, next_at timestamptz, first_id bigint
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE found (slot) AS (
    (SELECT m.slot FROM sluice.message m WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL
     ORDER BY m.slot, m.id LIMIT 1)
    UNION ALL
    SELECT n.slot FROM found f CROSS JOIN LATERAL (
      SELECT m.slot FROM sluice.message m
      WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND (m.slot, m.id) > (f.slot, 9223372036854775807)
      ORDER BY m.slot, m.id LIMIT 1
    ) n
  )
  SELECT f.slot, l.holder, w.due, w.held, w.due_at, w.next_at, w.first_id
  FROM found f
  LEFT JOIN LATERAL (
    SELECT s.held, (locks ->> s.xmax::text)::integer AS holder FROM sluice.slot s
    WHERE s.queue = look_at_slots.queue AND s.slot = f.slot
  ) l ON true
  CROSS JOIN LATERAL (
    SELECT jsonb_object_agg(c.ordering_key, c.id) AS keys FROM (
      SELECT m.ordering_key, min(m.id) AS id FROM (
        SELECT m.ordering_key, m.id FROM sluice.message m
        WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND m.lease IS NOT NULL AND m.slot >= f.slot
          AND m.slot <= f.slot
        ORDER BY m.slot, m.id, m.lease LIMIT 20
      ) m GROUP BY m.ordering_key
    ) c
  ) closed
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE m.due_at <= c.now AND h.by_id IS NULL) AS due,
           count(*) FILTER (WHERE m.due_at <= c.now AND h.by_id IS NOT NULL) AS held,
           min(m.due_at) FILTER (WHERE m.due_at <= c.now AND h.by_id IS NULL) AS due_at,
           min(m.due_at) FILTER (WHERE m.due_at > c.now AND coalesce(m.lease, 0) = 0) AS next_at,
           min(h.by_id) FILTER (WHERE m.due_at <= c.now) AS first_id
    FROM (SELECT clock_timestamp() AS now) c CROSS JOIN (
      SELECT m.id, m.ordering_key, m.due_at::timestamptz AS due_at, m.lease FROM sluice.message m
      WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND m.slot >= f.slot AND m.slot <= f.slot
      ORDER BY m.slot, m.id LIMIT 20
    ) m
    CROSS JOIN LATERAL (
      SELECT nullif(CASE WHEN (l.held -> m.ordering_key ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
        THEN (l.held -> m.ordering_key ->> 0)::bigint ELSE (closed.keys ->> m.ordering_key)::bigint END, m.id) AS by_id
    ) h
  ) w
$$;

-- What workers and claims have in flight of the queue, among the first 1,000 messages of the records of each: a message
-- of a batch is if its row is locked, because a record may be of a batch that has just ended. An event that a group
-- reads for the first time has no row.
CREATE FUNCTION sluice_private.in_flight_of(queue text, locks jsonb)
RETURNS TABLE (holder text, claimed_at timestamptz, count bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'worker ' || sluice_private.quoted(g.name), g.claimed_at, count(*)
  FROM (
    SELECT w.name, b.worker_id, b.id AS batch_id, b.leased, b.claimed_at, given.id
    FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
    CROSS JOIN LATERAL unnest(b.message_ids) AS given (id)
    WHERE b.queue = in_flight_of.queue LIMIT 1000
  ) g
  WHERE g.id < 0 OR (
    SELECT CASE WHEN g.leased THEN m.lease = g.worker_id::bigint << 32 | g.batch_id ELSE locks ? m.xmax::text END
    FROM sluice.message m WHERE m.queue = in_flight_of.queue AND m.id = g.id LIMIT 1
  )
  GROUP BY g.worker_id, g.batch_id, g.name, g.claimed_at
  UNION ALL
  SELECT 'claim ' || g.claim_id, g.claimed_at, count(*)
  FROM (
    SELECT c.id AS claim_id, c.claimed_at, given.id FROM (
      SELECT o.id, o.claimed_at, o.message_ids FROM sluice.claim o
      WHERE o.queue = in_flight_of.queue AND o.expires_at > clock_timestamp() ORDER BY o.expires_at LIMIT 1000
    ) c CROSS JOIN LATERAL unnest(c.message_ids) AS given (id) LIMIT 1000
  ) g
  WHERE (SELECT m.lease FROM sluice.message m WHERE m.queue = in_flight_of.queue AND m.id = g.id LIMIT 1) = -g.claim_id
  GROUP BY g.claim_id, g.claimed_at
$$;

-- The same in numbers. free: those that a claim could take now. expired: of those that no session has locked. locked:
-- those that no live worker has recorded, as far as the first 1,000 messages of the records go.
CREATE FUNCTION sluice_private.count_unkeyed(queue text, locks jsonb, OUT free bigint, OUT due_at timestamptz,
  OUT next_at timestamptz, OUT expired bigint, OUT locked bigint, OUT locked_id bigint, OUT pid integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FILTER (WHERE n.is_free), min(n.due_at) FILTER (WHERE n.is_free),
         min(n.due_at) FILTER (WHERE n.due_at > clock_timestamp() AND NOT n.leased),
         count(*) FILTER (WHERE n.expired AND n.holder IS NULL), count(*) FILTER (WHERE n.is_locked),
         min(n.id) FILTER (WHERE n.is_locked), (array_agg(n.holder ORDER BY n.id) FILTER (WHERE n.is_locked))[1]
  FROM (
    SELECT ARRAY(
      SELECT given.id FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
      CROSS JOIN LATERAL unnest(b.message_ids) AS given (id)
      WHERE b.queue = count_unkeyed.queue AND NOT b.leased LIMIT 1000
    ) AS ids
  ) recorded CROSS JOIN LATERAL (
    SELECT n.*, n.due_at <= clock_timestamp() AND n.holder IS NULL AND NOT n.expired AS is_free,
           n.holder IS NOT NULL AND n.id <> ALL (recorded.ids) AS is_locked
    FROM sluice_private.next_unkeyed(queue, locks) n
  ) n
$$;

-- The slots in numbers. whole: a pipeline that keeps the order of the whole queue has locked slot 256, or holds it for
-- a message that has failed, so that no message without a key is free.
CREATE FUNCTION sluice_private.count_slots(queue text, locks jsonb, OUT free bigint, OUT due_at timestamptz,
  OUT next_at timestamptz, OUT busy bigint, OUT pid integer, OUT held bigint, OUT first_id bigint, OUT whole boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(sum(s.due) FILTER (WHERE s.holder IS NULL), 0)::bigint, min(s.due_at) FILTER (WHERE s.holder IS NULL),
         min(s.next_at), count(s.holder), (array_agg(s.holder) FILTER (WHERE s.holder IS NOT NULL))[1],
         count(*) FILTER (WHERE s.held > 0), min(s.first_id) FILTER (WHERE s.held > 0),
         coalesce(bool_or(s.slot = 256 AND (s.holder IS NOT NULL OR s.held > 0)), false)
  FROM (
    SELECT s.slot, s.holder, s.due, s.held, s.due_at, s.next_at, s.first_id
    FROM sluice_private.look_at_slots(queue, locks) s
    UNION ALL
    SELECT o.slot, (locks ->> o.xmax::text)::integer, 0, CASE WHEN h.until_us > n.us THEN 1 ELSE 0 END, NULL, NULL,
           h.first_id
    FROM sluice.slot o
    CROSS JOIN LATERAL (
      SELECT (o.held -> '' ->> 0)::bigint AS first_id, (o.held -> '' ->> 1)::bigint AS until_us
    ) h
    CROSS JOIN (SELECT extract(epoch FROM clock_timestamp()) * 1000000 AS us) n
    WHERE o.queue = count_slots.queue AND o.slot = 256
  ) s
$$;
