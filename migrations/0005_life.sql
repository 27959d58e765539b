-- The life of a message: what becomes of one that has expired, and what may be done to one that waits.

-- Expiry
-- Removes locked messages whose life has ended, or makes dead letters of them, as the queue has been told.
CREATE FUNCTION sluice.expire_locked(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  attempts integer[];
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.on_expiry = 'dead_letter') THEN
    PERFORM sluice.remove_locked(queue, ids);
    RETURN;
  END IF;
  SELECT array_agg(m.attempt ORDER BY given.place) INTO attempts
  FROM unnest(ids) WITH ORDINALITY AS given (id, place) CROSS JOIN LATERAL (
    SELECT m.attempt FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m;
  PERFORM sluice.bury_locked(
    queue, ids, attempts, array_fill('expired'::text, ARRAY[cardinality(ids)]), array_fill(NULL::text, ARRAY[cardinality(ids)])
  );
END
$$;

-- The end of messages that a worker has in hand and does not handle, because their life had ended when they were claimed, or
-- because they are cancelled: those of a batch, which its transaction has locked (leases null), and leased ones. Returns those
-- that it has found. Each is looked up in the primary key by itself.
CREATE FUNCTION sluice.drop_in_hand(queue text, ids bigint[], leases bigint[], expired boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  ours bigint[];
BEGIN
  ours := ARRAY(
    SELECT m.id
    FROM (SELECT g.id, g.lease FROM unnest(ids, leases) AS g (id, lease) ORDER BY g.id OFFSET 0) given CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND (leases IS NULL OR m.lease = given.lease) LIMIT 1
      FOR UPDATE OF m
    ) m
  );
  IF ours <> '{}' AND expired THEN
    PERFORM sluice.expire_locked(queue, ours);
  ELSIF ours <> '{}' THEN
    PERFORM sluice.remove_locked(queue, ours);
  END IF;
  RETURN ours;
END
$$;

-- Removes expired messages without a key that stand at the heads of the priorities, 1,000 at most, and of each priority
-- among the first 1,000. Without it, a claim of one message that comes upon many of them would lock them one by one.
CREATE FUNCTION sluice.expire_due(queue text) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  ids bigint[];
BEGIN
  ids := ARRAY(
    SELECT locked.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.expires_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id LIMIT 1000
    ) first CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = first.id AND m.due_at <= now_at AND m.expires_at <= now_at LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) locked
    WHERE first.expires_at <= now_at
    LIMIT 1000
  );
  IF ids <> '{}' THEN
    PERFORM sluice.expire_locked(queue, ids);
  END IF;
  RETURN cardinality(ids);
END
$$;

-- The same for messages with a key, among the first 1,000 of each slot. The caller has the slots locked.
CREATE FUNCTION sluice.expire_in_slots(queue text, slots smallint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  ids bigint[];
BEGIN
  ids := ARRAY(
    SELECT locked.id
    FROM unnest(slots) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.id, m.expires_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 1000
    ) first CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = first.id AND m.due_at <= now_at AND m.expires_at <= now_at LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) locked
    WHERE first.expires_at <= now_at
    LIMIT 1000
  );
  IF ids <> '{}' THEN
    PERFORM sluice.expire_locked(queue, ids);
  END IF;
END
$$;

-- What may be done to one message. Nothing here waits for a handler: rows of messages and of slots that somebody has locked
-- are passed over.

-- Locks one message, unless somebody has it locked or it is not there: then null. Claims pass over locked messages without
-- a key, but would wait for one with a key: so its slot is locked too, unless a batch has it, and claims pass over that.
CREATE FUNCTION sluice.lock_one(queue text, message_id bigint) RETURNS sluice.message
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  found_row sluice.message;
  slot smallint := (SELECT m.slot FROM sluice.message m WHERE m.queue = queue AND m.id = message_id);
BEGIN
  IF slot IS NOT NULL THEN
    PERFORM FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot FOR NO KEY UPDATE OF s SKIP LOCKED;
  END IF;
  SELECT m.* INTO found_row FROM sluice.message m WHERE m.queue = queue AND m.id = message_id FOR UPDATE OF m SKIP LOCKED;
  RETURN found_row;
