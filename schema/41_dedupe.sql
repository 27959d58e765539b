-- Dedupe keys: while a message with a key is there, and for a time after it has succeeded, an enqueue with the same key
-- does not simply add another.
--
-- Public functions: sluice.enqueue_deduped.

-- Gives a locked message, which is not in flight, new content, and with `moves` a later due time. The time of a retry, or
-- of a message that holds its key, stays as it is: a later message of the key would be handled first.
CREATE FUNCTION sluice_private.change_waiting(
  queue text, message_id bigint, payload jsonb, headers jsonb, type text, schema_version integer, due_at timestamptz,
  delay_ms double precision, ttl_ms double precision, keep_ms bigint, moves boolean
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings record;
  changed record;
  later timestamptz;
  state text;
BEGIN
  settings := sluice_private.queue_defaults(queue);
  IF settings.payload_limit_bytes IS NOT NULL THEN
    PERFORM sluice_private.check_payload_bytes(payload, settings.payload_limit_bytes);
  END IF;
  PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);
  IF moves AND NOT EXISTS (
    SELECT FROM sluice.message m JOIN sluice.slot s ON s.queue = m.queue AND s.slot = m.slot
    WHERE m.queue = queue AND m.id = message_id AND (s.held -> m.ordering_key ->> 0)::bigint = m.id
  ) THEN
    later := sluice_private.first_due_at(due_at, delay_ms, settings.delay_ms);
  END IF;
  UPDATE sluice.message m
  SET payload = payload, headers = headers, type = type, schema_version = schema_version,
      dedupe_ms = coalesce(keep_ms, m.dedupe_ms),
      due_at = greatest(m.due_at, later),
      -- Its life moves with its due time, and is another one if that is given.
      expires_at = CASE WHEN later IS NULL THEN m.expires_at
                        WHEN ttl_ms IS NULL THEN m.expires_at + (greatest(m.due_at, later) - m.due_at)
                        ELSE greatest(m.due_at, later) + ttl_ms * interval '1 millisecond' END
  WHERE m.queue = queue AND m.id = message_id
  RETURNING m.attempt, m.due_at INTO changed;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  state := sluice_private.duplicate_state(false, changed.attempt, changed.due_at, clock_timestamp());
  IF later IS NULL OR changed.due_at < clock_timestamp() + interval '1200 ms' THEN
    -- A claim before the COMMIT passes over the locked row, which may fall due by then. One that is put off is due after
    -- it.
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN concat_ws(' ', message_id, CASE WHEN later IS NULL THEN 'updated' ELSE 'debounced' END, state);
END
$$;

-- Lets a dedupe key stand for a message. False: there was no pointer, and another producer, which has ended by now, has made
-- one.
CREATE FUNCTION sluice_private.point_at(queue text, dedupe_key text, message_id bigint, is_known boolean,
  running_id bigint, until timestamptz)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF is_known THEN
    UPDATE sluice.dedupe d SET message_id = message_id, running_id = running_id, until = until
    WHERE d.queue = queue AND d.key = dedupe_key;
    RETURN true;
  END IF;
  INSERT INTO sluice.dedupe (queue, key, message_id, until)
  VALUES (queue, dedupe_key, message_id, until) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

