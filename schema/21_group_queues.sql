-- The queue of a group has the events of its stream that have failed, and nothing else.

-- Takes a shared lock that lives as long as the rows that the transaction, or its subtransaction, writes. A lock that is
-- taken in a cursor belongs to the cursor: if a later FETCH fails and is undone to a savepoint, the lock goes, and the rows
-- of earlier FETCHes stay. A block that catches errors is a subtransaction, which leaves its locks to the one around it, and
-- not to the cursor.
CREATE FUNCTION sluice_private.lock_shared(class integer, object integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(class, object);
EXCEPTION WHEN assert_failure THEN
  RAISE;
END
$$;

-- Whether a queue is that of a group, <stream>:<group>. Others may have a ':' in their names as well.
CREATE FUNCTION sluice_private.is_of_group(queue text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM sluice.stream_group g
    WHERE g.stream = split_part(queue, ':', 1) AND g.name = substr(queue, strpos(queue, ':') + 1)
  )
$$;

CREATE FUNCTION sluice_private.say_group_queue(queue text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'queue: expected one that is not of a group, received "%"', queue
    USING ERRCODE = 'SL034', HINT = 'Append to the stream, or consume it with its group.';
END
$$;

-- The queue of a group has the events of its stream that have failed, and nothing else: an enqueued message would have no
-- position, and a consumer without the group would not keep the order of the log.
CREATE FUNCTION sluice_private.refuse_group_queue(queue text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  IF sluice_private.is_of_group(queue) THEN
    PERFORM sluice_private.say_group_queue(queue);
  END IF;
END
$$;

-- The same where the snapshot may be older than the group. The unique index on its name shows the group all the same, to
-- an attempt to make another. The attempt is undone in any case, so no other session is kept from making it. The number
-- is one that no other session tries at the same time.
CREATE FUNCTION sluice_private.refuse_newer_group(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO sluice.stream_group (id, stream, name) OVERRIDING SYSTEM VALUE
  VALUES (-pg_backend_pid(), split_part(queue, ':', 1), substr(queue, strpos(queue, ':') + 1));
  RAISE no_data_found;
EXCEPTION
  -- No group has such a name.
  WHEN no_data_found OR check_violation THEN
    NULL;
  WHEN unique_violation THEN
    PERFORM sluice_private.say_group_queue(queue);
END
$$;

CREATE FUNCTION sluice_private.refuse_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  -- A transaction that makes a group of this name waits for this one, and this one for that.
  PERFORM sluice_private.lock_shared(746507, hashtext(NEW.queue));
  PERFORM sluice_private.refuse_group_queue(NEW.queue);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM sluice_private.refuse_newer_group(NEW.queue);
  END IF;
  RETURN NULL;
END
$$;

-- Only names with a ':' can be of a group, so other messages pay for a look at their name.
CREATE TRIGGER message_group AFTER INSERT ON sluice.message FOR EACH ROW
WHEN (NEW.event_position IS NULL AND pg_catalog.strpos(NEW.queue, ':') OPERATOR(pg_catalog.>) 0)
EXECUTE FUNCTION sluice_private.refuse_inserted();

-- Before a message is put into the queue of a group, or after it. A snapshot that does not move may show a row that is gone.
CREATE FUNCTION sluice_private.note_queued(group_id integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.lock_shared(746506, group_id);
  INSERT INTO sluice.group_queued (group_id)
  SELECT g.id FROM sluice.stream_group g
  WHERE g.id = group_id AND (current_setting('transaction_isolation') <> 'read committed'
    OR NOT EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = group_id));
END
$$;

-- Notes that the queue of a group is empty, if it is. Returns whether it has. It does not wait.
CREATE FUNCTION sluice_private.note_empty(group_id integer, queue text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
BEGIN
  -- A snapshot that does not move may be older than the lock, and not show a message that was put there before it.
  IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(746506, group_id) THEN
    RETURN false;
  END IF;
  PERFORM FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 1;
  IF NOT FOUND THEN
    PERFORM FROM sluice.message m WHERE m.queue = queue AND m.slot IS NULL ORDER BY m.priority, m.due_at, m.id LIMIT 1;
  END IF;
  IF FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM sluice.group_queued q WHERE q.group_id = group_id;
  RETURN FOUND;
END
$$;

-- Called before dead letters of a group are redriven. A batch of the log may hold later events of their keys, because it
-- found nothing of these keys in the queue. So this waits for the batches that have their partitions; the next batches find
-- them there. Those without a key need no wait. Then it notes that the queue has messages, behind the locks of the
-- partitions, as a batch that defers events does; the group cannot be deleted from here on. A queue that is not of a
-- group is left as it is. While it waits for a partition it has those before it, so it asks for no partition that it
-- does not need.
CREATE FUNCTION sluice_private.lock_dead_events(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  group_id integer;
  partitions smallint;
  locked_as smallint;
  partition smallint;
BEGIN
  LOOP
    SELECT g.id, s.partitions INTO group_id, partitions FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream
    WHERE g.stream = split_part(queue, ':', 1) AND g.name = substr(queue, strpos(queue, ':') + 1);
    IF NOT FOUND OR ids = '{}' THEN
      RETURN;
    END IF;
    -- To give the stream other partitions, change_partitions locks all partitions of its groups.
    EXIT WHEN locked_as = partitions;
    locked_as := partitions;
    FOR partition IN
      SELECT DISTINCT sluice_private.event_partition(d.ordering_key, partitions) AS partition FROM sluice.dead_letter d
      WHERE d.queue = queue AND d.id = ANY (ids) AND d.ordering_key IS NOT NULL ORDER BY 1
    LOOP
      PERFORM pg_advisory_xact_lock(746503, group_id << 6 | partition);
    END LOOP;
  END LOOP;
  PERFORM sluice_private.note_queued(group_id);
END
$$;
