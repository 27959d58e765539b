-- Looks at messages: the next of a queue, and what is known of one.
--
-- Public functions: sluice.peek, sluice.status.

CREATE FUNCTION sluice.peek(queue text, max integer DEFAULT 10) RETURNS SETOF sluice.messages
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH candidate AS (
    SELECT first.due_at, first.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.due_at, m.id FROM sluice.message m
      WHERE m.queue = peek.queue AND m.slot IS NULL AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT (SELECT peek.max)
    ) first
    UNION ALL
    -- No index has these in the order in which they fall due, and to sort them all takes as long as there are many.
    SELECT first.due_at, first.id
    FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.due_at, m.id FROM sluice.message m
      WHERE m.queue = peek.queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT (SELECT CASE WHEN peek.max < 100 THEN 100 ELSE peek.max END)
    ) first
  ), chosen AS (
    SELECT c.due_at, c.id FROM candidate c ORDER BY c.due_at, c.id LIMIT peek.max
  )
  SELECT m.* FROM chosen c CROSS JOIN LATERAL (
    SELECT m.* FROM sluice.messages m WHERE m.queue = peek.queue AND m.id = c.id OFFSET 0
  ) m ORDER BY c.due_at, c.id
$$;
COMMENT ON FUNCTION sluice.peek IS
  'Returns the next messages of a queue in the order of their due times, without claiming them.';

-- What is known of one message, by its id or by its dedupe key: one row always. All of it is as of one snapshot. The history
-- has a message by its id in each of its partitions.
CREATE FUNCTION sluice.status(
  queue text, id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL, OUT message_id bigint, OUT state text,
  OUT requeued_id bigint,
  OUT attempt integer, OUT due_at timestamptz, OUT taken_until timestamptz, OUT locked_by integer
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  pointer sluice.dedupe;
  now_at timestamptz := sluice_private.clock();
  done sluice.kept_key;
BEGIN
  IF (id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'id, dedupe_key: expected one of the two, received %', CASE WHEN id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.status(''emails'', id => 42).';
  END IF;
  IF dedupe_key IS NOT NULL THEN
    SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
    SELECT s.* INTO done FROM sluice.kept_key s WHERE s.queue = queue AND s.key = dedupe_key AND s.until > now_at
    ORDER BY s.until DESC LIMIT 1;
    taken_until := greatest(done.until, CASE WHEN pointer.until > now_at THEN pointer.until END);
    SELECT m.id, m.state, m.attempt, m.due_at, m.locked_by INTO message_id, state, attempt, due_at, locked_by
    FROM sluice.messages m WHERE m.queue = queue AND m.id = pointer.running_id;
    IF FOUND THEN
      SELECT m.id INTO requeued_id FROM sluice.message m
      WHERE m.queue = queue AND m.id = pointer.message_id AND coalesce(m.expires_at > now_at, true);
      RETURN;
    END IF;
    id := pointer.message_id;
  END IF;
  SELECT m.id, m.state, m.attempt, m.due_at, m.locked_by INTO message_id, state, attempt, due_at, locked_by
  FROM sluice.messages m WHERE m.queue = queue AND m.id = id;
  IF FOUND THEN
    RETURN;
  END IF;
  IF done.message_id IS NOT NULL THEN
    message_id := done.message_id;
    state := 'completed';
    RETURN;
  END IF;
  -- The one that was to run after the other may have gone first.
  FOREACH id IN ARRAY array_remove(ARRAY[id, pointer.running_id], NULL) LOOP
    SELECT c.id, 'completed', c.attempt - 1 INTO message_id, state, attempt FROM sluice.completed c
    WHERE c.queue = queue AND c.id = id;
    IF FOUND THEN
      RETURN;
    END IF;
    SELECT d.id, 'dead', d.attempt INTO message_id, state, attempt FROM sluice.dead_letters d
    WHERE d.queue = queue AND d.id = id;
    IF FOUND THEN
      RETURN;
    END IF;
  END LOOP;
  message_id := nullif(coalesce(pointer.message_id, id), 0);
  state := 'unknown';
END
$$;
COMMENT ON FUNCTION sluice.status IS
  'Returns one row about a message, by its id or its dedupe key. state: scheduled, ready, in_flight, retrying, dead, '
  'completed or unknown. requeued_id: the message that follows it. taken_until: when its key becomes free. locked_by: '
  'the server process that has locked the message.';
