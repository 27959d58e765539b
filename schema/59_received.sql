-- Receives messages from outside of the database, each once.
--
-- The functions run with the rights of the schema's owner, so that a producer can write a receipt and read none.
--
-- Public functions: sluice.received, sluice.prune_receipts.

CREATE FUNCTION sluice.received(queue text, source text, message_id text, retention interval DEFAULT '7 days')
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
  tries integer := 0;
BEGIN
  IF queue IS NULL OR source IS NULL OR message_id IS NULL OR retention IS NULL THEN
    RAISE EXCEPTION 'queue, source, message_id, retention: expected a value, received NULL'
      USING ERRCODE = '22004', HINT = 'As in sluice.received(''stripe-in'', ''stripe'', ''evt_17'').';
  END IF;
  PERFORM sluice_private.check_time('retention', retention, 'Leave it out for 7 days.', '1 second');
  LOOP
    INSERT INTO sluice.receipt (queue, source, message_id, until)
    VALUES (queue, source, message_id, clock_timestamp() + sluice_private.in_seconds(retention)) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN true;
    END IF;
    PERFORM FROM sluice.receipt r WHERE r.queue = queue AND r.source = source AND r.message_id = message_id;
    IF FOUND THEN
      RETURN false;
    END IF;
    -- It was too old, and has been deleted in between; or a trigger has taken the row.
    tries := tries + 1;
    PERFORM sluice_private.check_taken('receipt', queue, tries);
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.received IS
  'Writes a receipt of a message from outside of the database, and returns whether it is the first: true for a new '
  'message, false for a copy. Call it in the transaction in which the message takes effect.';

-- The same for the messages of a batch, whose sources and ids are in arrays of JSON; if there is only one source, it is that of
-- all. Returns for each message whether it is new: of several copies the first is. All batches write their receipts in one
-- order, so that two of them do not wait for each other in a circle.
--
-- Most batches have no copy in them: a plain INSERT takes them. ON CONFLICT looks each key up before it is written, and
-- writes a second record of it to the log. Plans are kept for the session, and may be made while the table is empty: so none may
-- read all of it.
CREATE FUNCTION sluice_private.receive(queue text, sources jsonb, message_ids jsonb, retention_ms double precision)
RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
  -- Checked here, and not for each row.
  name sluice_private.queue_name := queue;
  source_of_all text := CASE WHEN jsonb_array_length(sources) = 1 THEN sources ->> 0 END;
  -- The clock is read once, and not for each row.
  received_at timestamptz := clock_timestamp();
  until timestamptz := received_at + retention_ms * interval '1 millisecond';
  given integer := jsonb_array_length(message_ids);
  taken integer;
  is_new boolean[];
BEGIN
  BEGIN
    INSERT INTO sluice.receipt (queue, source, message_id, received_at, until)
    SELECT name, coalesce(source_of_all, k.source), k.id, received_at, until
    FROM ROWS FROM (jsonb_array_elements_text(sources), jsonb_array_elements_text(message_ids)) AS k (source, id)
    ORDER BY k.id COLLATE "C", k.source COLLATE "C";
    GET DIAGNOSTICS taken = ROW_COUNT;
    PERFORM sluice_private.require_kept('receipt', queue, given, taken);
    RETURN array_fill(true, ARRAY[given]);
  EXCEPTION WHEN unique_violation THEN
    -- A copy is among them. Nothing has been written.
  END;
  WITH k AS MATERIALIZED (
    SELECT coalesce(source_of_all, k.source) AS source, k.id, k.place
    FROM ROWS FROM (jsonb_array_elements_text(sources), jsonb_array_elements_text(message_ids))
      WITH ORDINALITY AS k (source, id, place)
  ), added AS (
    INSERT INTO sluice.receipt (queue, source, message_id, received_at, until)
    SELECT name, k.source, k.id, received_at, until FROM k
    ORDER BY k.id COLLATE "C", k.source COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING receipt.source, receipt.message_id
  ), first AS (
    SELECT min(k.place) AS place FROM k JOIN added a ON a.source = k.source AND a.message_id = k.id
    GROUP BY a.source, a.message_id
  )
  SELECT array_agg(f.place IS NOT NULL ORDER BY k.place) INTO is_new FROM k LEFT JOIN first f ON f.place = k.place;
  -- A copy has its receipt. A message whose row a trigger has taken has none, and would be lost. One subquery for each, by the
  -- index: a join is planned while the table is small, and would read all receipts until the server plans it anew.
  SELECT count((SELECT 1 FROM sluice.receipt r
    WHERE r.queue = name AND r.message_id = k.id AND r.source = coalesce(source_of_all, k.source))) INTO taken
  FROM ROWS FROM (jsonb_array_elements_text(sources), jsonb_array_elements_text(message_ids)) AS k (source, id);
  PERFORM sluice_private.require_kept('receipt', queue, given, taken);
  RETURN is_new;
END
$$;

-- Received messages that can never be enqueued, as dead letters: [{payload, headers, labels}, ...], of which labels are
-- {reason, type, orderingKey, schemaVersion}: a redrive enqueues them with these. Returns their ids, in
-- that order.
CREATE FUNCTION sluice_private.bury_received(queue text, given jsonb) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  ids regclass := pg_get_serial_sequence('sluice.message', 'id');
  buried bigint;
  letter jsonb;
  labels jsonb;
BEGIN
  FOR letter IN SELECT g.value FROM jsonb_array_elements(given) WITH ORDINALITY AS g (value, ordinal) ORDER BY g.ordinal LOOP
    labels := letter -> 'labels';
    INSERT INTO sluice.dead_letter
      (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, reason, enqueued_at)
    VALUES (queue, nextval(ids), 5, labels ->> 'orderingKey', labels ->> 'type', (labels ->> 'schemaVersion')::integer,
            letter -> 'payload', letter -> 'headers', 0, labels ->> 'reason', clock_timestamp())
    RETURNING id INTO buried;
    PERFORM sluice_private.require_kept('dead_letter', queue, 1, CASE WHEN buried IS NULL THEN 0 ELSE 1 END);
    RETURN NEXT buried::text;
  END LOOP;
END
$$;

CREATE FUNCTION sluice.prune_receipts(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  deleted integer;
BEGIN
  PERFORM sluice_private.check_most(most);
  DELETE FROM sluice.receipt r WHERE r.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.receipt o WHERE o.until <= now_at ORDER BY o.until LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
COMMENT ON FUNCTION sluice.prune_receipts IS
  'Deletes receipts of received messages that are older than they are kept. Returns how many.';
