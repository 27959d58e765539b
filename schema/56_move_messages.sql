-- Moves messages from one queue to another, as from a queue with a misspelt name. What others have locked stays where it is.
-- Nothing here waits for a handler. A step waits for producers 20 times at most, 1 ms each: a dedupe key that an open
-- transaction has inserted cannot be seen without a wait.
--
-- Public functions: sluice.move_messages.

-- Whether a message with an ordering key has to stay: a batch has its slot, or another message of its key that goes first,
-- in flight or after a failure, stays in the queue. Without that one it would begin too soon. moving: those that do not stay.
CREATE FUNCTION sluice_private.key_stays(m sluice.message, moving bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  hold jsonb;
  held_for bigint[];
BEGIN
  IF m.slot IS NULL THEN
    RETURN false;
  ELSIF NOT sluice_private.lock_slot_of(m) THEN
    RETURN true;
  END IF;
  hold := sluice_private.hold_of(m);
  held_for := sluice_private.held_for(hold);
  RETURN EXISTS (
    -- Of several that a batch has put off together, the first goes first.
    SELECT FROM sluice.message o
    WHERE o.queue = m.queue AND o.slot = m.slot AND o.slot IS NOT NULL AND o.lease IS NOT NULL
      AND o.ordering_key = m.ordering_key AND o.id <> m.id AND (m.lease IS NULL OR o.id < m.id)
      AND o.id <> ALL (moving)
  ) OR (hold ->> 1)::bigint > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND EXISTS (
    SELECT FROM sluice_private.rows_of(m.queue, held_for) o
    WHERE o.id <> m.id AND o.id <> ALL (moving) AND (m.id <> ALL (held_for) OR o.id < m.id)
  );
END
$$;

-- Whether a message cannot be in a queue, because its dedupe key is taken there, or, after an INSERT by hand, its id.
CREATE FUNCTION sluice_private.is_taken(m sluice.message, target text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (SELECT FROM sluice.message o WHERE o.queue = target AND o.id = m.id)
    OR EXISTS (SELECT FROM sluice.dead_letter o WHERE o.queue = target AND o.id = m.id)
    OR m.dedupe_key IS NOT NULL
      AND (sluice_private.find_duplicate(target, m.dedupe_key, 'reject', false)).answer IS NOT NULL;
END
$$;

-- Lets a dedupe key of the target stand for a message that comes there, with what is left of the window of throttle: moved.
-- duplicate: the key is taken. locked: a producer has inserted it, and its transaction has not ended within 1 ms. The pointer
-- of the queue that it leaves stays: without its message, the key is free there.
CREATE FUNCTION sluice_private.take_key(m sluice.message, target text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1ms' AS $$
#variable_conflict use_variable
DECLARE
  window_end timestamptz := (
    SELECT d.until FROM sluice.dedupe d WHERE d.queue = m.queue AND d.key = m.dedupe_key AND d.message_id = m.id
  );
BEGIN
  PERFORM FROM sluice.dedupe d WHERE d.queue = target AND d.key = m.dedupe_key FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    -- Its statements see what was committed before the lock.
    IF sluice_private.is_taken(m, target) THEN
      RETURN 'duplicate';
    END IF;
    UPDATE sluice.dedupe d SET message_id = m.id, running_id = NULL, until = window_end
    WHERE d.queue = target AND d.key = m.dedupe_key;
    RETURN 'moved';
  END IF;
  INSERT INTO sluice.dedupe (queue, key, message_id, until)
  VALUES (target, m.dedupe_key, m.id, window_end) ON CONFLICT DO NOTHING;
  RETURN CASE WHEN FOUND THEN 'moved' ELSE 'duplicate' END;
EXCEPTION WHEN lock_not_available THEN
  RETURN 'locked';
END
$$;

-- Whether a message moves: moved, or why it stays: in_flight, held, duplicate, locked (take_key). Null: it is not there any
-- more. Locks it. holds: it waits for a retry, or holds its key.
CREATE FUNCTION sluice_private.lock_moving(
  queue text, message_id bigint, target text, state_wanted text, moving bigint[], OUT result text, OUT holds boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message := sluice_private.lock_one(queue, message_id);
  state text := sluice_private.state_of(queue, message_id, m);
BEGIN
  IF state = 'in_flight' THEN
    result := state;
  ELSIF m.id IS NULL OR state <> coalesce(state_wanted, state) THEN
    result := NULL;
  ELSIF sluice_private.key_stays(m, moving) THEN
    result := 'held';
  ELSIF sluice_private.is_taken(m, target) THEN
    result := 'duplicate';
  ELSE
    result := CASE WHEN m.dedupe_key IS NULL THEN 'moved' ELSE sluice_private.take_key(m, target) END;
    holds := m.slot IS NOT NULL
      AND (state = 'retrying' OR m.id = ANY (sluice_private.held_for(sluice_private.hold_of(m))));
  END IF;
END
$$;

-- Moves locked messages. One that is due becomes due now, so that the floors of the target's workers do not hide it, and each is
-- marked for the same: a key, and a whole queue in order, go by ids. Those in `holding` close their keys for the later ones by a
-- lease of 0, as after a lease: a hold would have to be written into a slot that a batch of the target may have. All in one
-- statement: the server parses the constraints of the table in each.
CREATE FUNCTION sluice_private.move_locked(queue text, target text, ids bigint[], holding bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  touched bigint;
BEGIN
  PERFORM sluice_private.end_leases(queue, ids);
  UPDATE sluice.message t
  SET queue = target, due_at = CASE WHEN coalesce(t.expires_at <= now_at, false) THEN t.due_at ELSE greatest(t.due_at, now_at) END,
      lease = CASE WHEN t.lease IS NOT NULL OR t.id = ANY (holding) THEN 0 END,
      redriven = true
  WHERE t.ctid = ANY (sluice_private.ctids_of(queue, ids));
  GET DIAGNOSTICS touched = ROW_COUNT;
  PERFORM sluice_private.require_kept('message', target, cardinality(ids), touched);
  UPDATE sluice.crash c SET queue = target WHERE c.queue = queue AND c.message_id = ANY (ids);
END
$$;

-- What lock_moving would say, without a lock: what others have locked, and what waits for another of its key, counts as moved.
CREATE FUNCTION sluice_private.would_move(m sluice.message, target text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN m.lease <> 0 AND m.due_at > clock_timestamp() THEN 'in_flight'
    WHEN sluice_private.is_taken(m, target) THEN 'duplicate' ELSE 'moved' END;
END
$$;

CREATE FUNCTION sluice_private.check_move(queue text, target text, state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_claim(queue), sluice_private.check_claim(target);
  IF target = queue THEN
    RAISE EXCEPTION 'target: expected another queue than "%", received the same', queue
      USING ERRCODE = '22023', HINT = 'As in sluice.move_messages(''ordres'', ''orders'').';
  ELSIF state NOT IN ('ready', 'scheduled', 'retrying', 'expired') THEN
    RAISE EXCEPTION 'state: expected ready, scheduled, retrying or expired, received %', quote_literal(left(state, 80))
      USING ERRCODE = '22023', HINT = 'Messages in flight are not moved. Leave it out for all others.';
  END IF;
  -- The queue of a group has its events, and nothing else. Its own messages belong to its stream.
  PERFORM sluice_private.refuse_group_queue(queue);
  -- A transaction that makes a group of this name waits for this one, and this one for that.
  PERFORM sluice_private.lock_shared(746507, hashtext(target));
  PERFORM sluice_private.refuse_group_queue(target);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM sluice_private.refuse_newer_group(target);
  END IF;
END
$$;

-- At most 1,000 messages, behind after_id in the order of their ids, and it looks at 10,000 at most. A key of which a message
-- stays is closed for the rest of the move, also if that message has gone since: others of the key have stayed behind it.
CREATE FUNCTION sluice.move_messages(
  queue           text,
  target          text,
  after_id        bigint      DEFAULT NULL,
  type            text        DEFAULT NULL,
  ordering_key    text        DEFAULT NULL,
  tenant          text        DEFAULT NULL,
  enqueued_before timestamptz DEFAULT NULL,
  enqueued_after  timestamptz DEFAULT NULL,
  state           text        DEFAULT NULL,
  dry_run         boolean     DEFAULT false,
  after_keys      text[]      DEFAULT NULL
) RETURNS TABLE (moved integer, in_flight integer, held integer, duplicates integer, next_id bigint, next_keys text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  looked integer := 0;
  waits integer := 0;
  result text;
  holds boolean;
  ids bigint[] := '{}';
  holding bigint[] := '{}';
BEGIN
  PERFORM sluice_private.check_move(queue, target, state);
  next_keys := coalesce(after_keys, '{}');
  in_flight := 0;
  held := 0;
  duplicates := 0;
  FOR m IN
    SELECT t.* FROM sluice.message t
    WHERE t.queue = queue AND t.id > coalesce(after_id, -9223372036854775808)
    ORDER BY t.id LIMIT 10000
  LOOP
    looked := looked + 1;
    next_id := m.id;
    CONTINUE WHEN m.type IS DISTINCT FROM coalesce(type, m.type)
      OR m.ordering_key IS DISTINCT FROM coalesce(ordering_key, m.ordering_key)
      OR m.tenant IS DISTINCT FROM coalesce(tenant, m.tenant)
      OR m.enqueued_at >= enqueued_before OR m.enqueued_at < enqueued_after
      OR state IS NOT NULL AND state <> sluice_private.state_of(queue, m.id, m);
    IF dry_run THEN
      result := sluice_private.would_move(m, target);
    ELSIF m.ordering_key = ANY (next_keys) THEN
      held := held + 1;
      CONTINUE;
    ELSE
      SELECT l.result, l.holds INTO result, holds FROM sluice_private.lock_moving(queue, m.id, target, state, ids) l;
    END IF;
    CASE result
      WHEN 'moved' THEN
        ids := ids || m.id;
        IF holds THEN
          holding := holding || m.id;
        END IF;
      WHEN 'in_flight' THEN in_flight := in_flight + 1;
      WHEN 'held' THEN held := held + 1;
      WHEN 'duplicate' THEN duplicates := duplicates + 1;
      WHEN 'locked' THEN
        duplicates := duplicates + 1;
        waits := waits + 1;
      ELSE NULL;
    END CASE;
    IF result <> 'moved' AND m.slot IS NOT NULL AND NOT dry_run THEN
      next_keys := next_keys || m.ordering_key::text;
    END IF;
    EXIT WHEN cardinality(ids) >= 1000 OR waits >= 20;
  END LOOP;
  moved := cardinality(ids);
  IF NOT dry_run AND moved > 0 THEN
    PERFORM sluice_private.move_locked(queue, target, ids, holding);
    PERFORM sluice_private.note_action('queue.move', queue, moved, NULL, ids, jsonb_strip_nulls(jsonb_build_object(
      'target', target, 'type', type, 'ordering_key', ordering_key, 'tenant', tenant, 'enqueued_before', enqueued_before,
      'enqueued_after', enqueued_after, 'state', state)), continues => after_id IS NOT NULL);
    IF EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue) AND sluice_private.release_holds(queue) > 0 THEN
      PERFORM sluice_private.notify('!holds!' || queue);
    END IF;
    PERFORM sluice_private.wake(target);
  END IF;
  IF looked < 10000 AND moved < 1000 AND waits < 20 THEN
    next_id := NULL;
    next_keys := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.move_messages IS
  'Moves messages of a queue that are not in flight and match all given filters to the queue target, with their ids. Each '
  'call is one bounded step, from after_id on: call it again with next_id and next_keys, which keeps the order of keys, '
  'until next_id is NULL. dry_run only counts them.';