END
$$;

-- The state of a message that lock_one has returned, or else why it has not.
CREATE FUNCTION sluice.state_of(queue text, message_id bigint, locked sluice.message) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN CASE
    WHEN locked.id IS NOT NULL THEN
      CASE WHEN locked.lease <> 0 AND locked.due_at > now_at THEN 'in_flight'
           WHEN locked.expires_at <= now_at THEN 'expired'
           WHEN locked.due_at <= now_at THEN 'ready'
           WHEN locked.attempt > 0 THEN 'retrying'
           ELSE 'scheduled' END
    WHEN EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = message_id) THEN 'in_flight'
    WHEN EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = message_id) THEN 'dead'
    ELSE 'unknown'
  END;
END
$$;

-- The messages that a call means, the newest first: that of the id, or those that a dedupe key stands for, of which the first
-- comes after the second. They need not be there. Reads the pointer by its primary key, and does not lock it: whoever enqueues
-- with the key has that locked until its transaction ends, and a handler may enqueue.
CREATE FUNCTION sluice.meant(queue text, message_id bigint, dedupe_key text) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF (message_id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'message_id, dedupe_key: expected one of the two, received %', CASE WHEN message_id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.cancel(''emails'', 4711) or sluice.cancel(''emails'', dedupe_key => ''invoice 17'').';
  END IF;
  IF message_id IS NOT NULL THEN
    RETURN ARRAY[message_id];
  END IF;
  RETURN (
    SELECT array_remove(ARRAY[d.message_id, d.running_id], NULL) FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key
  );
END
$$;

-- The message that a change by a dedupe key is for: the newest of those that are there; or else one that is dead, or is not.
CREATE FUNCTION sluice.newest_of(queue text, ids bigint[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF cardinality(ids) = 2 AND NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = ids[1])
    AND (EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = ids[2])
         OR NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = ids[1]))
  THEN
    RETURN ids[2];
  END IF;
  RETURN ids[1];
END
$$;

