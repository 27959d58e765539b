-- What is first in a queue: the first messages of each priority and of each slot, and of those that have failed.

-- Messages that have failed and wait for their next attempt: of the first 1,001 to fall due, by message_retrying_idx, those
-- that have not expired, in their order. more: there may be others behind them. expired: how many with an ordering key have
-- expired; count_unkeyed has those without one.
CREATE FUNCTION sluice_private.look_at_retries(queue text, OUT ids bigint[], OUT more boolean, OUT expired bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  SELECT coalesce(array_agg(f.id ORDER BY f.due_at, f.id) FILTER (WHERE NOT f.is_over), '{}'), count(*) > 1000,
         count(*) FILTER (WHERE f.is_over AND f.slot IS NOT NULL)
  INTO ids, more, expired FROM (
    SELECT m.id, m.due_at, m.slot, coalesce(m.expires_at <= now_at, false) AS is_over FROM sluice.message m
    WHERE m.queue = queue AND m.due_at > now_at AND m.attempt > 0 AND coalesce(m.lease, 0) = 0
    ORDER BY m.due_at LIMIT 1001
  ) f;
END
$$;

-- The first messages without a key, up to 20 of each priority, by message_due_idx.
CREATE FUNCTION sluice_private.next_unkeyed(queue text, locks jsonb)
RETURNS TABLE (
  id bigint, due_at timestamptz, expired boolean, leased boolean, failed boolean, tenant text, holder integer
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT m.id, m.due_at::timestamptz, coalesce(m.expires_at <= clock_timestamp(), false), coalesce(m.lease <> 0, false),
         m.attempt > 0, m.tenant::text, CASE WHEN m.xmax <> '0'::xid THEN sluice_private.locker(m.xmax, locks) END
  FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT m.id, m.due_at, m.expires_at, m.lease, m.attempt, m.tenant, m.xmax FROM sluice.message m
    WHERE m.queue = next_unkeyed.queue AND m.slot IS NULL AND m.priority = p.priority
    ORDER BY m.due_at, m.id LIMIT 20
  ) m
$$;

-- What is first in a slot, as far as its first 20 messages tell. due: those that could be claimed now. next_at: when the
-- first falls due that has not failed. locked: those that a session has locked which has not locked the slot. held: those
-- that wait for another message of their key, first_id, the key of which is held until then. What is behind a locked message
-- of its key is neither.
CREATE TYPE sluice_private.slot_head AS (
  slot smallint, holder integer, due bigint, due_at timestamptz, next_at timestamptz,
  locked bigint, locked_id bigint, locked_by integer, held bigint, key text, first_id bigint, held_until timestamptz
);

-- From one slot to the next by one descent of message_slot_idx, and the closed keys of each by message_lease_idx.
CREATE FUNCTION sluice_private.look_at_slots(queue text, locks jsonb) RETURNS SETOF sluice_private.slot_head
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
  SELECT f.slot, l.holder, w.due, w.due_at, w.next_at, w.locked, w.locked_id, w.locked_by, w.held, w.key, w.first_id,
         timestamptz 'epoch' + (l.held -> w.key ->> 1)::bigint * interval '1 microsecond'
  FROM found f
  LEFT JOIN LATERAL (
    SELECT s.held, sluice_private.locker(s.xmax, locks) AS holder FROM sluice.slot s
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
    SELECT count(*) FILTER (WHERE d.state = 'due') AS due, min(d.due_at) FILTER (WHERE d.state = 'due') AS due_at,
           min(d.due_at) FILTER (WHERE d.due_at > d.now AND coalesce(d.lease, 0) = 0 AND d.attempt = 0) AS next_at,
           count(*) FILTER (WHERE d.state = 'locked') AS locked,
           min(d.id) FILTER (WHERE d.state = 'locked') AS locked_id,
           (array_agg(d.locked_by ORDER BY d.id) FILTER (WHERE d.state = 'locked'))[1] AS locked_by,
           count(*) FILTER (WHERE d.state = 'held') AS held,
           (array_agg(d.ordering_key ORDER BY d.first_id, d.id) FILTER (WHERE d.state = 'held'))[1] AS key,
           min(d.first_id) FILTER (WHERE d.state = 'held') AS first_id
    FROM (
      SELECT m.*, c.now, h.first_id, CASE WHEN m.due_at > c.now THEN 'later' WHEN m.locked_by IS NOT NULL THEN 'locked'
        WHEN h.first_id IS NOT NULL THEN 'held'
        WHEN bool_or(m.locked_by IS NOT NULL) OVER (PARTITION BY m.ordering_key ORDER BY m.id) THEN 'behind'
        ELSE 'due' END AS state
      FROM (SELECT clock_timestamp() AS now) c CROSS JOIN (
        SELECT m.id, m.ordering_key, m.due_at::timestamptz AS due_at, m.lease, m.attempt,
               CASE WHEN m.xmax <> '0'::xid THEN nullif(sluice_private.locker(m.xmax, locks), l.holder) END AS locked_by
        FROM sluice.message m
        WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND m.slot >= f.slot AND m.slot <= f.slot
        ORDER BY m.slot, m.id LIMIT 20
      ) m
      CROSS JOIN LATERAL (
        SELECT nullif(CASE WHEN (l.held -> m.ordering_key ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
          THEN (l.held -> m.ordering_key ->> 0)::bigint ELSE (closed.keys ->> m.ordering_key)::bigint END, m.id)
          AS first_id
      ) h
    ) d
  ) w
$$;

-- The same in numbers. free: those that a claim could take now. limited: those of the tenants, which are at a limit; a
-- message with a tenant has no key. next_at: when the first falls due that has not failed. expired: of those that no session
-- has locked. locked: those that no live worker has recorded, as far as the first 1,000 messages of the records go.
CREATE FUNCTION sluice_private.count_unkeyed(queue text, tenants text[], locks jsonb, OUT free bigint,
  OUT due_at timestamptz, OUT limited bigint, OUT limited_at timestamptz, OUT next_at timestamptz, OUT expired bigint,
  OUT locked bigint, OUT locked_id bigint, OUT pid integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FILTER (WHERE n.is_free AND NOT n.is_limited),
         min(n.due_at) FILTER (WHERE n.is_free AND NOT n.is_limited),
         count(*) FILTER (WHERE n.is_free AND n.is_limited), min(n.due_at) FILTER (WHERE n.is_free AND n.is_limited),
         min(n.due_at) FILTER (WHERE n.due_at > clock_timestamp() AND NOT n.leased AND NOT n.failed),
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
           coalesce(n.tenant = ANY (tenants), false) AS is_limited,
           n.holder IS NOT NULL AND n.id <> ALL (recorded.ids) AS is_locked
    FROM sluice_private.next_unkeyed(queue, locks) n
  ) n
$$;

-- The slots in numbers. busy: the sessions that have locked slots. whole: a pipeline that keeps the order of the whole
-- queue has locked slot 256, or holds it for a message that has failed, first_id, so that no message without a key is free.
CREATE FUNCTION sluice_private.count_slots(
  queue text, heads sluice_private.slot_head[], locks jsonb, OUT free bigint, OUT due_at timestamptz,
  OUT next_at timestamptz, OUT busy integer[], OUT locked bigint, OUT locked_id bigint, OUT locked_by integer,
  OUT whole boolean, OUT first_id bigint, OUT held_until timestamptz
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  holder integer;
BEGIN
  SELECT coalesce(sum(h.due) FILTER (WHERE h.holder IS NULL), 0)::bigint,
         min(h.due_at) FILTER (WHERE h.holder IS NULL), min(h.next_at),
         coalesce(array_agg(h.holder) FILTER (WHERE h.holder IS NOT NULL), '{}'), coalesce(sum(h.locked), 0)::bigint,
         min(h.locked_id), (array_agg(h.locked_by ORDER BY h.locked_id) FILTER (WHERE h.locked > 0))[1]
  INTO free, due_at, next_at, busy, locked, locked_id, locked_by FROM unnest(heads) AS h;
  SELECT (o.held -> '' ->> 0)::bigint, timestamptz 'epoch' + (o.held -> '' ->> 1)::bigint * interval '1 microsecond',
         sluice_private.locker(o.xmax, locks)
  INTO first_id, held_until, holder FROM sluice.slot o WHERE o.queue = queue AND o.slot = 256;
  IF held_until <= clock_timestamp() THEN
    first_id := NULL;
  END IF;
  busy := CASE WHEN holder IS NULL THEN busy ELSE busy || holder END;
  whole := holder IS NOT NULL OR first_id IS NOT NULL;
END
$$;

-- How many due messages wait with a key that is held, of the first 1,001 of its slot.
CREATE FUNCTION sluice_private.count_waiting(queue text, head sluice_private.slot_head, OUT count bigint, OUT more boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FILTER (WHERE m.ordering_key = head.key AND m.id <> head.first_id AND m.due_at <= clock_timestamp()),
         count(*) > 1000
  FROM (
    SELECT m.id, m.ordering_key, m.due_at FROM sluice.message m
    WHERE m.queue = count_waiting.queue AND m.slot IS NOT NULL AND m.slot >= head.slot AND m.slot <= head.slot
    ORDER BY m.slot, m.id LIMIT 1001
  ) m
$$;
