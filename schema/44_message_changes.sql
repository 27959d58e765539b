-- Changes one message, or all that match. Nothing here waits for a handler: rows of messages and of slots that are locked
-- are passed over.
--
-- Public functions: sluice.cancel, sluice.reschedule, sluice.run_now, sluice.change, sluice.clear_some.

-- Locks one message, unless it is locked or not there: then null. Claims pass over locked messages without a key, but
-- would wait for one with a key: so its slot is locked too, unless a batch has it, and claims pass over that.
CREATE FUNCTION sluice_private.lock_one(queue text, message_id bigint) RETURNS sluice.message
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
CREATE FUNCTION sluice_private.state_of(queue text, message_id bigint, locked sluice.message) RETURNS text
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

-- The messages that a call means, the newest first: that of the id, or those of a dedupe key, where the first comes after
-- the second. They need not be there. Reads the pointer by its primary key, and does not lock it: a producer with the key
-- keeps it locked until its transaction ends, and a handler may enqueue.
CREATE FUNCTION sluice_private.meant(queue text, message_id bigint, dedupe_key text) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF (message_id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'message_id, dedupe_key: expected one of the two, received %',
      CASE WHEN message_id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023',
        HINT = 'As in sluice.cancel(''emails'', 4711) or sluice.cancel(''emails'', dedupe_key => ''invoice 17'').';
  END IF;
  IF message_id IS NOT NULL THEN
    RETURN ARRAY[message_id];
  END IF;
  RETURN (
    SELECT array_remove(ARRAY[d.message_id, d.running_id], NULL) FROM sluice.dedupe d
    WHERE d.queue = queue AND d.key = dedupe_key
  );
END
$$;

-- The message that a change by a dedupe key is for: the newest that is there, else a dead one, else an unknown id.
CREATE FUNCTION sluice_private.newest_of(queue text, ids bigint[]) RETURNS bigint
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

CREATE FUNCTION sluice_private.cancel_one(queue text, message_id bigint) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
BEGIN
  m := sluice_private.lock_one(queue, message_id);
  state := sluice_private.state_of(queue, message_id, m);
  IF m.id IS NOT NULL THEN
    PERFORM sluice_private.remove_locked(queue, ARRAY[message_id]);
    PERFORM sluice_private.open_key(m);
  END IF;
  -- Not in a claim object: its client finds out when it settles.
  IF state = 'in_flight' AND coalesce(m.lease, 1) > 0 THEN
    INSERT INTO sluice.cancel_request (queue, message_id) VALUES (queue, message_id);
    PERFORM sluice_private.notify('!cancel!' || queue);
  END IF;
  result := CASE WHEN m.id IS NOT NULL THEN 'cancelled' WHEN state = 'in_flight' THEN 'asked' ELSE 'nothing' END;
  RETURN NEXT;
END
$$;

-- By a dedupe key: the message that comes after the one in flight goes first. The answer is about the one in flight, if
-- it is there.
CREATE FUNCTION sluice.cancel(queue text, message_id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  ids bigint[];
  cancelled bigint[];
  before record;
BEGIN
  PERFORM sluice_private.check_claim(queue);
  ids := sluice_private.meant(queue, message_id, dedupe_key);
  SELECT c.* INTO result, state FROM sluice_private.cancel_one(queue, ids[1]) c;
  cancelled := CASE WHEN result = 'nothing' THEN '{}' ELSE ids[1:1] END;
  IF cardinality(ids) = 2 THEN
    SELECT c.* INTO before FROM sluice_private.cancel_one(queue, ids[2]) c;
    cancelled := cancelled || CASE WHEN before.result = 'nothing' THEN '{}' ELSE ids[2:2] END;
    IF before.result <> 'nothing' OR state = 'unknown' THEN
      result := before.result;
      state := before.state;
    END IF;
  END IF;
  PERFORM sluice_private.note_action('message.cancel', queue, cardinality(cancelled), dedupe_key, cancelled,
    jsonb_build_object('result', result, 'state', state));
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.cancel IS
  'Cancels a message, by its id or its dedupe key, and returns its state before. result: cancelled (it is gone), asked '
  '(a transaction has locked it, and its handler is asked to end) or nothing (state dead or unknown).';

-- Gives a message that waits another due time. One that holds its key, or that was tried and would hold it, needs its slot:
-- while a batch has that, the result is busy, and nothing has changed. A time that has passed becomes now, so that the
-- floors of workers do not hide the message. One with an ordering key that is due sooner, and soon, is marked, so that workers
-- find it among rows that they pass over: what is due later they have read again before, which they do every minute. Its life
-- counts from the new time, and never ends sooner for one that was in flight. `action` is noted if the time has changed.
CREATE FUNCTION sluice_private.set_due(queue text, message_id bigint, due timestamptz, action text, dedupe_key text)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  held boolean := false;
BEGIN
  m := sluice_private.lock_one(queue, message_id);
  state := sluice_private.state_of(queue, message_id, m);
  result := 'changed';
  IF state NOT IN ('ready', 'scheduled', 'retrying') THEN
    result := 'refused';
  ELSE
    held := m.id = ANY (sluice_private.held_for(sluice_private.hold_of(m)))
      OR m.attempt > 0 AND CASE WHEN m.slot IS NULL THEN sluice_private.hold_of(m) IS NOT NULL ELSE m.lease IS NULL END;
    IF held AND NOT sluice_private.lock_slot_of(m) THEN
      result := 'busy';
    END IF;
  END IF;
  due := greatest(due, clock_timestamp());
  IF result = 'changed' AND (state <> 'ready' OR due > clock_timestamp()) THEN
    PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);
    UPDATE sluice.message t
    SET due_at = due, redriven = CASE WHEN t.slot IS NOT NULL AND due < t.due_at AND due < clock_timestamp() + interval '2 minutes' THEN true
                        ELSE t.redriven END,
        expires_at = t.expires_at
          + CASE WHEN due > t.due_at OR NOT (held OR m.attempt > 0 OR m.lease IS NOT NULL) THEN due - t.due_at ELSE interval '0' END
    WHERE t.queue = queue AND t.id = message_id;
    IF held THEN
      PERFORM sluice_private.refit_hold(queue, coalesce(m.slot, 256::smallint), coalesce(m.ordering_key, ''), message_id);
    END IF;
    PERFORM sluice_private.note_action(action, queue, 1, dedupe_key, ARRAY[message_id],
      jsonb_build_object('state', state, 'due_at', due));
  END IF;
  IF result = 'changed' THEN
    PERFORM sluice_private.wake(queue);
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
  PERFORM sluice_private.check_claim(queue);
  IF (delay IS NULL) = (due_at IS NULL) THEN
    RAISE EXCEPTION 'delay, due_at: expected one of the two, received %', CASE WHEN delay IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.reschedule(''emails'', 4711, interval ''1 hour'').';
  END IF;
  PERFORM sluice_private.check_time('delay', delay, 'For example interval ''5 minutes''.');
  PERFORM sluice_private.check_due_at(due_at, 'For now there is run_now.');
  message_id := sluice_private.newest_of(queue, sluice_private.meant(queue, message_id, dedupe_key));
  RETURN QUERY SELECT d.* FROM sluice_private.set_due(queue, message_id, coalesce(due_at, clock_timestamp() + delay),
    'message.reschedule', dedupe_key) d;
END
$$;
COMMENT ON FUNCTION sluice.reschedule IS
  'Makes a waiting message due after a delay from now, or at an instant. result: changed, busy (a batch has locked its '
  'slot: try again) or refused (see state).';

CREATE FUNCTION sluice.run_now(queue text, message_id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.check_claim(queue);
  message_id := sluice_private.newest_of(queue, sluice_private.meant(queue, message_id, dedupe_key));
  RETURN QUERY SELECT d.* FROM sluice_private.set_due(queue, message_id, clock_timestamp(), 'message.run_now', dedupe_key) d;
END
$$;
COMMENT ON FUNCTION sluice.run_now IS
  'Makes a waiting message due now, including one that waits for a retry. result: as of reschedule.';

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
  PERFORM sluice_private.check_claim(queue);
  PERFORM sluice_private.check_bytes('payload', payload), sluice_private.check_bytes('headers', headers);
  PERFORM sluice_private.check_payload_bytes(payload,
    (SELECT q.payload_limit_bytes FROM sluice.queue q WHERE q.queue = queue));
  PERFORM sluice_private.check_type(type);
  PERFORM sluice_private.check_time('ttl', ttl, 'Zero ends its life when it is due.');
  message_id := sluice_private.newest_of(queue, sluice_private.meant(queue, message_id, dedupe_key));
  m := sluice_private.lock_one(queue, message_id);
  state := sluice_private.state_of(queue, message_id, m);
  result := CASE WHEN state IN ('ready', 'scheduled', 'retrying') THEN 'changed' ELSE 'refused' END;
  IF result = 'changed' THEN
    PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);
    UPDATE sluice.message t
    SET payload = coalesce(payload, t.payload), headers = coalesce(headers, t.headers),
        priority = CASE WHEN priority IS NULL THEN t.priority ELSE greatest(least(priority, 10), -1)::smallint END,
        type = coalesce(type, t.type), schema_version = coalesce(schema_version, t.schema_version),
        max_attempts = coalesce(max_attempts, t.max_attempts), expires_at = coalesce(t.due_at + ttl, t.expires_at)
    WHERE t.queue = queue AND t.id = message_id;
    -- What it says now is not noted: it may be secret, and the message has it.
    PERFORM sluice_private.note_action('message.change', queue, 1, dedupe_key, ARRAY[message_id],
      jsonb_build_object('changed', to_jsonb(array_remove(ARRAY[
        CASE WHEN payload IS NOT NULL THEN 'payload' END, CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN priority IS NOT NULL THEN 'priority' END, CASE WHEN type IS NOT NULL THEN 'type' END,
        CASE WHEN schema_version IS NOT NULL THEN 'schema_version' END,
        CASE WHEN max_attempts IS NOT NULL THEN 'max_attempts' END, CASE WHEN ttl IS NOT NULL THEN 'ttl' END
      ], NULL))));
    -- A claim before the COMMIT passes over the locked row, which may fall due by then.
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.change IS
  'Edits a waiting message; NULL keeps the old value. ttl counts from its due time. result: changed or refused (see state).';

-- Removes messages that are not in flight and match every filter given, behind after_id in the order of their ids: at
-- most 1,000, and it looks at 10,000 at most. dry_run: counts them. next_id: where the next step begins; null at the end
-- of the queue.
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
  PERFORM sluice_private.check_claim(queue);
  IF state NOT IN ('ready', 'scheduled', 'retrying', 'expired') THEN
    RAISE EXCEPTION 'state: expected ready, scheduled, retrying or expired, received %', quote_literal(left(state, 80))
      USING ERRCODE = '22023', HINT = 'Messages in flight are not cleared. Leave it out for all others.';
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
      OR state IS NOT NULL AND state <> sluice_private.state_of(queue, m.id, m);
    IF NOT dry_run THEN
      -- In its newest version, which may have been claimed since.
      m := sluice_private.lock_one(queue, m.id);
      CONTINUE WHEN m.id IS NULL OR coalesce(m.lease, 0) <> 0 AND m.due_at > clock_timestamp()
        OR state IS NOT NULL AND state <> sluice_private.state_of(queue, m.id, m);
    END IF;
    ids := ids || m.id;
    EXIT WHEN cardinality(ids) >= 1000;
  END LOOP;
  messages := cardinality(ids);
  IF NOT dry_run AND messages > 0 THEN
    PERFORM sluice_private.remove_locked(queue, ids);
    PERFORM sluice_private.note_action('queue.clear', queue, messages, NULL, ids, jsonb_strip_nulls(jsonb_build_object(
      'type', type, 'ordering_key', ordering_key, 'tenant', tenant, 'enqueued_before', enqueued_before,
      'enqueued_after', enqueued_after, 'state', state)), continues => after_id IS NOT NULL);
    IF EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue) THEN
      IF sluice_private.release_holds(queue) > 0 THEN
        PERFORM sluice_private.notify('!holds!' || queue);
      END IF;
      PERFORM sluice_private.wake(queue);
    END IF;
  END IF;
  IF looked < 10000 AND messages < 1000 THEN
    next_id := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.clear_some IS
  'Removes messages of a queue that are not in flight and match all given filters. Each call is one bounded step, from '
  'after_id on: call it again with next_id until that is NULL. dry_run only counts them.';