-- Enqueues one message with a dedupe key; the answer is its id, the outcome and the state, with spaces between them. Null:
-- the table did not take it. A producer never waits for a message's row, which a handler may hold: it skips what is locked.
-- reject and throttle need no lock at all where the key is taken.
CREATE FUNCTION sluice_private.insert_deduped(
  queue          text,
  payload        jsonb,
  headers        jsonb,
  type           text,
  schema_version integer,
  ordering_key   text,
  priority       smallint,
  due_at         timestamptz,
  delay_ms       double precision,
  max_attempts   integer,
  ttl_ms         double precision,
  retry_policy   text,
  lease_ms       integer,
  tenant         text,
  dedupe_key     text,
  for_ms         double precision,
  on_duplicate   text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  keep_ms bigint := CASE WHEN on_duplicate <> 'throttle' THEN ceil(for_ms) END;
  own_order text := CASE WHEN on_duplicate IN ('requeue', 'debounce') THEN coalesce(ordering_key, dedupe_key)
    ELSE ordering_key END;
  seen record;
  new_id bigint;
  new_due_at timestamptz;
  tries integer := 0;
BEGIN
  IF on_duplicate IN ('reject', 'throttle') THEN
    seen := sluice_private.find_duplicate(queue, dedupe_key, on_duplicate, false);
    IF seen.answer IS NOT NULL THEN
      RETURN seen.answer;
    END IF;
  END IF;
  LOOP
    seen := sluice_private.find_duplicate(queue, dedupe_key, on_duplicate, true);
    IF seen.answer IS NOT NULL THEN
      RETURN seen.answer;
    ELSIF seen.waiting_id IS NOT NULL THEN
      RETURN sluice_private.change_waiting(queue, seen.waiting_id, payload, headers, type, schema_version,
        due_at, delay_ms, ttl_ms, keep_ms, on_duplicate = 'debounce' AND seen.fresh);
    END IF;
    new_id := sluice_private.insert_message(
      queue, payload, headers, type, schema_version, coalesce(seen.running_key, own_order), priority, due_at, delay_ms,
      max_attempts, ttl_ms, retry_policy, lease_ms, tenant, dedupe_key, keep_ms
    );
    IF new_id IS NULL THEN
      RETURN NULL;
    END IF;
    EXIT WHEN sluice_private.point_at(queue, dedupe_key, new_id, seen.is_known, seen.running_id,
      CASE WHEN on_duplicate = 'throttle' THEN clock_timestamp() + for_ms * interval '1 millisecond' END);
    DELETE FROM sluice.message m WHERE m.queue = queue AND m.id = new_id;
    tries := tries + 1;
    PERFORM sluice_private.check_taken('dedupe', queue, tries);
  END LOOP;
  SELECT m.due_at INTO new_due_at FROM sluice.message m WHERE m.queue = queue AND m.id = new_id;
  RETURN concat_ws(' ', new_id, seen.outcome, sluice_private.duplicate_state(false, 0, new_due_at, clock_timestamp()));
END
$$;

-- Enqueues messages with dedupe keys, and answers in their order. It locks all keys in one order before it enqueues the
-- first message, so two of these do not wait for each other in a circle. A key that is new gets a pointer to no message.
-- A key that is taken, and comes with reject and throttle alone, is not locked: what this look has found is the answer,
-- and is not asked for again, because a lock that it might take then would be out of order.
CREATE FUNCTION sluice_private.insert_all_deduped(queue text, payloads jsonb, options jsonb) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  wanted text;
  policy text;
  seen record;
  taken_keys text[] := '{}';
  duplicates text[] := '{}';
  tries integer := 0;
BEGIN
  FOR wanted, policy IN
    SELECT (o.value ->> 'dedupeKey') COLLATE "C" AS key,
           CASE WHEN bool_and(o.value ->> 'onDuplicate' IN ('reject', 'throttle')) THEN min(o.value ->> 'onDuplicate') END
    FROM jsonb_array_elements(options) AS o GROUP BY key ORDER BY key
  LOOP
    IF policy IS NOT NULL THEN
      seen := sluice_private.find_duplicate(queue, wanted, policy, false);
      IF seen.answer IS NOT NULL THEN
        taken_keys := taken_keys || wanted;
        duplicates := duplicates || seen.answer;
        CONTINUE;
      END IF;
    END IF;
    LOOP
      PERFORM FROM sluice.dedupe d WHERE d.queue = queue AND d.key = wanted FOR UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO sluice.dedupe (queue, key, message_id) VALUES (queue, wanted, 0) ON CONFLICT DO NOTHING;
      EXIT WHEN FOUND;
      tries := tries + 1;
      PERFORM sluice_private.check_taken('dedupe', queue, tries);
    END LOOP;
  END LOOP;
  RETURN QUERY
  SELECT coalesce(r.duplicate, sluice_private.insert_deduped(
    queue, r.payload, coalesce(r.headers, '{}'), r.type, coalesce(r."schemaVersion", 1), r."orderingKey",
    coalesce(r.priority, 5::smallint), r."dueAt", r."delayMs", r."maxAttempts", r."ttlMs", r."retryPolicy", r."leaseMs",
    r.tenant, r."dedupeKey", r."forMs", r."onDuplicate"
  ))
  FROM (
    SELECT r.*, d.duplicate FROM ROWS FROM (
      jsonb_array_elements(payloads),
      jsonb_to_recordset(options) AS (
        headers jsonb, type text, "schemaVersion" integer, "orderingKey" text, priority smallint, "delayMs" double precision,
        "dueAt" timestamptz, "maxAttempts" integer, "ttlMs" double precision, "retryPolicy" text, "leaseMs" integer,
        tenant text, "dedupeKey" text, "forMs" double precision, "onDuplicate" text
      )
    ) WITH ORDINALITY AS r (
      payload, headers, type, "schemaVersion", "orderingKey", priority, "delayMs", "dueAt", "maxAttempts", "ttlMs",
      "retryPolicy", "leaseMs", tenant, "dedupeKey", "forMs", "onDuplicate", ordinal
    ) LEFT JOIN unnest(taken_keys, duplicates) AS d (key, duplicate) ON d.key = r."dedupeKey"
    ORDER BY r.ordinal
  ) r;
END
$$;

CREATE FUNCTION sluice_private.check_dedupe(key text, kept interval, on_duplicate text, has_time boolean, has_tenant boolean)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'dedupe_key: expected 1 to 255 bytes of text, received %', quote_nullable(left(key, 80))
      USING ERRCODE = '22023', HINT = 'Without a key there is sluice.enqueue.';
  END IF;
  IF on_duplicate IS NULL OR on_duplicate NOT IN ('reject', 'update', 'requeue', 'debounce', 'throttle') THEN
    RAISE EXCEPTION 'on_duplicate: expected reject, update, requeue, debounce or throttle, received %',
      quote_nullable(left(on_duplicate, 80)) USING ERRCODE = '22023', HINT = 'Leave it out for reject.';
  END IF;
  PERFORM sluice_private.check_time('dedupe_for', kept,
    'Leave it out for a key that is free with its message.', '1 millisecond');
  IF on_duplicate = 'throttle' AND kept IS NULL THEN
    RAISE EXCEPTION 'dedupe_for: throttle needs it'
      USING ERRCODE = '22023', HINT = 'As in on_duplicate => ''throttle'', dedupe_for => interval ''10 minutes''.';
  END IF;
  IF on_duplicate = 'debounce' AND NOT has_time THEN
    RAISE EXCEPTION 'delay: debounce needs it'
      USING ERRCODE = '22023', HINT = 'As in on_duplicate => ''debounce'', delay => interval ''5 seconds''.';
  END IF;
  IF has_tenant AND on_duplicate IN ('requeue', 'debounce') THEN
    RAISE EXCEPTION 'tenant: % excludes it', on_duplicate
      USING ERRCODE = '22023',
        HINT = 'Such a message gets an ordering key. With a tenant there are reject, update and throttle.';
  END IF;
END
$$;

CREATE FUNCTION sluice.enqueue_deduped(
  queue          text,
  payload        jsonb,
  dedupe_key     text,
  dedupe_for     interval    DEFAULT NULL,
  on_duplicate   text        DEFAULT 'reject',
  type           text        DEFAULT NULL,
  schema_version integer     DEFAULT 1,
  headers        jsonb       DEFAULT '{}',
  ordering_key   text        DEFAULT NULL,
  priority       integer     DEFAULT 5,
  delay          interval    DEFAULT NULL,
  due_at         timestamptz DEFAULT NULL,
  max_attempts   integer     DEFAULT NULL,
  ttl            interval    DEFAULT NULL,
  retry_policy   text        DEFAULT NULL,
  lease          interval    DEFAULT NULL,
  tenant         text        DEFAULT NULL,
  OUT id bigint, OUT outcome text, OUT state text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  answer text[];
BEGIN
  PERFORM sluice_private.check_enqueue(payload, headers, type, delay, due_at, ttl, lease);
  PERFORM sluice_private.check_dedupe(dedupe_key, dedupe_for, on_duplicate,
    delay IS NOT NULL OR due_at IS NOT NULL, tenant IS NOT NULL);
  answer := string_to_array(sluice_private.insert_deduped(
    queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1), ordering_key,
    greatest(least(coalesce(priority, 5), 10), -1)::smallint, due_at,
    extract(epoch FROM delay) * 1000, max_attempts, extract(epoch FROM ttl) * 1000, retry_policy,
    (extract(epoch FROM lease) * 1000)::integer, tenant, dedupe_key, extract(epoch FROM dedupe_for) * 1000, on_duplicate
  ), ' ');
  IF answer IS NULL THEN
    PERFORM sluice_private.require_kept('message', queue, 1, 0);
  END IF;
  id := answer[1];
  outcome := answer[2];
  state := answer[3];
END
$$;
COMMENT ON FUNCTION sluice.enqueue_deduped IS
  'Enqueues one message with a dedupe key in the current transaction. on_duplicate: reject, update, requeue, debounce '
  'or throttle. outcome: added, duplicate, updated, requeued or debounced. id and state are those of the message that '
  'has the key.';
