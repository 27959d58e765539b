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

-- The same for the messages of a batch: [[source, id], ...]. Returns the places in it, from 0, of those that are new: of
-- several copies the first. All batches write their receipts in one order, so that two of them do not wait for each other in
-- a circle.
CREATE FUNCTION sluice_private.receive(queue text, given jsonb, retention_ms double precision) RETURNS SETOF integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_variable
DECLARE
  sources text[];
  message_ids text[];
  places integer[];
  fresh integer[];
  known integer;
BEGIN
  SELECT array_agg(g.source), array_agg(g.message_id), array_agg(g.place) INTO sources, message_ids, places
  FROM (
    SELECT k.key ->> 0 AS source, k.key ->> 1 AS message_id, min(k.ordinal)::integer - 1 AS place
    FROM jsonb_array_elements(given) WITH ORDINALITY AS k (key, ordinal)
    GROUP BY 1, 2
  ) g;
  WITH added AS (
    INSERT INTO sluice.receipt (queue, source, message_id, until)
    SELECT queue, g.source, g.message_id, clock_timestamp() + retention_ms * interval '1 millisecond'
    FROM unnest(sources, message_ids) AS g (source, message_id)
    ORDER BY g.source COLLATE "C", g.message_id COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING receipt.source, receipt.message_id
  )
  SELECT array_agg(g.place) INTO fresh
  FROM unnest(sources, message_ids, places) AS g (source, message_id, place)
  JOIN added a ON a.source = g.source AND a.message_id = g.message_id;
  IF coalesce(cardinality(fresh), 0) < cardinality(places) THEN
    -- A copy has its receipt. A message whose row a trigger has taken has none, and would be lost.
    SELECT count(*) INTO known FROM unnest(sources, message_ids) AS g (source, message_id)
    JOIN sluice.receipt r ON r.queue = queue AND r.source = g.source AND r.message_id = g.message_id;
    PERFORM sluice_private.require_kept('receipt', queue, cardinality(places), known);
  END IF;
  RETURN QUERY SELECT f.place FROM unnest(fresh) AS f (place) ORDER BY f.place;
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
