-- Enqueues messages.
--
-- Public functions: sluice.enqueue.

-- The settings of a queue for new messages: one row, of NULL if it has none.
CREATE FUNCTION sluice_private.queue_defaults(queue text, OUT delay_ms bigint, OUT ttl_ms bigint,
  OUT payload_limit_bytes integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  SELECT q.delay_ms, q.ttl_ms, q.payload_limit_bytes INTO delay_ms, ttl_ms, payload_limit_bytes FROM sluice.queue q
  WHERE q.queue = queue;
END
$$;

-- When a message is due first: at an instant, if that is still to come, or after a delay, its own or the queue's.
CREATE FUNCTION sluice_private.first_due_at(due_at timestamptz, delay_ms double precision, queue_delay_ms bigint)
RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(due_at, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) (coalesce(
    delay_ms, CASE WHEN due_at IS NULL THEN queue_delay_ms END, 0::double precision
  ) OPERATOR(pg_catalog.*) interval '1 millisecond'))
$$;

-- Fails if a payload is larger than its queue takes.
CREATE FUNCTION sluice_private.check_payload_bytes(payload jsonb, most integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF octet_length(payload::text) > most THEN
    RAISE EXCEPTION 'payload: expected at most % bytes of JSON in this queue, received %', most, octet_length(payload::text)
      USING ERRCODE = 'SL020', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
END
$$;

CREATE FUNCTION sluice_private.insert_message(
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
  dedupe_ms      bigint
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings record;
  message_id bigint;
BEGIN
  settings := sluice_private.queue_defaults(queue);
  IF settings.payload_limit_bytes IS NOT NULL THEN
    PERFORM sluice_private.check_payload_bytes(payload, settings.payload_limit_bytes);
  END IF;
  -- When it is due is computed in the INSERT, so that the clock is read twice in a row: `enqueued_at` is the other time. A
  -- statement before it had the plan of the INSERT made in between on the first call in a session: 0.45 ms on an idle
  -- machine, more than 1 ms on a busy one. Now it is 0.05 ms.
  INSERT INTO sluice.message
    (queue, payload, headers, type, schema_version, ordering_key, priority, due_at, max_attempts, expires_at, retry_policy,
     lease_ms, tenant, dedupe_key, dedupe_ms)
  SELECT
    queue, payload, headers, type, schema_version, ordering_key, priority, due.first_at, max_attempts,
    due.first_at + coalesce(ttl_ms, settings.ttl_ms) * interval '1 millisecond', retry_policy,
    lease_ms, tenant, dedupe_key, dedupe_ms
  FROM (SELECT sluice_private.first_due_at(due_at, delay_ms, settings.delay_ms) AS first_at) AS due
  -- The transaction gets its number before it draws an id, as in the library's INSERT.
  WHERE pg_current_xact_id() IS NOT NULL
  RETURNING id INTO message_id;
  RETURN message_id;
END
$$;

-- How the library enqueues one message: one that has nothing but its payload, and any other. On a connection of the
-- application's its statements have no names, so each is planned anew, and to plan an INSERT takes as long as to run it;
-- what a function runs is planned once in a session. Its own search_path keeps that plan where an application changes its
-- path. No argument has a default: to fill in eight of them took the server a fifth of the whole call.
CREATE FUNCTION sluice_private.insert_plain(queue text, payload jsonb) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  message_id bigint;
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue) THEN
    RETURN sluice_private.insert_message(
      queue, payload, '{}', NULL, 1, NULL, 5::smallint, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    );
  END IF;
  INSERT INTO sluice.message (queue, payload)
  SELECT queue, payload
  -- The transaction gets its number before it draws an id, as in the library's INSERT.
  WHERE pg_current_xact_id() IS NOT NULL
  RETURNING id INTO message_id;
  RETURN message_id;
END
$$;

-- Fails unless what is enqueued by SQL is within its bounds. What is not checked here breaks a constraint.
CREATE FUNCTION sluice_private.check_enqueue(
  payload jsonb, headers jsonb, type text, delay interval, due_at timestamptz, ttl interval, lease interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF payload IS NULL THEN
    RAISE EXCEPTION 'payload: expected a JSON value, received NULL'
      USING ERRCODE = '22004', HINT = 'For a message without content pass ''null''::jsonb or ''{}''::jsonb.';
  END IF;
  PERFORM sluice_private.check_bytes('payload', payload), sluice_private.check_bytes('headers', headers);
  IF type IS NOT NULL THEN
    PERFORM sluice_private.check_type(type);
  END IF;
  IF delay IS NOT NULL AND due_at IS NOT NULL THEN
    RAISE EXCEPTION 'delay, due_at: expected one of the two, received both'
      USING ERRCODE = '22023', HINT = 'Leave one of them out.';
  END IF;
  IF delay IS NOT NULL THEN
    PERFORM sluice_private.check_time('delay', delay, 'Leave delay out to deliver at once.');
  END IF;
  IF due_at IS NOT NULL THEN
    PERFORM sluice_private.check_due_at(due_at, 'Leave due_at out to deliver at once.');
  END IF;
  IF ttl IS NOT NULL THEN
    PERFORM sluice_private.check_time('ttl', ttl, 'Leave ttl out for a message that never expires.', '1 millisecond');
  END IF;
  IF lease IS NOT NULL THEN
    PERFORM sluice_private.check_time('lease', lease, 'Leave lease out for the pipeline''s.', '1 second', '24 hours');
  END IF;
END
$$;

CREATE FUNCTION sluice.enqueue(
  queue          text,
  payload        jsonb,
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
  tenant         text        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  message_id bigint;
BEGIN
  PERFORM sluice_private.check_enqueue(payload, headers, type, delay, due_at, ttl, lease);
  message_id := sluice_private.insert_message(
    queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1), ordering_key,
    -- What is no smallint either meets the constraint on the priority, which says more than an overflow.
    greatest(least(coalesce(priority, 5), 10), -1)::smallint, due_at,
    extract(epoch FROM delay) * 1000, max_attempts, extract(epoch FROM ttl) * 1000, retry_policy,
    (extract(epoch FROM lease) * 1000)::integer, tenant, NULL, NULL
  );
  IF message_id IS NULL THEN
    PERFORM sluice_private.require_kept('message', queue, 1, 0);
  END IF;
  RETURN message_id;
END
$$;
COMMENT ON FUNCTION sluice.enqueue IS
  'Enqueues one message in the current transaction and returns its id. priority: 0 (first) to 9. Give delay or due_at, '
  'not both. ttl: its time to live, counted from the due time.';
