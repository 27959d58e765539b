-- Holds of ordering keys, as operations on messages find and change them.

-- The entry of a message's key in the row of its slot, as of now. Messages without a key have one in slot 256, where a
-- pipeline orders the whole queue.
CREATE FUNCTION sluice_private.hold_of(m sluice.message) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT s.held -> coalesce(m.ordering_key, '') FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- The messages for which a key is held, by its entry.
CREATE FUNCTION sluice_private.held_for(hold jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT e.id::bigint FROM jsonb_array_elements_text(hold - 1) AS e (id))
$$;

-- Whether the slot of a message is locked for us now, or there is none.
CREATE FUNCTION sluice_private.lock_slot_of(m sluice.message) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256) FOR NO KEY UPDATE OF s SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- Fits the hold of a key to the messages that it is for, in the row of a slot that is locked: one of them has another due
-- time (message_id), or is gone (null). It lasts until the last of those that are not due yet is due; if there is none, it goes. A
-- lease closes the key by itself.
CREATE FUNCTION sluice_private.refit_hold(queue text, slot smallint, key text, message_id bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  held_for bigint[] := (SELECT sluice_private.held_for(s.held -> key) FROM sluice.slot s
    WHERE s.queue = queue AND s.slot = slot);
  waiting bigint[];
  until_us bigint;
BEGIN
  -- The microseconds of infinity, and of the last years of timestamptz, overflow.
  SELECT array_agg(m.id ORDER BY m.id), (date_part('epoch', least(max(m.due_at), '9999-12-31 23:59:59Z')) * 1000000)::bigint
  INTO waiting, until_us
  FROM sluice_private.rows_of(queue, array_remove(held_for, message_id) || message_id) m
  WHERE m.due_at > now_at AND coalesce(m.lease, 0) = 0;
  UPDATE sluice.slot s
  SET held = CASE WHEN waiting IS NULL THEN s.held - key
                  ELSE jsonb_set(s.held, ARRAY[key], jsonb_build_array(waiting[1], until_us) || to_jsonb(waiting[2:])) END
  WHERE s.queue = queue AND s.slot = slot;
END
$$;

-- Fits the holds of which a message is gone to those that are left, where their slots can be locked. Returns how many it could not.
CREATE FUNCTION sluice_private.release_holds(queue text) RETURNS integer
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
    WHERE s.queue = queue AND s.held <> '{}'
      AND (h.value ->> 1)::bigint > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
      AND EXISTS (
        SELECT FROM jsonb_array_elements_text(h.value - 1) AS e (id)
        -- Not by NOT EXISTS: the planner would join all messages of the queue.
        WHERE (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = e.id::bigint LIMIT 1) IS NULL
      )
  LOOP
    PERFORM FROM sluice.slot s
    WHERE s.queue = queue AND s.slot = orphan.slot AND (s.held -> orphan.key ->> 0)::bigint = orphan.id
    FOR NO KEY UPDATE OF s SKIP LOCKED;
    IF FOUND THEN
      PERFORM sluice_private.refit_hold(queue, orphan.slot, orphan.key, NULL);
      released := released + 1;
    ELSE
      left_over := left_over + 1;
    END IF;
  END LOOP;
  IF released > 0 THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN left_over;
END
$$;

-- A message is gone: its key is free, now or, if its slot is locked, as soon as a worker of the queue has looked.
CREATE FUNCTION sluice_private.open_key(gone sluice.message) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF gone.id = ANY (sluice_private.held_for(sluice_private.hold_of(gone))) THEN
    IF sluice_private.lock_slot_of(gone) THEN
      PERFORM sluice_private.refit_hold(gone.queue, coalesce(gone.slot, 256::smallint),
        coalesce(gone.ordering_key, ''), NULL);
    ELSE
      PERFORM sluice_private.notify('!holds!' || gone.queue);
    END IF;
  ELSIF gone.lease IS NULL OR gone.slot IS NULL THEN
    RETURN;
  END IF;
  PERFORM sluice_private.wake(gone.queue);
END
$$;
