-- Locks messages that are due, for a claim.

-- Which keys of a locked slot are closed: one of their messages is or was leased, and until that one is settled, all others
-- wait, whatever their ids. Each key comes with the id of that message; of several that a batch has put off together, with
-- the first. VOLATILE, so that it has a snapshot of its own: it is called with the slot's row locked, and sees all that was
-- committed before that, where the rest of the claim sees an older snapshot. first_id is the floor of a process, which may
-- be above a redriven message that another process has leased: message_redriven_idx, nearly always empty, tells of it. No
-- search_path of its own, which would cost as much as the query: every name is written in full.
CREATE FUNCTION sluice_private.leased_keys(queue text, slot smallint, first_id bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  lowest bigint;
BEGIN
  lowest := least(leased_keys.first_id, (
    SELECT r.id FROM sluice.message r
    WHERE r.queue OPERATOR(pg_catalog.=) leased_keys.queue AND r.slot IS NOT NULL AND r.redriven IS NOT NULL
      AND r.slot OPERATOR(pg_catalog.>=) leased_keys.slot AND r.slot OPERATOR(pg_catalog.<=) leased_keys.slot
    ORDER BY r.slot, r.id, r.redriven LIMIT 1
  ));
  RETURN (
    SELECT coalesce(pg_catalog.jsonb_object_agg(first.ordering_key, first.id), '{}')
    FROM (
      SELECT l.ordering_key, pg_catalog.min(l.id)::text AS id
      FROM (
        SELECT m.ordering_key, m.id FROM sluice.message m
        WHERE m.queue OPERATOR(pg_catalog.=) leased_keys.queue AND m.slot IS NOT NULL AND m.lease IS NOT NULL
          AND (m.slot, m.id) >= (leased_keys.slot, lowest) AND m.slot OPERATOR(pg_catalog.<=) leased_keys.slot
        ORDER BY m.slot, m.id, m.lease
        OFFSET 0
      ) l
      GROUP BY l.ordering_key
    ) first
  );
END
$$;

-- Locks a message that has closed its key, if it is due again and not locked. Settlements, renewals and the transactions
-- of handlers lock such messages without their slot, some for long after the lease, so a claim that waited for one would
-- stop all of its queue. A claim asks it of each such message that it would take next, so it locks no others. VOLATILE,
-- for a snapshot of its own, and without a search_path, as leased_keys.
CREATE FUNCTION sluice_private.lock_due_again(queue text, id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM sluice.message m
  WHERE m.queue OPERATOR(pg_catalog.=) lock_due_again.queue AND m.id OPERATOR(pg_catalog.=) lock_due_again.id
    AND m.lease IS NOT NULL AND m.due_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
  LIMIT 1
  FOR UPDATE OF m SKIP LOCKED;
  RETURN FOUND;
END
$$;

-- Locks a message that a claim could not lock in the version that it saw. True: it has been moved since the claim's snapshot, and
-- stays locked until the batch ends. False: another session has it. Null: it is gone. VOLATILE, for a snapshot of its own, and
-- without a search_path, as leased_keys.
CREATE FUNCTION sluice_private.lock_missed(queue text, id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM sluice.message m
  WHERE m.queue OPERATOR(pg_catalog.=) lock_missed.queue AND m.id OPERATOR(pg_catalog.=) lock_missed.id
  LIMIT 1
  FOR UPDATE OF m SKIP LOCKED;
  IF FOUND THEN
    RETURN true;
  END IF;
  RETURN (
    SELECT false FROM sluice.message m
    WHERE m.queue OPERATOR(pg_catalog.=) lock_missed.queue AND m.id OPERATOR(pg_catalog.=) lock_missed.id
  );
END
$$;

-- Locks due messages without an ordering key, the lowest priority number first, then by due time. message_due_idx serves
-- it with a descent for each priority and gives the order; the lateral join pulls one row at a time, so no more than the
-- outer LIMIT are locked, and the inner one hides their number from the planner. It has no floor: what is dead and not
-- yet vacuumed at the head of a priority is walked.
CREATE FUNCTION sluice_private.lock_unkeyed(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id
      LIMIT (SELECT most)
      FOR UPDATE OF m SKIP LOCKED
    ) m
    LIMIT most
  );
END
$$;

-- Locks a slot's row, if it is free, and in it the first message that is due and whose key is open: not held (the locked
-- row says so, in its newest version), and not closed by another message that is or was leased (leased_keys has a
-- snapshot that is newer than the lock). A message that has closed its key must be free, and due in its newest version.
-- message_slot_idx has the order; slot = ... would let the planner take the primary key, which has the same. It walks at
-- most so many rows. Behind a message that another session has locked it begins a new walk, without its key, and makes at most
-- so many of these. Null: there is none, or the slot is locked.
CREATE FUNCTION sluice_private.lock_in_slot(queue text, slot smallint, walk integer, further integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  -- An INSERT by hand may say any id.
  lowest bigint := -9223372036854775808;
  held jsonb;
  leased jsonb;
  now_at timestamptz;
  now_us bigint;
  first bigint;
  key text;
  missed text[] := '{}';
BEGIN
  SELECT s.held INTO held FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot FOR NO KEY UPDATE OF s SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  leased := sluice_private.leased_keys(queue, slot, lowest);
  now_at := clock_timestamp();
  now_us := (extract(epoch FROM now_at) * 1000000)::bigint;
  LOOP
    SELECT w.id, w.ordering_key INTO first, key
    FROM (
      SELECT m.id, m.ordering_key, m.due_at, m.enqueued_at, m.lease FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NOT NULL AND (m.slot, m.id) >= (slot, lowest) AND m.slot <= slot
      ORDER BY m.slot, m.id LIMIT walk
    ) w
    -- Without a delay a message is due from its enqueue on, also where the clock was set back since. A lease, and its end,
    -- give it a due time of its own.
    WHERE (w.due_at <= now_at OR w.due_at <= w.enqueued_at AND w.lease IS NULL)
      AND w.ordering_key <> ALL (missed)
      AND coalesce((held -> w.ordering_key ->> 1)::bigint, 0) <= now_us
      -- The CASE, so that it locks only what it may take.
      AND CASE WHEN leased -> w.ordering_key IS NULL THEN true
               WHEN leased ->> w.ordering_key = w.id::text THEN sluice_private.lock_due_again(queue, w.id)
               ELSE false END
    LIMIT 1;
    EXIT WHEN NOT FOUND;
    PERFORM FROM sluice.message m
    WHERE m.queue = queue AND m.id = first
      AND (m.due_at <= now_at OR m.due_at <= m.enqueued_at AND m.lease IS NULL)
    FOR UPDATE OF m SKIP LOCKED;
    IF FOUND THEN
      RETURN first;
    END IF;
    EXIT WHEN cardinality(missed) >= further;
    lowest := first;
    missed := missed || key;
  END LOOP;
  RETURN NULL;
END
$$;

-- Locks one message in each of so many slots. It begins at a slot drawn at random, so that none waits for another, and goes
-- from each to the next by one descent of message_slot_idx. A walk in a slot ends after 1,000 rows that have to wait, unless
-- no slot has anything within that. In the slot with which it begins it does not: otherwise a message behind so many would
-- never be taken while other slots have work. One claim in 256 or so begins with a certain slot, which bounds the cost. For
-- the same reason it passes as many as 1,000 messages there that other sessions have locked, and 4 in each other slot, in the first
-- pass: one takes 0.1 ms, and a session may have locked a whole backlog.
CREATE FUNCTION sluice_private.lock_keyed(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  start integer := floor(random() * 256);
  walk integer;
  at integer;
  begun boolean := false;
  first bigint;
  taken bigint[] := '{}';
BEGIN
  FOREACH walk IN ARRAY ARRAY[1000, 2147483647] LOOP
    FOR pass IN 0..1 LOOP
      at := CASE pass WHEN 0 THEN start ELSE 0 END - 1;
      LOOP
        SELECT m.slot INTO at FROM sluice.message m
        WHERE m.queue = queue AND m.slot IS NOT NULL AND (m.slot, m.id) > (at::smallint, 9223372036854775807)
        ORDER BY m.slot, m.id LIMIT 1;
        EXIT WHEN at IS NULL OR pass = 1 AND at >= start;
        IF NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue AND s.slot = at) THEN
          -- All at once, and each time in the same order: two that insert some at a time could wait for each other.
          INSERT INTO sluice.slot (queue, slot) SELECT queue, s FROM generate_series(0, 255) AS s ON CONFLICT DO NOTHING;
        END IF;
        first := sluice_private.lock_in_slot(queue, at::smallint, CASE WHEN begun THEN walk ELSE 2147483647 END,
          CASE WHEN NOT begun THEN 1000 WHEN walk = 1000 THEN 4 ELSE 0 END);
        begun := true;
        taken := CASE WHEN first IS NULL THEN taken ELSE taken || first END;
        IF cardinality(taken) >= most THEN
          RETURN taken;
        END IF;
      END LOOP;
    END LOOP;
    EXIT WHEN cardinality(taken) > 0;
  END LOOP;
  RETURN taken;
END
$$;

-- Removes those of the messages that have expired, are due and are not locked by others: 1,000 at most.
CREATE FUNCTION sluice_private.expire_found(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  locked bigint[];
BEGIN
  locked := ARRAY(
    SELECT locked.id FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND m.due_at <= now_at AND m.expires_at <= now_at LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) locked LIMIT 1000
  );
  IF locked <> '{}' THEN
    PERFORM sluice_private.expire_locked(queue, locked);
  END IF;
END
$$;

-- Removes expired messages without a key that stand at the heads of the priorities, 1,000 at most, and of each priority
-- among the first 1,000. Without it, a claim of one message that comes upon many of them would lock them one by one.
CREATE FUNCTION sluice_private.expire_due(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  PERFORM sluice_private.expire_found(queue, ARRAY(
    SELECT first.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.expires_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id LIMIT 1000
    ) first
    WHERE first.expires_at <= now_at
  ));
END
$$;

-- The same for messages with a key, among the first 1,000 of each slot. The caller has the slots locked.
CREATE FUNCTION sluice_private.expire_in_slots(queue text, slots smallint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  PERFORM sluice_private.expire_found(queue, ARRAY(
    SELECT first.id
    FROM unnest(slots) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at, m.expires_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 1000
    ) first
    WHERE first.due_at <= now_at AND first.expires_at <= now_at LIMIT 1000
  ));
END
$$;

-- Of messages that a claim has locked, removes those that are not to be handed out: those whose life has ended, and those
-- that have no attempt left, because their last claim ran out or their processes died. Returns the others, in their order.
CREATE FUNCTION sluice_private.sift_locked(queue text, ids bigint[], max_attempts integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  expired bigint[];
  expired_slots smallint[];
  spent bigint[];
  attempts integer[];
  reasons text[];
  errors text[];
BEGIN
  SELECT array_agg(m.id) FILTER (WHERE m.expired), array_agg(m.slot) FILTER (WHERE m.expired AND m.slot IS NOT NULL),
         array_agg(m.id) FILTER (WHERE NOT m.expired), array_agg(m.tries) FILTER (WHERE NOT m.expired),
         array_agg(sluice_private.spent_reason(m.tries, m.most)) FILTER (WHERE NOT m.expired),
         array_agg(m.error) FILTER (WHERE NOT m.expired)
  INTO expired, expired_slots, spent, attempts, reasons, errors
  FROM (
    SELECT m.id, m.slot, m.attempt, coalesce(m.max_attempts, max_attempts) AS most,
           coalesce(m.expires_at <= now_at, false) AS expired,
           sluice_private.failed_tries(m.queue, m.id, m.attempt) + CASE WHEN m.lease < 0 THEN 1 ELSE 0 END AS tries,
           CASE WHEN m.lease < 0 THEN sluice_private.ran_out(m.lease) END AS error
    FROM sluice_private.rows_of(queue, ids) m OFFSET 0 -- a fence: counted once
  ) m
  WHERE m.expired OR m.tries > m.attempt AND m.tries >= m.most;
  IF expired IS NOT NULL THEN
    PERFORM sluice_private.expire_locked(queue, expired);
    PERFORM sluice_private.expire_in_slots(queue, expired_slots);
  END IF;
  IF spent IS NOT NULL THEN
    PERFORM sluice_private.dead_letter_locked(queue, spent, attempts, reasons, errors);
  END IF;
  IF expired IS NULL AND spent IS NULL THEN
    RETURN ids;
  END IF;
  RETURN ARRAY(
    SELECT given.id FROM unnest(ids) WITH ORDINALITY AS given (id, ordinal)
    WHERE given.id <> ALL (coalesce(expired, '{}') || coalesce(spent, '{}')) ORDER BY given.ordinal
  );
END
$$;