-- Holds
-- The entry of a message's key in the row of its slot, as of now. Messages without a key have one in slot 256, where a
-- pipeline orders the whole queue.
CREATE FUNCTION sluice.hold_of(m sluice.message) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT s.held -> coalesce(m.ordering_key, '') FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- Whether the slot of a message is locked for us now, or there is none.
CREATE FUNCTION sluice.lock_slot_of(m sluice.message) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256) FOR NO KEY UPDATE OF s SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- Fits the hold of a key to the messages that it is for, in the row of a slot that is locked: one of them has another due
-- time (message_id), or is gone (null). Of the messages of the key that fall due before the end of the hold, it lasts until the
-- last one is due; if there is none, it goes. A batch can have postponed several messages of a key, and the entry has the number
-- of only one. A message with a delay that happens to fall due in that time counts too: the row does not tell it from one that
-- was snoozed.
CREATE FUNCTION sluice.refit_hold(queue text, slot smallint, key text, message_id bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  until_us bigint := (SELECT coalesce((s.held -> key ->> 1)::bigint, 0) FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot);
  first bigint;
  last bigint;
BEGIN
  SELECT min(w.id), max(w.due_us) INTO first, last
  FROM (
    SELECT m.id, m.ordering_key, m.due_at FROM sluice.message m
    WHERE slot < 256 AND m.queue = queue AND m.slot IS NOT NULL AND (m.slot, m.id) >= (slot, (-9223372036854775808)::bigint)
      AND m.slot <= slot
    UNION ALL
    SELECT m.id, NULL, m.due_at FROM sluice.message m
    WHERE slot = 256 AND m.queue = queue AND m.slot IS NULL
  ) every CROSS JOIN LATERAL (
    -- The microseconds of infinity, and of the last years of timestamptz, overflow.
    SELECT every.id, every.ordering_key,
           (date_part('epoch', least(greatest(every.due_at, '0001-01-01 00:00Z'), '9999-12-31 23:59:59Z')) * 1000000)::bigint AS due_us
  ) w
  WHERE coalesce(w.ordering_key, '') = key AND w.due_us > now_us
    AND (w.due_us <= until_us OR w.id = message_id);
  UPDATE sluice.slot s
  SET held = CASE WHEN first IS NULL THEN s.held - key ELSE jsonb_set(s.held, ARRAY[key], jsonb_build_array(first, last)) END
  WHERE s.queue = queue AND s.slot = slot;
END
$$;

-- Takes away the holds of messages that are gone, where their slots can be locked. Returns how many it could not.
CREATE FUNCTION sluice.release_holds(queue text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  orphan record;
  locked_row sluice.message;
  left_over integer := 0;
  released integer := 0;
BEGIN
  FOR orphan IN
    SELECT s.slot, h.key, (h.value ->> 0)::bigint AS id FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) h
    WHERE s.queue = queue AND s.held <> '{}' AND (h.value ->> 1)::bigint > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
      -- Not by NOT EXISTS: the planner would join all messages of the queue.
      AND (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = (h.value ->> 0)::bigint LIMIT 1) IS NULL
  LOOP
    PERFORM FROM sluice.slot s
    WHERE s.queue = queue AND s.slot = orphan.slot AND (s.held -> orphan.key ->> 0)::bigint = orphan.id
    FOR NO KEY UPDATE OF s SKIP LOCKED;
    IF FOUND THEN
      PERFORM sluice.refit_hold(queue, orphan.slot, orphan.key, NULL);
      released := released + 1;
    ELSE
      left_over := left_over + 1;
    END IF;
  END LOOP;
  IF released > 0 THEN
    PERFORM sluice.wake(queue);
  END IF;
  RETURN left_over;
END
$$;

-- A message is gone: its key is free, now or, if somebody has its slot, as soon as a worker of the queue has looked.
CREATE FUNCTION sluice.open_key(gone sluice.message) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (sluice.hold_of(gone) ->> 0)::bigint = gone.id THEN
    IF sluice.lock_slot_of(gone) THEN
      PERFORM sluice.refit_hold(gone.queue, coalesce(gone.slot, 256::smallint), coalesce(gone.ordering_key, ''), NULL);
    ELSE
      PERFORM sluice.tell('!holds!' || gone.queue);
    END IF;
  ELSIF gone.lease IS NULL OR gone.slot IS NULL THEN
    RETURN;
  END IF;
  PERFORM sluice.wake(gone.queue);
END
$$;

-- Cancel
-- What has been cancelled while it was in flight. Workers look here, when they are notified and with each poll, for what they
-- have in hand: a notification alone may come from anybody. A request is for whoever had the message at that time, so nobody
-- claims by it, and it is removed after an hour. No key over queue and message_id: one of two who cancel would wait for the other.
CREATE TABLE sluice.cancel_request (
  queue      text        NOT NULL,
  id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  message_id bigint      NOT NULL,
  asked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT cancel_request_pkey PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);

CREATE FUNCTION sluice.cancel_one(queue text, message_id bigint) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
BEGIN
  m := sluice.lock_one(queue, message_id);
  state := sluice.state_of(queue, message_id, m);
  IF m.id IS NOT NULL THEN
    PERFORM sluice.remove_locked(queue, ARRAY[message_id]);
    PERFORM sluice.open_key(m);
  END IF;
  -- Not of a claim object: whoever has that finds out when it settles.
  IF state = 'in_flight' AND coalesce(m.lease, 1) > 0 THEN
    INSERT INTO sluice.cancel_request (queue, message_id) VALUES (queue, message_id);
    PERFORM sluice.tell('!cancel!' || queue);
  END IF;
  result := CASE WHEN m.id IS NOT NULL THEN 'cancelled' WHEN state = 'in_flight' THEN 'asked' ELSE 'nothing' END;
  RETURN NEXT;
END
$$;

-- By a dedupe key: the message that comes after the one in hand goes first. The answer tells of the one in hand, if it is there.
CREATE FUNCTION sluice.cancel(queue text, message_id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  ids bigint[];
  before record;
BEGIN
  PERFORM sluice.check_claim(queue);
  ids := sluice.meant(queue, message_id, dedupe_key);
  SELECT c.* INTO result, state FROM sluice.cancel_one(queue, ids[1]) c;
  IF cardinality(ids) = 2 THEN
    SELECT c.* INTO before FROM sluice.cancel_one(queue, ids[2]) c;
    IF before.result <> 'nothing' OR state = 'unknown' THEN
      result := before.result;
      state := before.state;
    END IF;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.cancel IS
  'Cancels a message, by its id or its dedupe key, and says in which state it was. result: cancelled (it is gone), asked (a transaction has it in hand, and its handler is asked to end) or nothing (state dead or unknown).';

-- Changes
-- A lease that has run out is over: what its holder settles after a change finds nothing. It counts as where it is claimed.
CREATE FUNCTION sluice.end_lease(m sluice.message) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF m.lease <> 0 THEN
    PERFORM sluice.record_hung(m.queue, ARRAY[m.id]);
    UPDATE sluice.message t
    SET lease = CASE WHEN t.slot IS NOT NULL THEN 0 END,
        attempt = CASE WHEN t.lease < 0 THEN t.attempt + 1 ELSE t.attempt END,
        last_error = CASE WHEN t.lease < 0 THEN sluice.ran_out(t.lease) ELSE t.last_error END,
        failures = CASE WHEN t.lease < 0 THEN sluice.add_failure(t.failures, t.attempt + 1, sluice.ran_out(t.lease), NULL, t.due_at)
                        ELSE t.failures END,
        failed_at = CASE WHEN t.lease < 0 THEN t.due_at ELSE t.failed_at END
    WHERE t.queue = m.queue AND t.id = m.id;
  END IF;
END
$$;

-- Fails unless a delay is within its bounds.
CREATE FUNCTION sluice.check_delay(what text, given interval) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF given < interval '0' OR given > interval '100 years' THEN
    RAISE EXCEPTION '%: expected from zero to 100 years, received %', what, given USING ERRCODE = '22023', HINT = 'For example interval ''5 minutes''.';
  END IF;
END
$$;

-- Gives a message that waits another due time. One that holds its key, or that was tried and would hold it, needs its slot:
-- while a batch has that, the result is busy, and nothing has changed. A time that has passed becomes now, so that the
-- floors of workers do not hide the message. Its life counts from the new time, and never ends sooner for one that was tried.
CREATE FUNCTION sluice.set_due(queue text, message_id bigint, due timestamptz) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  held boolean := false;
BEGIN
  m := sluice.lock_one(queue, message_id);
  state := sluice.state_of(queue, message_id, m);
  result := 'changed';
  IF state NOT IN ('ready', 'scheduled', 'retrying') THEN
    result := 'refused';
  ELSE
    held := coalesce((sluice.hold_of(m) ->> 0)::bigint = m.id, false)
      OR m.lease IS NULL AND m.attempt > 0 AND (m.slot IS NOT NULL OR sluice.hold_of(m) IS NOT NULL);
    IF held AND NOT sluice.lock_slot_of(m) THEN
      result := 'busy';
    END IF;
  END IF;
  due := greatest(due, clock_timestamp());
  IF result = 'changed' AND (state <> 'ready' OR due > clock_timestamp()) THEN
    PERFORM sluice.end_lease(m);
    UPDATE sluice.message t
    SET due_at = due,
        expires_at = t.expires_at + CASE WHEN t.attempt = 0 OR due > t.due_at THEN due - t.due_at ELSE interval '0' END
    WHERE t.queue = queue AND t.id = message_id;
    IF held THEN
      PERFORM sluice.refit_hold(queue, coalesce(m.slot, 256::smallint), coalesce(m.ordering_key, ''), message_id);
    END IF;
  END IF;
  IF result = 'changed' THEN
    PERFORM sluice.wake(queue);
  END IF;
  RETURN NEXT;
END
$$;

CREATE FUNCTION sluice.reschedule(
  queue text, message_id bigint DEFAULT NULL, delay interval DEFAULT NULL, due_at timestamptz DEFAULT NULL,
  dedupe_key text DEFAULT NULL
) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice.check_claim(queue);
  IF (delay IS NULL) = (due_at IS NULL) THEN
    RAISE EXCEPTION 'delay, due_at: expected one of the two, received %', CASE WHEN delay IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.reschedule(''emails'', 4711, interval ''1 hour'').';
  END IF;
  PERFORM sluice.check_delay('delay', delay);
  IF due_at < '0001-01-01 00:00Z' OR due_at >= '10000-01-01 00:00Z' THEN
    RAISE EXCEPTION 'due_at: expected an instant in the years 1 to 9999, received %', due_at
      USING ERRCODE = '22023', HINT = 'For now there is sluice.run_now.';
  END IF;
  message_id := sluice.newest_of(queue, sluice.meant(queue, message_id, dedupe_key));
  RETURN QUERY SELECT d.* FROM sluice.set_due(queue, message_id, coalesce(due_at, clock_timestamp() + delay)) d;
END
$$;
COMMENT ON FUNCTION sluice.reschedule IS
  'Gives a message that waits another due time, with a delay from now or at an instant. result: changed, busy (a batch has its slot in hand: ask again) or refused (it does not wait: see state).';

CREATE FUNCTION sluice.run_now(queue text, message_id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice.check_claim(queue);
  message_id := sluice.newest_of(queue, sluice.meant(queue, message_id, dedupe_key));
  RETURN QUERY SELECT d.* FROM sluice.set_due(queue, message_id, clock_timestamp()) d;
END
$$;
COMMENT ON FUNCTION sluice.run_now IS 'Makes a message that waits due now, also one that waits for its retry. result as that of reschedule.';

CREATE FUNCTION sluice.change(
  queue          text,
  message_id     bigint   DEFAULT NULL,
  payload        jsonb    DEFAULT NULL,
  headers        jsonb    DEFAULT NULL,
  priority       integer  DEFAULT NULL,
  type           text     DEFAULT NULL,
  schema_version integer  DEFAULT NULL,
  max_attempts   integer  DEFAULT NULL,
  ttl            interval DEFAULT NULL,
  dedupe_key     text     DEFAULT NULL
) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
BEGIN
  PERFORM sluice.check_claim(queue);
  IF octet_length(payload::text) > 1048576 OR octet_length(headers::text) > 1048576 THEN
    RAISE EXCEPTION 'payload, headers: expected at most 1048576 bytes of JSON each, received % and %',
      octet_length(payload::text), octet_length(headers::text)
      USING ERRCODE = '22023', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
  PERFORM sluice.check_payload_bytes(payload, (SELECT q.payload_limit_bytes FROM sluice.queue q WHERE q.queue = queue));
  IF type <> '' AND type !~ '^[^\x01-\x20\x7f.*]+([.][^\x01-\x20\x7f.*]+)*$' THEN
    RAISE EXCEPTION 'type: expected dot-separated text without spaces and *, received %', quote_literal(left(type, 80))
      USING ERRCODE = '22023', HINT = 'For example ''order.paid''.';
  END IF;
  PERFORM sluice.check_delay('ttl', ttl);
  message_id := sluice.newest_of(queue, sluice.meant(queue, message_id, dedupe_key));
  m := sluice.lock_one(queue, message_id);
  state := sluice.state_of(queue, message_id, m);
  result := CASE WHEN state IN ('ready', 'scheduled', 'retrying') THEN 'changed' ELSE 'refused' END;
  IF result = 'changed' THEN
    PERFORM sluice.end_lease(m);
    UPDATE sluice.message t
    SET payload = coalesce(payload, t.payload), headers = coalesce(headers, t.headers),
        priority = CASE WHEN priority IS NULL THEN t.priority ELSE greatest(least(priority, 10), -1)::smallint END, type = coalesce(type, t.type),
        schema_version = coalesce(schema_version, t.schema_version), max_attempts = coalesce(max_attempts, t.max_attempts),
        expires_at = coalesce(t.due_at + ttl, t.expires_at)
    WHERE t.queue = queue AND t.id = message_id;
    -- Whoever looks before the COMMIT passes over the locked row, which may fall due by then.
    PERFORM sluice.wake(queue);
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.change IS
  'Changes what a message that waits says; what is NULL stays as it was. ttl counts from its due time. result: changed or refused (it does not wait: see state).';

-- Clear
-- Removes messages that nobody has in hand and that match every filter given, behind after_id in the order of their ids:
-- at most 1,000, and of at most 10,000 that it looks at. dry_run: counts them. next_id: where the next step begins; null at
-- the end of the queue.
CREATE FUNCTION sluice.clear_some(
  queue           text,
  after_id        bigint      DEFAULT NULL,
  type            text        DEFAULT NULL,
  ordering_key    text        DEFAULT NULL,
  tenant          text        DEFAULT NULL,
  enqueued_before timestamptz DEFAULT NULL,
  enqueued_after  timestamptz DEFAULT NULL,
  state           text        DEFAULT NULL,
  dry_run         boolean     DEFAULT false
) RETURNS TABLE (messages integer, next_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  m sluice.message;
  looked integer := 0;
  ids bigint[] := '{}';
  keyed boolean := false;
BEGIN
  PERFORM sluice.check_claim(queue);
  IF state NOT IN ('ready', 'scheduled', 'retrying', 'expired') THEN
    RAISE EXCEPTION 'state: expected ready, scheduled, retrying or expired, received %', quote_literal(left(state, 80))
      USING ERRCODE = '22023', HINT = 'What somebody has in hand is not cleared. Leave it out for all others.';
  END IF;
  FOR m IN
    SELECT t.* FROM sluice.message t
    WHERE t.queue = queue AND t.id > coalesce(after_id, -9223372036854775808)
    ORDER BY t.id LIMIT 10000
  LOOP
    looked := looked + 1;
    next_id := m.id;
    CONTINUE WHEN coalesce(m.lease, 0) <> 0 AND m.due_at > now_at OR m.type IS DISTINCT FROM coalesce(type, m.type)
      OR m.ordering_key IS DISTINCT FROM coalesce(ordering_key, m.ordering_key)
      OR m.tenant IS DISTINCT FROM coalesce(tenant, m.tenant)
      OR m.enqueued_at >= enqueued_before OR m.enqueued_at < enqueued_after
      OR state IS NOT NULL AND state <> sluice.state_of(queue, m.id, m);
    IF NOT dry_run THEN
      -- In its newest version, which may have been claimed since.
      m := sluice.lock_one(queue, m.id);
      CONTINUE WHEN m.id IS NULL OR coalesce(m.lease, 0) <> 0 AND m.due_at > clock_timestamp()
        OR state IS NOT NULL AND state <> sluice.state_of(queue, m.id, m);
    END IF;
    ids := ids || m.id;
    EXIT WHEN cardinality(ids) >= 1000;
  END LOOP;
  messages := cardinality(ids);
  IF NOT dry_run AND messages > 0 THEN
    PERFORM sluice.remove_locked(queue, ids);
    IF EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue) THEN
      IF sluice.release_holds(queue) > 0 THEN
        PERFORM sluice.tell('!holds!' || queue);
      END IF;
      PERFORM sluice.wake(queue);
    END IF;
  END IF;
  IF looked < 10000 AND messages < 1000 THEN
    next_id := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.clear_some IS
  'Removes messages of a queue that nobody has in hand and that match every filter given, behind after_id: one bounded step. Call it again with next_id until that is NULL. dry_run counts them.';

-- PUBLIC gets EXECUTE by default, which here would be the owner's rights.
REVOKE ALL ON FUNCTION sluice.cancel, sluice.reschedule, sluice.run_now, sluice.change, sluice.clear_some, sluice.release_holds
  FROM PUBLIC;

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 5, 1';
