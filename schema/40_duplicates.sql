-- Looks for the message that has a dedupe key.

-- What stands for a dedupe key: one row always. One statement, so that a message that is settled or redriven at this moment
-- is seen either before or after. Each part is one descent of a primary key.
-- locked: a transaction that has not ended has locked the message. What this transaction has enqueued or changed keeps the
-- number of
--   its own lock.
-- ours: this transaction has claimed it. It has locked what it enqueued or changed as well, but those have its number in
-- xmin.
-- fresh: it was never tried, so nothing waits for its retry.
-- completed_id: the key is taken although the message is gone.
CREATE FUNCTION sluice_private.look_at_key(queue text, key text, message_id bigint, OUT there boolean, OUT attempt integer,
  OUT due_at timestamptz, OUT lease bigint, OUT ordering_key text, OUT slot smallint, OUT expired boolean,
  OUT locked boolean,
  OUT ours boolean, OUT fresh boolean, OUT completed_id bigint, OUT dead boolean, OUT now_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  now_at := clock_timestamp();
  SELECT m.id IS NOT NULL, m.attempt, m.due_at, coalesce(m.lease, 0), m.ordering_key, m.slot,
         coalesce(m.expires_at <= now_at, false),
         sluice_private.in_progress(m.xmax) AND NOT sluice_private.in_progress(m.xmin),
         m.xmax::text <> '0' AND sluice_private.full_xid(m.xmax::text) = pg_current_xact_id_if_assigned()
           AND NOT sluice_private.in_progress(m.xmin),
         m.attempt = 0 AND (m.lease IS NULL OR m.lease = 0 AND m.slot IS NULL) AND m.failed_at IS NULL,
         (SELECT s.message_id FROM sluice.kept_key s WHERE s.queue = queue AND s.key = key AND s.until > now_at
          ORDER BY s.until DESC LIMIT 1),
         EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = message_id)
  INTO there, attempt, due_at, lease, ordering_key, slot, expired, locked, ours, fresh, completed_id, dead
  FROM (SELECT) one LEFT JOIN sluice.message m ON m.queue = queue AND m.id = message_id;
END
$$;

-- The state of the message that has a dedupe key, in words.
CREATE FUNCTION sluice_private.duplicate_state(in_hand boolean, attempt integer, due_at timestamptz, now_at timestamptz)
RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN in_hand THEN 'in_flight' WHEN due_at <= now_at THEN 'ready' WHEN attempt > 0 THEN 'retrying'
    ELSE 'scheduled' END;
END
$$;

-- Locks a message that is not in flight, without waiting. A claim does not wait for it either: for a message with an
-- ordering key it would, so its slot is locked as well, if it is free, and claims pass the slot by.
CREATE FUNCTION sluice_private.lock_waiting(queue text, message_id bigint, slot smallint) RETURNS boolean
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

-- The same, but an expired message that is not in flight does not count. To know whether it is, it is locked; without
-- locks, no message that has expired counts. One whose lease has run out is not locked: its worker may only be late, and
-- would wait here with the renewal of all its leases.
CREATE FUNCTION sluice_private.look_at_holder(queue text, key text, message_id bigint, locks boolean) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen record := sluice_private.look_at_key(queue, key, message_id);
BEGIN
  IF seen.there AND seen.expired THEN
    IF NOT locks OR seen.lease <> 0 AND seen.due_at <= seen.now_at AND NOT seen.locked AND NOT seen.ours THEN
      seen.there := false;
    ELSIF NOT seen.ours THEN
      seen.there := NOT sluice_private.lock_waiting(queue, message_id, seen.slot);
      seen.locked := true;
    END IF;
  END IF;
  RETURN seen;
END
$$;

-- What an enqueue with a dedupe key finds, in one of three ways:
-- answer: the key is taken, and nothing is to be done. It is what insert_deduped returns.
-- waiting_id: a message that waits has the key. It is locked now, and takes what is enqueued. fresh: it was never tried.
-- neither: a message is to be added. running_id, running_key: it comes behind this message, which is in flight, in
-- the
--   order of this key. outcome: what adding it is called.
--
-- locks: the pointer is locked first, so that all that was committed before is seen: each statement has a snapshot of its
-- own in READ COMMITTED. In the other levels the lock fails with 40001 if the pointer has changed since the transaction's
-- snapshot, which is right: begin again. Without locks it says whether the key is taken, to reject and throttle.
CREATE FUNCTION sluice_private.find_duplicate(
  queue text, dedupe_key text, on_duplicate text, locks boolean, OUT is_known boolean, OUT answer text,
  OUT waiting_id bigint,
  OUT fresh boolean, OUT running_id bigint, OUT running_key text, OUT outcome text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  again boolean := on_duplicate IN ('requeue', 'debounce');
  held sluice.dedupe;
  seen record;
  before record;
BEGIN
  IF locks THEN
    SELECT d.* INTO held FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key FOR UPDATE;
  ELSE
    SELECT d.* INTO held FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
  END IF;
  is_known := held.message_id IS NOT NULL;
  outcome := 'added';
  IF NOT is_known THEN
    RETURN;
  END IF;
  seen := sluice_private.look_at_holder(queue, dedupe_key, held.message_id, locks);
  -- The one that was to run after it has gone first: cancelled, cleared or expired.
  IF NOT seen.there AND held.running_id IS NOT NULL THEN
    before := sluice_private.look_at_holder(queue, dedupe_key, held.running_id, locks);
    IF before.there THEN
      seen := before;
      held.message_id := held.running_id;
    END IF;
  END IF;
  IF seen.there AND on_duplicate IN ('reject', 'throttle') THEN
    answer := concat_ws(' ', held.message_id, 'duplicate', sluice_private.duplicate_state(
      seen.ours OR seen.locked OR seen.lease <> 0 AND seen.due_at > seen.now_at, seen.attempt, seen.due_at, seen.now_at
    ));
  -- A message whose lease has run out may be followed, like one in flight. update would lose the new content.
  ELSIF seen.there AND (seen.lease = 0 OR on_duplicate = 'update' AND seen.due_at <= seen.now_at) AND NOT seen.ours
    AND sluice_private.lock_waiting(queue, held.message_id, seen.slot)
  THEN
    waiting_id := held.message_id;
    fresh := seen.fresh;
  -- It is in flight. The other message comes behind it in the order of its key, and never beside it.
  ELSIF seen.there AND (on_duplicate = 'update' OR seen.ordering_key IS NULL) THEN
    answer := concat_ws(' ', held.message_id, 'duplicate in_flight');
  ELSIF seen.there THEN
    running_id := held.message_id;
    running_key := seen.ordering_key;
    outcome := 'requeued';
  ELSIF seen.completed_id IS NOT NULL AND NOT again THEN
    answer := concat_ws(' ', seen.completed_id, 'duplicate completed');
  ELSIF seen.completed_id IS NOT NULL THEN
    outcome := 'requeued';
  ELSIF held.until > seen.now_at AND NOT again THEN
    answer := concat_ws(' ', held.message_id, 'duplicate', CASE WHEN seen.dead THEN 'dead' ELSE 'unknown' END);
  END IF;
END
$$;
