-- Dedupe keys: while a message with a key is there, and for a time after it has succeeded, an enqueue with the same key
-- does not simply add another.

-- Which message a dedupe key stands for: the newest that was enqueued with it. It is a pointer. Whether the message is
-- there is in sluice.message alone, so whoever settles a message writes nothing here and waits for no producer. The row's
-- lock is what producers of one key wait for, until the transaction of the one that has it ends.
CREATE TABLE sluice.dedupe (
  queue      text        NOT NULL,
  key        text        NOT NULL CONSTRAINT "dedupe key: 1 to 255 bytes" CHECK (octet_length(key) BETWEEN 1 AND 255),
  message_id bigint      NOT NULL,
  -- The message that was in hand when this one was enqueued to run after it.
  running_id bigint,
  -- The key stays taken until then, whatever becomes of the message: of onDuplicate throttle.
  until      timestamptz,
  CONSTRAINT dedupe_pkey PRIMARY KEY (queue, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- Keys that stay taken after success: one row per message that succeeded, written by its settlement, and only for messages
-- that ask for it. The id in the key keeps settlements of one dedupe key from waiting for each other, and the time finds the
-- window that ends last among thousands.
CREATE TABLE sluice.settled (
  queue      text        NOT NULL,
  key        text        NOT NULL,
  message_id bigint      NOT NULL,
  until      timestamptz NOT NULL,
  CONSTRAINT settled_pkey PRIMARY KEY (queue, key, until, message_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- A number of a transaction, of which a row has the last 32 bits, in full: the nearest to those that the snapshot knows.
CREATE FUNCTION sluice.full_xid(last_bits text) RETURNS xid8
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  near bigint := pg_snapshot_xmax(pg_current_snapshot())::text;
BEGIN
  RETURN greatest(near + (last_bits::bigint - (near & 4294967295) + 6442450944) % 4294967296 - 2147483648, 3)::text;
END
$$;

-- Whether the xmax of a row is the number of a transaction that runs now, or of a savepoint of one, which no snapshot lists. So it has
-- locked the row, as far as can be told without a lock: it may have ended since. xmax may be the number of a MultiXact as well, where several
-- have locked the row, or one has locked and changed it. That looks the same, may be ahead of all transactions, and counts as no lock.
CREATE FUNCTION sluice.in_progress(holder xid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  full_number xid8;
BEGIN
  IF holder IS NULL OR holder = '0'::xid THEN
    RETURN false;
  END IF;
  full_number := sluice.full_xid(holder::text);
  IF full_number < pg_snapshot_xmax(pg_current_snapshot()) THEN
    RETURN coalesce(pg_xact_status(full_number) = 'in progress', false);
  END IF;
  -- It has begun since the snapshot, or there is no such transaction yet.
  BEGIN
    RETURN coalesce(pg_xact_status(full_number) = 'in progress', false);
  EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
  END;
END
$$;

-- What stands for a dedupe key: one row always. One statement, so that a message that is settled or redriven at this
-- moment is seen either before or after. Each part is one descent of a primary key.
-- locked: a transaction that has not ended has locked the message. What this transaction has enqueued or changed keeps the number of
--   its own lock.
-- ours: this transaction has claimed it. It has locked what it enqueued or changed as well, but those have its number in xmin.
-- fresh: it was never tried, so nothing waits for its retry.
-- completed_id: the key is taken although the message is gone.
CREATE FUNCTION sluice.look_at_key(queue text, key text, message_id bigint, OUT there boolean, OUT attempt integer,
  OUT due_at timestamptz, OUT lease bigint, OUT ordering_key text, OUT slot smallint, OUT expired boolean, OUT locked boolean,
  OUT ours boolean, OUT fresh boolean, OUT completed_id bigint, OUT dead boolean, OUT now_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  now_at := clock_timestamp();
  SELECT m.id IS NOT NULL, m.attempt, m.due_at, coalesce(m.lease, 0), m.ordering_key, m.slot,
         coalesce(m.expires_at <= now_at, false),
         sluice.in_progress(m.xmax) AND NOT sluice.in_progress(m.xmin),
         m.xmax::text <> '0' AND sluice.full_xid(m.xmax::text) = pg_current_xact_id_if_assigned() AND NOT sluice.in_progress(m.xmin),
         m.attempt = 0 AND m.lease IS NULL AND m.failed_at IS NULL,
         (SELECT s.message_id FROM sluice.settled s WHERE s.queue = queue AND s.key = key AND s.until > now_at
          ORDER BY s.until DESC LIMIT 1),
         EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = message_id)
  INTO there, attempt, due_at, lease, ordering_key, slot, expired, locked, ours, fresh, completed_id, dead
  FROM (SELECT) one LEFT JOIN sluice.message m ON m.queue = queue AND m.id = message_id;
END
$$;

-- The state of a message that is there, in words.
CREATE FUNCTION sluice.state_of(in_hand boolean, attempt integer, due_at timestamptz, now_at timestamptz) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN in_hand THEN 'in_flight' WHEN due_at <= now_at THEN 'ready' WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END;
END
$$;

-- Locks a message that nobody has in hand, without waiting. A claim does not wait for it either: of a message with an
-- ordering key it would, so its slot is locked as well, if nobody has that, and claims pass the slot by.
CREATE FUNCTION sluice.lock_waiting(queue text, message_id bigint, slot smallint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF slot IS NOT NULL THEN
    PERFORM FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot FOR NO KEY UPDATE OF s SKIP LOCKED;
  END IF;
  PERFORM FROM sluice.message m
  WHERE m.queue = queue AND m.id = message_id AND (coalesce(m.lease, 0) = 0 OR m.due_at <= clock_timestamp())
  FOR UPDATE OF m SKIP LOCKED;
  RETURN FOUND;
END
$$;

-- What stands for a key, where an expired message that nobody has in hand is not there. To know whether somebody has it, it
-- is locked; without, each that has expired is not there. One whose lease has run out is not locked: its worker may be late
-- only, and would wait here with the renewal of all its leases.
CREATE FUNCTION sluice.look_at_holder(queue text, key text, message_id bigint, locks boolean) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen record := sluice.look_at_key(queue, key, message_id);
BEGIN
  IF seen.there AND seen.expired THEN
    IF NOT locks OR seen.lease <> 0 AND seen.due_at <= seen.now_at AND NOT seen.locked AND NOT seen.ours THEN
      seen.there := false;
    ELSIF NOT seen.ours THEN
      seen.there := NOT sluice.lock_waiting(queue, message_id, seen.slot);
      seen.locked := true;
    END IF;
  END IF;
  RETURN seen;
END
$$;

-- Enqueues one message with a dedupe key; the answer is its id, the outcome and the state, with spaces between them. Null: the
-- table did not take it. Each statement has a snapshot of its own in READ COMMITTED, so what stands behind the lock of the
-- pointer sees what was committed before it was had. In the other levels the lock fails with 40001 if the pointer has
-- changed since the transaction's snapshot, which is right: begin again.
--
-- A producer never waits for a message's row, which a handler may hold: it skips what is locked. reject and throttle need
-- no lock at all where the key is taken. only_look, for these two: null if it is free, and nothing is enqueued.
CREATE FUNCTION sluice.insert_deduped(
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
  on_duplicate   text,
  only_look      boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  again boolean := on_duplicate IN ('requeue', 'debounce');
  keep_ms bigint := CASE WHEN on_duplicate <> 'throttle' THEN ceil(for_ms) END;
  may_look boolean := on_duplicate IN ('reject', 'throttle');
  is_known boolean;
  tries integer := 0;
  held sluice.dedupe;
  seen record;
  before record;
  new_id bigint;
  new_due_at timestamptz;
  outcome text := 'added';
  running_id bigint;
  throttled_until timestamptz;
BEGIN
  LOOP
    IF may_look THEN
      SELECT d.* INTO held FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
    ELSE
      SELECT d.* INTO held FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key FOR UPDATE;
    END IF;
    is_known := held.message_id IS NOT NULL;
    IF is_known THEN
      seen := sluice.look_at_holder(queue, dedupe_key, held.message_id, NOT may_look);
      -- The one that was to run after it has gone first: cancelled, cleared or expired.
      IF NOT seen.there AND held.running_id IS NOT NULL THEN
        before := sluice.look_at_holder(queue, dedupe_key, held.running_id, NOT may_look);
        IF before.there THEN
          seen := before;
          held.message_id := held.running_id;
        END IF;
      END IF;
      IF seen.there THEN
        IF on_duplicate IN ('reject', 'throttle') THEN
          RETURN concat_ws(' ', held.message_id, 'duplicate',
            sluice.state_of(seen.ours OR seen.locked OR seen.lease <> 0 AND seen.due_at > seen.now_at, seen.attempt, seen.due_at, seen.now_at));
        END IF;
        -- One whose lease has run out may be followed, as one in hand. update would lose what it is given.
        IF (seen.lease = 0 OR on_duplicate = 'update' AND seen.due_at <= seen.now_at) AND NOT seen.ours
          AND sluice.lock_waiting(queue, held.message_id, seen.slot)
        THEN
          RETURN sluice.change_waiting(queue, held.message_id, payload, headers, type, schema_version,
            due_at, delay_ms, ttl_ms, keep_ms, on_duplicate = 'debounce' AND seen.fresh);
        END IF;
        -- Somebody has it in hand. The other message comes behind it in the order of its key, and never beside it.
        IF on_duplicate = 'update' OR seen.ordering_key IS NULL THEN
          RETURN concat_ws(' ', held.message_id, 'duplicate in_flight');
        END IF;
        ordering_key := seen.ordering_key;
        running_id := held.message_id;
        outcome := 'requeued';
      ELSIF seen.completed_id IS NOT NULL THEN
        IF NOT again THEN
          RETURN concat_ws(' ', seen.completed_id, 'duplicate completed');
        END IF;
        outcome := 'requeued';
      ELSIF held.until > seen.now_at AND NOT again THEN
        RETURN concat_ws(' ', held.message_id, 'duplicate', CASE WHEN seen.dead THEN 'dead' ELSE 'unknown' END);
      END IF;
    END IF;
    IF only_look THEN
      RETURN NULL;
    END IF;
    IF may_look THEN
      -- The key is free, as far as can be seen without its lock.
      may_look := false;
      CONTINUE;
    END IF;
    IF again THEN
      ordering_key := coalesce(ordering_key, dedupe_key);
    END IF;
    new_id := sluice.insert_message(
      queue, payload, headers, type, schema_version, ordering_key, priority, due_at, delay_ms, max_attempts, ttl_ms,
      retry_policy, lease_ms, tenant, dedupe_key, keep_ms
    );
    IF new_id IS NULL THEN
      RETURN NULL;
    END IF;
    throttled_until := CASE WHEN on_duplicate = 'throttle' THEN clock_timestamp() + for_ms * interval '1 millisecond' END;
    IF is_known THEN
      UPDATE sluice.dedupe d SET message_id = new_id, running_id = running_id, until = throttled_until
      WHERE d.queue = queue AND d.key = dedupe_key;
      EXIT;
    END IF;
    INSERT INTO sluice.dedupe (queue, key, message_id, until) VALUES (queue, dedupe_key, new_id, throttled_until)
    ON CONFLICT DO NOTHING;
    EXIT WHEN FOUND;
    -- Another producer was first. It has ended: the INSERT has waited for it.
    DELETE FROM sluice.message m WHERE m.queue = queue AND m.id = new_id;
    tries := tries + 1;
    PERFORM sluice.check_taken('dedupe', queue, tries);
  END LOOP;
  SELECT m.due_at INTO new_due_at FROM sluice.message m WHERE m.queue = queue AND m.id = new_id;
  RETURN concat_ws(' ', new_id, outcome, sluice.state_of(false, 0, new_due_at, clock_timestamp()));
END
$$;

-- Gives a locked message, which nobody has in hand, new content, and with `moves` a later due time. The time of a retry, or
-- of a message that holds its key, stays as it is: a later message of the key would be handled first.
CREATE FUNCTION sluice.change_waiting(
  queue text, message_id bigint, payload jsonb, headers jsonb, type text, schema_version integer, due_at timestamptz,
  delay_ms double precision, ttl_ms double precision, keep_ms bigint, moves boolean
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings record;
  had sluice.message;
  changed record;
  later timestamptz;
  state text;
BEGIN
  settings := sluice.queue_defaults(queue);
  IF settings.payload_limit_bytes IS NOT NULL THEN
    PERFORM sluice.check_payload_bytes(payload, settings.payload_limit_bytes);
  END IF;
  SELECT m.* INTO had FROM sluice.message m WHERE m.queue = queue AND m.id = message_id;
  PERFORM sluice.end_lease(had);
  IF moves AND NOT EXISTS (
    SELECT FROM sluice.message m JOIN sluice.slot s ON s.queue = m.queue AND s.slot = m.slot
    WHERE m.queue = queue AND m.id = message_id AND (s.held -> m.ordering_key ->> 0)::bigint = m.id
  ) THEN
    later := sluice.first_due_at(due_at, delay_ms, settings.delay_ms);
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
  state := sluice.state_of(false, changed.attempt, changed.due_at, clock_timestamp());
  IF later IS NULL OR changed.due_at < clock_timestamp() + interval '1200 ms' THEN
    -- Whoever looks before the COMMIT passes over the locked row, which may fall due by then. One that is put off is due after it.
    PERFORM sluice.wake(queue);
  END IF;
  RETURN concat_ws(' ', message_id, CASE WHEN later IS NULL THEN 'updated' ELSE 'debounced' END, state);
END
$$;

-- Enqueues messages with dedupe keys, and answers in their order. It has all keys locked in one order before the first
-- message is enqueued, so two of these do not wait for each other in a circle. A key that is new gets a pointer to no
-- message. One that is taken, and for which nothing but reject and throttle ask, is not locked: what this look has found is the
-- answer, and is not asked for again, because a lock that it might take then would be out of order.
CREATE FUNCTION sluice.insert_all_deduped(queue text, payloads jsonb, options jsonb) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  wanted text;
  policy text;
  found_duplicate text;
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
      found_duplicate := sluice.insert_deduped(
        queue, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, wanted, NULL, policy, true
      );
      IF found_duplicate IS NOT NULL THEN
        taken_keys := taken_keys || wanted;
        duplicates := duplicates || found_duplicate;
        CONTINUE;
      END IF;
    END IF;
    LOOP
      PERFORM FROM sluice.dedupe d WHERE d.queue = queue AND d.key = wanted FOR UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO sluice.dedupe (queue, key, message_id) VALUES (queue, wanted, 0) ON CONFLICT DO NOTHING;
      EXIT WHEN FOUND;
      tries := tries + 1;
      PERFORM sluice.check_taken('dedupe', queue, tries);
    END LOOP;
  END LOOP;
  RETURN QUERY
  SELECT coalesce(r.duplicate, sluice.insert_deduped(
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
  PERFORM sluice.check_enqueue(payload, headers, type, delay, due_at, ttl, lease);
  PERFORM sluice.check_dedupe(dedupe_key, dedupe_for, on_duplicate, delay IS NOT NULL OR due_at IS NOT NULL, tenant IS NOT NULL);
  answer := string_to_array(sluice.insert_deduped(
    queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1), ordering_key,
    greatest(least(coalesce(priority, 5), 10), -1)::smallint, due_at,
    extract(epoch FROM delay) * 1000, max_attempts, extract(epoch FROM ttl) * 1000, retry_policy,
    (extract(epoch FROM lease) * 1000)::integer, tenant, dedupe_key, extract(epoch FROM dedupe_for) * 1000, on_duplicate
  ), ' ');
  IF answer IS NULL THEN
    RAISE EXCEPTION 'sluice.message: expected to take 1 message for queue "%", took 0', queue
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
  id := answer[1];
  outcome := answer[2];
  state := answer[3];
END
$$;
COMMENT ON FUNCTION sluice.enqueue_deduped IS
  'Enqueues one message with a dedupe key in the current transaction. on_duplicate: reject, update, requeue, debounce or throttle. outcome: added, duplicate, updated, requeued or debounced; id and state: of the message that has the key.';

CREATE FUNCTION sluice.check_dedupe(key text, kept interval, on_duplicate text, has_time boolean, has_tenant boolean) RETURNS void
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
  IF kept < interval '1 millisecond' OR kept > interval '100 years' THEN
    RAISE EXCEPTION 'dedupe_for: expected from 1 millisecond to 100 years, received %', kept
      USING ERRCODE = '22023', HINT = 'Leave it out for a key that is free when its message is gone.';
  END IF;
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
      USING ERRCODE = '22023', HINT = 'Such a message gets an ordering key, and a message has a tenant or an ordering key. With a tenant there are reject, update and throttle.';
  END IF;
END
$$;

-- Settlement
-- Keeps the dedupe keys of messages that a claim has settled taken.
CREATE FUNCTION sluice.keep_keys(queue text, ids bigint[], keys text[], ms bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  taken bigint;
BEGIN
  INSERT INTO sluice.settled (queue, key, message_id, until)
  SELECT queue, k.key, k.id, now_at + least(k.ms, 3155760000000) * interval '1 millisecond'
  FROM unnest(ids, keys, ms) AS k (id, key, ms);
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice.require_kept('settled', queue, cardinality(ids), taken);
END
$$;

-- Status
-- What is known of one message, by its id or by its dedupe key: one row always. All of it is as of one snapshot. The history,
-- which a later migration makes, has a message by its id in each of its partitions.
CREATE FUNCTION sluice.status(
  queue text, id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL, OUT message_id bigint, OUT state text, OUT requeued_id bigint,
  OUT attempt integer, OUT due_at timestamptz, OUT taken_until timestamptz, OUT locked_by integer
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  pointer sluice.dedupe;
  now_at timestamptz := sluice.clock();
  done sluice.settled;
BEGIN
  IF (id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'id, dedupe_key: expected one of the two, received %', CASE WHEN id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.status(''emails'', id => 42).';
  END IF;
  IF dedupe_key IS NOT NULL THEN
    SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
    SELECT s.* INTO done FROM sluice.settled s WHERE s.queue = queue AND s.key = dedupe_key AND s.until > now_at
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
    SELECT c.id, 'completed', c.attempt - 1 INTO message_id, state, attempt FROM sluice.completed c WHERE c.queue = queue AND c.id = id;
    IF FOUND THEN
      RETURN;
    END IF;
    SELECT d.id, 'dead', d.attempt INTO message_id, state, attempt FROM sluice.dead_letters d WHERE d.queue = queue AND d.id = id;
    IF FOUND THEN
      RETURN;
    END IF;
  END LOOP;
  message_id := nullif(coalesce(pointer.message_id, id), 0);
  state := 'unknown';
END
$$;
COMMENT ON FUNCTION sluice.status IS
  'What is known of a message, by its id or its dedupe key: one row. state: scheduled, ready, in_flight, retrying, dead, completed or unknown. requeued_id: the message that comes after it. taken_until: until then the key stays taken. locked_by: the server''s process whose transaction has the message locked.';

-- Whether a message has a key: one that has expired has it as long as somebody has it in hand. To know that, it is locked.
CREATE FUNCTION sluice.has_message(pointer sluice.dedupe) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  there sluice.message;
BEGIN
  FOR there IN
    SELECT m.* FROM sluice.message m WHERE m.queue = pointer.queue AND m.id IN (pointer.message_id, pointer.running_id)
  LOOP
    IF coalesce(there.expires_at > now_at, true) OR there.lease <> 0 AND there.due_at > now_at THEN
      RETURN true;
    END IF;
    PERFORM FROM sluice.message m WHERE m.queue = there.queue AND m.id = there.id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM sluice.message m WHERE m.queue = there.queue AND m.id = there.id) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;

-- Frees a key that is kept although no message has it: after success, or of onDuplicate throttle. It locks the pointer, as a
-- producer of the key does, so that one that is about to take the key is seen.
CREATE FUNCTION sluice.free_key(queue text, dedupe_key text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  pointer sluice.dedupe;
  now_at timestamptz;
  freed boolean;
BEGIN
  IF queue IS NULL OR dedupe_key IS NULL THEN
    RAISE EXCEPTION 'queue, dedupe_key: expected text, received NULL' USING ERRCODE = '22023', HINT = 'As in sluice.free_key(''emails'', ''invoice 17'').';
  END IF;
  SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key FOR UPDATE;
  now_at := clock_timestamp();
  IF sluice.has_message(pointer) THEN
    RETURN 'taken';
  END IF;
  freed := coalesce(pointer.until > now_at, false);
  UPDATE sluice.dedupe d SET until = NULL WHERE freed AND d.queue = queue AND d.key = dedupe_key;
  DELETE FROM sluice.settled s WHERE s.queue = queue AND s.key = dedupe_key AND s.until > now_at;
  RETURN CASE WHEN FOUND OR freed THEN 'freed' ELSE 'free' END;
END
$$;
COMMENT ON FUNCTION sluice.free_key IS
  'Frees a dedupe key that is kept after its message has gone, and says what it was: freed, free (it was not taken) or taken (a message has it, which sluice.cancel removes).';

-- Frees the keys of a queue that are kept although no message has them, behind after_key in their order: at most 1,000, and of
-- at most 10,000 that it looks at. A key for which a producer asks at this moment stays. dry_run: counts them. next_key: where
-- the next step begins; null: they are through. A key without a pointer is free.
CREATE FUNCTION sluice.free_keys(queue text, after_key text DEFAULT NULL, dry_run boolean DEFAULT false)
RETURNS TABLE (keys integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  pointer sluice.dedupe;
  looked integer := 0;
BEGIN
  PERFORM sluice.check_claim(queue);
  keys := 0;
  FOR pointer IN
    SELECT d.* FROM sluice.dedupe d WHERE d.queue = queue AND d.key > coalesce(after_key, '') ORDER BY d.key LIMIT 10000
  LOOP
    looked := looked + 1;
    next_key := pointer.key;
    CONTINUE WHEN coalesce(pointer.until <= now_at, true)
        AND NOT EXISTS (SELECT FROM sluice.settled s WHERE s.queue = queue AND s.key = pointer.key AND s.until > now_at)
      OR sluice.has_message(pointer);
    IF NOT dry_run THEN
      PERFORM FROM sluice.dedupe d WHERE d.queue = queue AND d.key = pointer.key FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND OR sluice.free_key(queue, pointer.key) <> 'freed';
    END IF;
    keys := keys + 1;
    EXIT WHEN keys >= 1000;
  END LOOP;
  IF looked < 10000 AND keys < 1000 THEN
    next_key := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.free_keys IS
  'Frees the dedupe keys of a queue that are kept after their messages have gone, behind after_key: one bounded step. Call it again with next_key until that is NULL. dry_run counts them.';

-- Gives messages that were redriven their dedupe keys again, where no other message has one by then; of several with the same
-- key the newest. It does not wait for a producer: whoever has a pointer locked, or has made one and not committed, has the key.
CREATE FUNCTION sluice.take_keys_again(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10ms' AS $$
#variable_conflict use_variable
DECLARE
  redriven record;
  pointer sluice.dedupe;
BEGIN
  FOR redriven IN
    SELECT m.id, m.dedupe_key FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.id, m.dedupe_key FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) m ORDER BY m.id DESC
  LOOP
    SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = redriven.dedupe_key FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE sluice.dedupe d SET message_id = redriven.id, running_id = NULL
      WHERE d.queue = queue AND d.key = redriven.dedupe_key AND NOT EXISTS (
        SELECT FROM sluice.message m WHERE m.queue = queue AND m.id IN (pointer.message_id, pointer.running_id)
      );
    ELSE
      BEGIN
        INSERT INTO sluice.dedupe (queue, key, message_id) VALUES (queue, redriven.dedupe_key, redriven.id) ON CONFLICT DO NOTHING;
      EXCEPTION WHEN lock_not_available THEN
        NULL;
      END;
    END IF;
  END LOOP;
END
$$;

-- Maintenance
-- How many rows one step of maintenance may take.
CREATE FUNCTION sluice.check_most(most integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF most IS NULL OR most NOT BETWEEN 1 AND 10000 THEN
    RAISE EXCEPTION 'most: expected an integer from 1 to 10000, received %', coalesce(most::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'Leave it out for 1000. Call it again while it returns as many.';
  END IF;
END
$$;

-- Deletes windows that are over and pointers of keys that are free, at most so many, and returns how many. It begins at a
-- page drawn by chance, reads no more than 100 pages of each table, and skips what a producer has locked. A small table is
-- read as a whole; in a large one each call reads another part, so no index pays for pruning.
CREATE FUNCTION sluice.prune_dedupe(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  pruned integer := 0;
  places tid[];
  touched integer;
  now_at timestamptz;
  pages bigint;
  start bigint;
  page bigint;
BEGIN
  PERFORM sluice.check_most(most);
  pages := pg_relation_size('sluice.settled') / current_setting('block_size')::integer;
  start := floor(random() * pages);
  FOR step IN 0..least(pages, 100) - 1 LOOP
    EXIT WHEN pruned >= most;
    page := (start + step) % pages;
    now_at := clock_timestamp();
    places := ARRAY(
      SELECT s.ctid FROM sluice.settled s
      WHERE s.ctid >= format('(%s,0)', page)::tid AND s.ctid < format('(%s,0)', page + 1)::tid AND s.until <= now_at
      LIMIT most - pruned FOR UPDATE OF s SKIP LOCKED
    );
    IF places <> '{}' THEN
      DELETE FROM sluice.settled s WHERE s.ctid = ANY (places);
      pruned := pruned + cardinality(places);
    END IF;
  END LOOP;
  pages := pg_relation_size('sluice.dedupe') / current_setting('block_size')::integer;
  start := floor(random() * pages);
  FOR step IN 0..least(pages, 100) - 1 LOOP
    EXIT WHEN pruned >= most;
    page := (start + step) % pages;
    now_at := clock_timestamp();
    places := ARRAY(
      SELECT d.ctid FROM sluice.dedupe d
      WHERE d.ctid >= format('(%s,0)', page)::tid AND d.ctid < format('(%s,0)', page + 1)::tid
        AND coalesce(d.until <= now_at, true) AND sluice.is_free(d.queue, d.key, d.message_id, d.running_id)
      LIMIT most - pruned FOR UPDATE OF d SKIP LOCKED
    );
    IF places <> '{}' THEN
      -- Once more with the rows locked: until then a producer may have moved one.
      DELETE FROM sluice.dedupe d WHERE d.ctid = ANY (places) AND coalesce(d.until <= now_at, true)
        AND sluice.is_free(d.queue, d.key, d.message_id, d.running_id);
      GET DIAGNOSTICS touched = ROW_COUNT;
      pruned := pruned + touched;
    END IF;
  END LOOP;
  RETURN pruned;
END
$$;
COMMENT ON FUNCTION sluice.prune_dedupe IS
  'Deletes dedupe keys that are free and windows that are over, at most so many, and returns how many. Waits for nobody.';

-- Whether nothing needs a pointer any more: neither of its messages is there or dead, and no window of the key has a row.
CREATE FUNCTION sluice.is_free(queue text, key text, message_id bigint, running_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id IN (message_id, running_id))
    AND NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id IN (message_id, running_id))
    AND NOT EXISTS (SELECT FROM sluice.settled s WHERE s.queue = queue AND s.key = key);
END
$$;

-- PUBLIC gets EXECUTE by default, which here would be the owner's rights.
REVOKE ALL ON FUNCTION sluice.insert_deduped, sluice.insert_all_deduped, sluice.prune_dedupe, sluice.free_key, sluice.free_keys FROM PUBLIC;

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 4, 1';
