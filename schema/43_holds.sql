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

-- Whether the slot of a message is locked for us now, or there is none.
CREATE FUNCTION sluice_private.lock_slot_of(m sluice.message) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256) FOR NO KEY UPDATE OF s SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- Fits the hold of a key to the messages that it is for, in the row of a slot that is locked: one of them has another due
-- time (message_id), or is gone (null). Of the messages of the key that fall due before the end of the hold, it lasts until
-- the last one is due; if there is none, it goes. A batch can have postponed several messages of a key, and the entry has
-- the number of only one. A message with a delay that happens to fall due in that time counts too: the row does not tell it
-- from one that was snoozed.
CREATE FUNCTION sluice_private.refit_hold(queue text, slot smallint, key text, message_id bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  until_us bigint := (SELECT coalesce((s.held -> key ->> 1)::bigint, 0) FROM sluice.slot s
    WHERE s.queue = queue AND s.slot = slot);
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
           (date_part('epoch',
             least(greatest(every.due_at, '0001-01-01 00:00Z'), '9999-12-31 23:59:59Z')) * 1000000)::bigint AS due_us
  ) w
  WHERE coalesce(w.ordering_key, '') = key AND w.due_us > now_us
    AND (w.due_us <= until_us OR w.id = message_id);
  UPDATE sluice.slot s
  SET held = CASE WHEN first IS NULL THEN s.held - key ELSE jsonb_set(s.held, ARRAY[key], jsonb_build_array(first, last)) END
  WHERE s.queue = queue AND s.slot = slot;
END
$$;

-- Takes away the holds of messages that are gone, where their slots can be locked. Returns how many it could not.
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
      -- Not by NOT EXISTS: the planner would join all messages of the queue.
      AND (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = (h.value ->> 0)::bigint LIMIT 1) IS NULL
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
  IF (sluice_private.hold_of(gone) ->> 0)::bigint = gone.id THEN
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
