-- Changes groups of streams: retries and skips failed events, moves groups, changes their settings, and deletes them.
--
-- Public functions: sluice.retry_partitions, sluice.skip_event, sluice.group_set, sluice.seek_group, sluice.delete_group.

-- The partitions of a group whose next event has failed, and that event: they wait for it, or it is due, or in flight.
CREATE FUNCTION sluice_private.held_partitions(log sluice.stream, of_group integer)
RETURNS TABLE (partition smallint, progress bigint, "position" bigint, attempt integer, last_error text, failures jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.partition, r.position, r.next_position, r.attempt, r.last_error, r.failures
  FROM sluice.stream_group g CROSS JOIN LATERAL sluice_private.read_group_partitions(log.stream, g.name, 1) r
  WHERE g.id = of_group AND r.held_until IS NOT NULL ORDER BY r.partition
$$;

-- Has the failed event of each waiting partition tried again now, as if it had never been tried. No batch has a
-- partition that waits, so its lock is there at once; where the event is being tried just now, this waits for that batch.
CREATE FUNCTION sluice_private.retry_held(stream text, name text, partition integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
  held record;
  freed integer := 0;
BEGIN
  PERFORM sluice_private.check_isolation();
  FOR held IN SELECT h.* FROM sluice_private.held_partitions(log, this_group.id) h WHERE partition IS NULL OR h.partition = partition LOOP
    PERFORM pg_advisory_xact_lock(746503, this_group.id << 6 | held.partition);
    UPDATE sluice.group_progress p SET held_until = NULL, attempt = 0, last_error = NULL, failures = NULL
    WHERE p.group_id = this_group.id AND p.partition = held.partition AND p.held_until IS NOT NULL;
    IF FOUND THEN
      freed := freed + 1;
    END IF;
  END LOOP;
  IF freed > 0 THEN
    PERFORM sluice_private.wake_stream(stream);
  END IF;
  RETURN freed;
END
$$;

CREATE FUNCTION sluice.retry_partitions(stream text, name text, partition integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  freed integer := sluice_private.retry_held(stream, name, partition);
BEGIN
  PERFORM sluice_private.note_action('group.retry', stream || ':' || name, freed,
    details => jsonb_strip_nulls(jsonb_build_object('partition', partition)));
  RETURN freed;
END
$$;
COMMENT ON FUNCTION sluice.retry_partitions IS
  'Retries the failed events that block partitions of a group, now: in one partition, or null: in all. Returns how many partitions '
  'continue.';

-- Passes over an event that a partition waits for because it has failed. It becomes a dead letter.
CREATE FUNCTION sluice.skip_event(stream text, name text, "position" bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
  held record;
BEGIN
  PERFORM sluice_private.check_isolation();
  SELECT h.* INTO held FROM sluice_private.held_partitions(log, this_group.id) h WHERE h.position = position;
  IF held.partition IS NULL THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(746503, this_group.id << 6 | held.partition);
  -- Another one may have been faster.
  SELECT h.* INTO held FROM sluice_private.held_partitions(log, this_group.id) h WHERE h.position = position;
  IF held.partition IS NULL THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.dead_letter_events(this_group.id, ARRAY[held.partition], ARRAY[position], ARRAY[held.attempt], ARRAY['skipped'],
    ARRAY[held.last_error], ARRAY[held.failures -> -1]);
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id AND p.partition = held.partition;
  INSERT INTO sluice.group_progress (group_id, partition, position) VALUES (this_group.id, held.partition, position);
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name AND c.message_id = -position;
  PERFORM sluice_private.wake_stream(stream);
  PERFORM sluice_private.note_action('group.skip', stream || ':' || name, 1,
    details => jsonb_build_object('position', position, 'partition', held.partition));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.skip_event IS
  'Skips a failed event that blocks a partition of a group: it becomes a dead letter. Returns whether a partition was waiting for it.';

-- Changes the settings of a group; what is null stays as it is. The handling of failed events changes between two batches
-- of each partition, and partitions that wait for theirs are tried again.
CREATE FUNCTION sluice.group_set(stream text, name text, defer_limit integer DEFAULT NULL, keep_unread boolean DEFAULT NULL,
                                 on_failure text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
BEGIN
  IF on_failure <> this_group.on_failure THEN
    this_group := sluice_private.lock_found_group(sluice_private.find_stream(stream), name);
    PERFORM sluice_private.retry_held(stream, name, NULL);
  END IF;
  UPDATE sluice.stream_group g
  SET defer_limit = coalesce(group_set.defer_limit, g.defer_limit),
      keep_unread = coalesce(group_set.keep_unread, g.keep_unread), on_failure = coalesce(group_set.on_failure, g.on_failure)
  WHERE g.id = this_group.id
    AND (g.defer_limit <> group_set.defer_limit
         OR g.keep_unread IS DISTINCT FROM coalesce(group_set.keep_unread, g.keep_unread)
         OR g.on_failure <> group_set.on_failure);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_action('group.set', stream || ':' || name, 1, details => jsonb_strip_nulls(jsonb_build_object(
    'outcome', 'changed', 'defer_limit', defer_limit, 'keep_unread', keep_unread, 'on_failure', on_failure)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.group_set IS
  'Changes how many events a group may defer, whether its unread events are kept, and what it does on_failure: defer or '
  'stop. null keeps the old value. Returns whether something changed.';

-- Moves a group: the next event of each partition is the first one behind starts that is not gone; behind the head it
-- is the next one. deferred, what becomes of messages that wait in its queue: keep (they are tried again as well) or
-- drop; null: the move is refused if there are any. What it is said to have lost is forgotten. Returns how many
-- messages were dropped.
CREATE FUNCTION sluice.seek_group(stream text, name text, starts bigint[], deferred text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group;
  head bigint;
  waiting bigint;
  dropped bigint := 0;
BEGIN
  IF deferred NOT IN ('keep', 'drop') THEN
    RAISE EXCEPTION 'deferred: expected keep or drop, received %', quote_literal(left(deferred, 80))
      USING ERRCODE = '22023', HINT = 'Leave it out to be refused.';
  END IF;
  -- In this order, as in sluice.trim_stream. What is gone by then stays gone, and no more goes before the end of the
  -- transaction.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR SHARE;
  IF starts IS NULL THEN
    RAISE EXCEPTION 'starts: expected 1 or % positions, received NULL', log.partitions
      USING ERRCODE = '22023',
        HINT = 'As sluice.stream_positions returns them. For the end: sluice.stream_positions(stream, ''end'').';
  END IF;
  PERFORM sluice_private.check_starts('starts', starts, log.partitions);
  this_group := sluice_private.lock_found_group(log, name);
  SELECT count(*) INTO waiting FROM sluice.message m WHERE m.queue = stream || ':' || name;
  IF waiting > 0 AND deferred IS NULL THEN
    RAISE EXCEPTION 'deferred: expected keep or drop, because % events wait in queue "%:%", received none', waiting,
      stream, name
      USING ERRCODE = 'SL033', HINT = 'keep: they are tried again as well. drop: they are removed.';
  ELSIF deferred = 'drop' THEN
    -- In the order of claims, which wait for messages in partitions that they have locked.
    DELETE FROM sluice.slot s WHERE s.queue = stream || ':' || name;
    DELETE FROM sluice.message m WHERE m.queue = stream || ':' || name;
    GET DIAGNOSTICS dropped = ROW_COUNT;
  END IF;
  head := sluice_private.stream_head(log.positions);
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id;
  INSERT INTO sluice.group_progress (group_id, partition, position)
  SELECT this_group.id, partition,
    greatest(log.trimmed_to, least(head, CASE WHEN cardinality(starts) = 1 THEN starts[1] ELSE starts[partition + 1] END))
  FROM generate_series(0, log.partitions - 1) AS partition;
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name AND c.message_id < 0;
  UPDATE sluice.stream_group g SET lost_from = NULL, lost_to = NULL WHERE g.id = this_group.id AND g.lost_from IS NOT NULL;
  PERFORM sluice_private.wake_stream(stream);
  PERFORM sluice_private.note_action('group.seek', stream || ':' || name, 1,
    details => jsonb_build_object('starts', starts, 'dropped', dropped));
  RETURN dropped;
END
$$;
COMMENT ON FUNCTION sluice.seek_group IS
  'Moves a group to positions that sluice.stream_positions returns. deferred: keep or drop its deferred events; null: '
  'fails if there are any. Returns how many were dropped.';

-- Deletes a group, with the events in its queue, its dead letters, and the settings of its queue.
CREATE FUNCTION sluice.delete_group(stream text, name text) RETURNS TABLE (messages bigint, dead_letters bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group := sluice_private.lock_found_group(sluice_private.find_stream(stream), name);
BEGIN
  -- No redrive puts messages there any more: see sluice_private.lock_dead_events.
  PERFORM pg_advisory_xact_lock(746506, this_group.id);
  DELETE FROM sluice.stream_group g WHERE g.id = this_group.id;
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id;
  DELETE FROM sluice.group_queued q WHERE q.group_id = this_group.id;
  -- In the order of claims: see sluice.seek_group.
  DELETE FROM sluice.slot s WHERE s.queue = stream || ':' || name;
  DELETE FROM sluice.message m WHERE m.queue = stream || ':' || name;
  GET DIAGNOSTICS messages = ROW_COUNT;
  -- Behind the messages: this has waited for the batches that had some of them, and may have buried them.
  DELETE FROM sluice.dead_letter d WHERE d.queue = stream || ':' || name;
  GET DIAGNOSTICS dead_letters = ROW_COUNT;
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name;
  DELETE FROM sluice.queue q WHERE q.queue = stream || ':' || name;
  PERFORM sluice_private.note_action('group.delete', stream || ':' || name, 1,
    details => jsonb_build_object('messages', messages, 'dead_letters', dead_letters));
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.delete_group IS
  'Deletes a group with its deferred events, its dead letters and the settings of its queue. Returns how many messages '
  'and dead letters it deleted.';
