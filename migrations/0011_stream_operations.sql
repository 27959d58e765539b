-- What is done with streams while they run: reading without a group, moving groups, retention; and the views.
--
-- Positions and locks are as of now, and events and progress as of the snapshot. What judges by both needs a snapshot that is newer than the
-- positions, or it takes an event that it does not see for none: such functions begin with sluice.check_isolation.

-- The last position of its events, from when it is closed.
ALTER TABLE sluice.segment ADD COLUMN last bigint;
-- For each slot the last position in this segment and those before it, from when the segment is closed and settled. So one row says whether
-- a slot has an event behind a position and before a segment, and nobody has to look into the segments between.
ALTER TABLE sluice.segment ADD COLUMN lasts bigint[];
-- Whether what the group has not read stays: true and false say so, null: as the stream says, unless the group is paused.
ALTER TABLE sluice.stream_group ADD COLUMN keep_unread boolean;

-- Places
CREATE FUNCTION sluice.find_group(stream text, name text) RETURNS sluice.stream_group
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group;
BEGIN
  PERFORM sluice.find_stream(stream);
  SELECT g.* INTO this_group FROM sluice.stream_group g WHERE g.stream = stream AND g.name = name;
  IF this_group.id IS NULL THEN
    RAISE EXCEPTION 'expected the name of a group of stream "%", received "%"', stream, name
      USING ERRCODE = 'SL032', HINT = 'Make it with sluice.create_group.';
  END IF;
  RETURN this_group;
END
$$;

-- Behind which position each slot begins with the first event that was appended at an instant or later; its bound if there is
-- none. By bisection: each step is one descent of (slot, position) to the first event behind the middle, some 30 for each
-- slot, in a stream of any length. The clock is read when the position has been drawn, so it almost ascends, unless it was set back, as by a
-- fail-over: the bisection looks for ten minutes earlier, and then reads on. Through sluice.event the server would lock the segments of all streams.
CREATE FUNCTION sluice.positions_at(log sluice.stream, at timestamptz, bounds bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
DECLARE
  found_positions bigint[];
BEGIN
  EXECUTE format($query$
    SELECT array_agg(coalesce((
      SELECT e.position - 1 FROM sluice.%1$I e
      WHERE e.slot = s.slot AND e.position > b.low AND e.position <= s.bound AND e.appended_at >= $2
      ORDER BY e.position LIMIT 1
    ), s.bound) ORDER BY s.slot)
    FROM (SELECT (o.ordinal - 2)::smallint AS slot, o.bound FROM unnest($3) WITH ORDINALITY AS o (bound, ordinal) WHERE o.ordinal > 1) s
    CROSS JOIN LATERAL (
      WITH RECURSIVE step (low, high) AS (
        SELECT $1, greatest(s.bound, $1)
        UNION ALL
        SELECT CASE WHEN f.appended_at < $2 - interval '10 minutes' THEN f.position ELSE p.low END,
               CASE WHEN f.appended_at < $2 - interval '10 minutes' THEN p.high ELSE (p.low + p.high) / 2 END
        FROM step p LEFT JOIN LATERAL (
          SELECT e.position, e.appended_at FROM sluice.%1$I e
          WHERE e.slot = s.slot AND e.position > (p.low + p.high) / 2 AND e.position <= p.high ORDER BY e.position LIMIT 1
        ) f ON true
        WHERE p.low < p.high
      )
      SELECT max(p.low) AS low FROM step p
    ) b
  $query$, 'event_' || log.id) INTO found_positions USING log.trimmed_to, at, bounds;
  RETURN found_positions;
END
$$;

-- Behind which position each slot begins: at the start, which is what is still there; at the end, which is what is settled
-- now; at a position, which may be behind an append that is open, and behind the head is the end; or at an instant.
CREATE FUNCTION sluice.stream_positions(stream text, place text, at_position bigint DEFAULT NULL, at_time timestamptz DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
  bounds bigint[] := sluice.slot_bounds(log.id, log.positions);
BEGIN
  IF place = 'end' THEN
    RETURN bounds[2:];
  ELSIF place = 'start' THEN
    RETURN array_fill(log.trimmed_to, ARRAY[cardinality(bounds) - 1]);
  ELSIF place = 'position' AND at_position > bounds[1] THEN
    RETURN bounds[2:];
  ELSIF place = 'position' AND at_position IS NOT NULL THEN
    RETURN array_fill(greatest(log.trimmed_to, at_position - 1), ARRAY[cardinality(bounds) - 1]);
  ELSIF place = 'time' AND at_time IS NOT NULL THEN
    PERFORM sluice.check_isolation();
    RETURN sluice.positions_at(log, at_time, bounds);
  END IF;
  RAISE EXCEPTION 'place: expected start, end, position with at_position, or time with at_time, received %', coalesce(quote_literal(left(place, 80)), 'NULL')
    USING ERRCODE = '22023', HINT = 'As in sluice.stream_positions(''orders'', ''time'', at_time => now() - interval ''1 day'').';
END
$$;
COMMENT ON FUNCTION sluice.stream_positions IS
  'Behind which position each slot of a stream begins: place is start, end, position (with at_position) or time (with at_time). For sluice.create_group and sluice.seek_group.';

-- What a reader must know of a stream, and in an earlier statement than the one that reads: the number in its table's name,
-- what has been trimmed, and up to which position each slot is settled (the first number is the head).
CREATE FUNCTION sluice.stream_bounds(stream text) RETURNS TABLE (stream_id integer, slots smallint, trimmed_to bigint, bounds bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'stream: expected the primary server, received a hot standby, which does not know of appends that are open'
      USING ERRCODE = '0A000', HINT = 'Read the stream on the primary.';
  END IF;
  PERFORM sluice.check_isolation();
  bounds := sluice.slot_bounds(log.id, log.positions);
  RETURN QUERY SELECT log.id, (cardinality(bounds) - 1)::smallint, log.trimmed_to, bounds;
END
$$;

-- Events between two places of a page of slots and windows, in order of position: see sluice.read_events in the library. It
-- has the rights of the owner, because a stream's table is made after the roles have been granted what they may read.
-- Each slot is a range of (slot, position), which ends at its LIMIT; the rows of the slots are sorted by position.
CREATE FUNCTION sluice.read_events(stream_id integer, slots smallint[], starts bigint[], ends bigint[], most integer, type text DEFAULT NULL,
                                   ordering_key text DEFAULT NULL) RETURNS SETOF sluice.event
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
BEGIN
  RETURN QUERY EXECUTE format($query$
    SELECT e.* FROM unnest($1, $2, $3) AS s (slot, start, finish) CROSS JOIN LATERAL (
      SELECT e.* FROM %s e
      WHERE e.slot = s.slot AND e.position > s.start AND e.position <= s.finish
        AND ($5 IS NULL OR e.type = $5) AND ($6 IS NULL OR e.ordering_key = $6)
      ORDER BY e.position LIMIT $4
    ) e
    ORDER BY e.position LIMIT $4
  $query$, sluice.part_of_log('event_' || stream_id, (SELECT min(s) FROM unnest(starts) AS s), (SELECT max(f) FROM unnest(ends) AS f)))
  USING slots, starts, ends, most, type, ordering_key;
END
$$;

-- The first position behind a place, of any of the slots; null: there is none. Segment by segment, without those that are known to have none.
CREATE FUNCTION sluice.next_position(stream_id integer, slots smallint[], starts bigint[], ends bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off SET enable_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
DECLARE
  low bigint := (SELECT min(s) FROM unnest(starts) AS s);
  high bigint := (SELECT max(f) FROM unnest(ends) AS f);
  part bigint;
  found_position bigint;
BEGIN
  FOR part IN
    SELECT g.first FROM sluice.segment g
    WHERE g.stream_id = next_position.stream_id AND g.first > low - 1000000000 AND g.first <= high AND EXISTS (
      SELECT FROM unnest(slots, starts) AS s (slot, start) WHERE (g.lasts[s.slot + 1] <= s.start) IS NOT TRUE
    )
    ORDER BY g.first
  LOOP
    EXECUTE format($query$
      SELECT min(e.position) FROM unnest($1, $2, $3) AS s (slot, start, finish) CROSS JOIN LATERAL (
        SELECT e.position FROM %s e
        WHERE e.slot = s.slot AND e.position > s.start AND e.position <= s.finish ORDER BY e.position LIMIT 1
      ) e
    $query$, sluice.part_of_log('event_' || stream_id, part - 1, part + 999999999)) INTO found_position USING slots, starts, ends;
    EXIT WHEN found_position IS NOT NULL;
  END LOOP;
  RETURN found_position;
END
$$;

-- How many events there may be behind one position and up to another: positions, without those that a closed segment left out.
CREATE FUNCTION sluice.positions_between(stream_id integer, after bigint, upto bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(sum(greatest(0, least(upto, coalesce(g.last, g.first + 999999999)) - greatest(after, g.first - 1))), 0)::bigint
  FROM sluice.segment g WHERE g.stream_id = positions_between.stream_id
$$;

-- Groups
-- For each slot of a group: how far it has read, the first event that it has not, and how many those are: counted up to `most` in four
-- segments, and beyond that taken from the positions. Events that wait behind an open append are among them. Three descents for each slot, and
-- `most` index entries. A look at all streams locks four segments of each at most, and one more for each place where slots of groups are.
CREATE FUNCTION sluice.read_group_slots(of_stream text, of_group text, most integer, from_positions bigint[] DEFAULT NULL) RETURNS TABLE (
  stream text, name text, slot smallint, "position" bigint, settled bigint, next_position bigint, next_appended_at timestamptz, unread bigint,
  moved_at timestamptz, held_until timestamptz, attempt integer, last_error text, open_pid integer, open_since timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off SET enable_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
#variable_conflict use_column
DECLARE
  log sluice.stream;
  bounds bigint[];
  part record;
BEGIN
  FOR log IN SELECT s.* FROM sluice.stream s WHERE of_stream IS NULL OR s.stream = of_stream ORDER BY s.stream LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = log.stream);
    bounds := sluice.slot_bounds(log.id, log.positions);
    FOR part IN
      SELECT n.segment, array_agg(n.group_id) AS groups, array_agg(n.slot) AS slots, array_agg(n.start) AS starts
      FROM sluice.next_segments(log, of_group, from_positions) n GROUP BY n.segment ORDER BY n.segment
    LOOP
      RETURN QUERY EXECUTE format($query$
        SELECT g.stream, g.name, r.slot, p.position, $3[r.slot + 2], f.position, f.appended_at,
               CASE WHEN c.events < $4 AND $3[1] <= $5 THEN c.events
                    ELSE greatest(c.events, sluice.positions_between($1, f.position - 1, $3[1]) / $2) END,
               p.moved_at, p.held_until, p.attempt, p.last_error, o.pid, o.since
        FROM ROWS FROM (unnest($6), unnest($7), unnest($8)) AS r (group_id, slot, start)
        JOIN sluice.stream_group g ON g.id = r.group_id
        CROSS JOIN LATERAL (
          SELECT p.* FROM sluice.group_progress p WHERE p.group_id = r.group_id AND p.slot = r.slot ORDER BY p.position DESC LIMIT 1
        ) p
        LEFT JOIN LATERAL (
          SELECT e.position, e.appended_at FROM %1$s e WHERE e.slot = r.slot AND e.position > r.start ORDER BY e.position LIMIT 1
        ) f ON true
        CROSS JOIN LATERAL (
          SELECT count(*) AS events FROM (
            SELECT FROM %1$s e WHERE f.position IS NOT NULL AND e.slot = r.slot AND e.position > r.start ORDER BY e.position LIMIT $4
          ) e
        ) c
        LEFT JOIN sluice.open_appends_of($1) o ON o.slot = r.slot
        ORDER BY g.name, r.slot
      $query$, sluice.part_of_log('event_' || log.id, part.segment - 1, least(bounds[1], part.segment + 3999999999)))
      USING log.id, log.slots, bounds, most, part.segment + 3999999999, part.groups, part.slots, part.starts;
    END LOOP;
  END LOOP;
END
$$;

-- The first segment that may have an event which a group has not read, by slot, and behind which position.
CREATE FUNCTION sluice.next_segments(log sluice.stream, of_group text, from_positions bigint[]) RETURNS TABLE (
  group_id integer, slot smallint, start bigint, segment bigint
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT g.id, s.slot::smallint, n.start, coalesce((
    SELECT o.first FROM sluice.segment o
    WHERE o.stream_id = log.id AND o.first > n.start - 1000000000 AND (o.lasts[s.slot + 1] <= n.start) IS NOT TRUE
    ORDER BY o.stream_id, o.first LIMIT 1
  ), 0)
  FROM sluice.stream_group g CROSS JOIN generate_series(0, log.slots - 1) AS s (slot)
  CROSS JOIN LATERAL (
    SELECT p.position FROM sluice.group_progress p WHERE p.group_id = g.id AND p.slot = s.slot ORDER BY p.position DESC LIMIT 1
  ) p
  CROSS JOIN LATERAL (SELECT greatest(log.trimmed_to, coalesce(from_positions[s.slot + 1], p.position)) AS start) n
  WHERE g.stream = log.stream AND (of_group IS NULL OR g.name = of_group)
$$;

-- The oldest transaction that holds each slot back, because it has appended to it and is still open. A prepared one has no
-- process. since is null where the owner of the schema may not see it (pg_read_all_stats).
CREATE FUNCTION sluice.open_appends_of(stream_id integer) RETURNS TABLE (slot smallint, pid integer, since timestamptz, transactions bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT DISTINCT ON (l.slot) l.slot, l.pid, a.xact_start, count(*) OVER (PARTITION BY l.slot)
  FROM (
    SELECT DISTINCT (l.classid::bigint & 255)::smallint AS slot, l.pid, l.virtualtransaction
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ) l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  ORDER BY l.slot, a.xact_start NULLS FIRST
$$;

-- Nobody moves the group's progress until the transaction ends. Waits for the batches that have slots in hand, so the next
-- statement needs a newer snapshot.
CREATE FUNCTION sluice.lock_group(group_id integer, slots integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice.check_isolation();
  FOR slot IN 0 .. slots - 1 LOOP
    PERFORM pg_advisory_xact_lock(746503, group_id << 6 | slot);
  END LOOP;
END
$$;

-- The same by its name. Who had it locked may have deleted it, and made another one of its name, or given its stream other slots.
CREATE FUNCTION sluice.lock_found_group(log sluice.stream, name text) RETURNS sluice.stream_group
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  this_group sluice.stream_group;
BEGIN
  LOOP
    log := sluice.find_stream(log.stream);
    this_group := sluice.find_group(log.stream, name);
    PERFORM sluice.lock_group(this_group.id, log.slots);
    EXIT WHEN EXISTS (
      SELECT FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream WHERE g.id = this_group.id AND s.slots = log.slots
    );
  END LOOP;
  RETURN this_group;
END
$$;

-- Moves a group: the next event of each slot is the first one behind starts that is not gone; behind the head it is the next one. parked, what becomes of messages
-- that wait in its queue: keep (they are tried again as well) or drop; null: the move is refused if there are any. What it is
-- said to have lost is forgotten. Returns how many messages were dropped.
CREATE FUNCTION sluice.seek_group(stream text, name text, starts bigint[], parked text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
  this_group sluice.stream_group;
  head bigint;
  waiting bigint;
  dropped bigint := 0;
BEGIN
  IF parked NOT IN ('keep', 'drop') THEN
    RAISE EXCEPTION 'parked: expected keep or drop, received %', quote_literal(left(parked, 80)) USING ERRCODE = '22023', HINT = 'Leave it out to be refused.';
  END IF;
  -- In this order, as in sluice.trim_stream. What is gone by then stays gone, and no more goes before the end of the transaction.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR SHARE;
  IF starts IS NULL THEN
    RAISE EXCEPTION 'starts: expected 1 or % positions, received NULL', log.slots
      USING ERRCODE = '22023', HINT = 'As sluice.stream_positions returns them. For the end: sluice.stream_positions(stream, ''end'').';
  END IF;
  PERFORM sluice.check_starts('starts', starts, log.slots);
  this_group := sluice.lock_found_group(log, name);
  SELECT count(*) INTO waiting FROM sluice.message m WHERE m.queue = stream || ':' || name;
  IF waiting > 0 AND parked IS NULL THEN
    RAISE EXCEPTION 'parked: expected keep or drop, because % events wait in queue "%:%", received none', waiting, stream, name
      USING ERRCODE = 'SL033', HINT = 'keep: they are tried again as well. drop: they are removed.';
  ELSIF parked = 'drop' THEN
    -- In the order of claims, which wait for messages in slots that they have locked.
    DELETE FROM sluice.slot s WHERE s.queue = stream || ':' || name;
    DELETE FROM sluice.message m WHERE m.queue = stream || ':' || name;
    GET DIAGNOSTICS dropped = ROW_COUNT;
  END IF;
  head := sluice.stream_head(log.positions);
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id;
  INSERT INTO sluice.group_progress (group_id, slot, position)
  SELECT this_group.id, slot, greatest(log.trimmed_to, least(head, CASE WHEN cardinality(starts) = 1 THEN starts[1] ELSE starts[slot + 1] END))
  FROM generate_series(0, log.slots - 1) AS slot;
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name AND c.message_id < 0;
  UPDATE sluice.stream_group g SET lost_from = NULL, lost_to = NULL WHERE g.id = this_group.id AND g.lost_from IS NOT NULL;
  PERFORM sluice.wake_stream(stream);
  RETURN dropped;
END
$$;
COMMENT ON FUNCTION sluice.seek_group IS
  'Moves a group to positions as sluice.stream_positions returns them. parked: what becomes of its parked events, keep or drop; null: refused if there are any. Returns how many were dropped.';

-- Changes what a group was told when it was made; what is null stays as it is. What becomes of failed events changes between two
-- batches of each slot, and slots that wait for theirs are tried again.
CREATE FUNCTION sluice.group_set(stream text, name text, park_limit integer DEFAULT NULL, keep_unread boolean DEFAULT NULL,
                                 on_failure text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group := sluice.find_group(stream, name);
BEGIN
  IF on_failure <> this_group.on_failure THEN
    this_group := sluice.lock_found_group(sluice.find_stream(stream), name);
    PERFORM sluice.retry_slots(stream, name);
  END IF;
  UPDATE sluice.stream_group g
  SET park_limit = coalesce(group_set.park_limit, g.park_limit), keep_unread = coalesce(group_set.keep_unread, g.keep_unread),
      on_failure = coalesce(group_set.on_failure, g.on_failure)
  WHERE g.id = this_group.id
    AND (g.park_limit <> group_set.park_limit OR g.keep_unread IS DISTINCT FROM coalesce(group_set.keep_unread, g.keep_unread)
         OR g.on_failure <> group_set.on_failure);
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION sluice.group_set IS
  'Changes how many events of a group may be parked, whether what it has not read stays, and what it does on_failure: park or stop. What is null stays as it is. Returns whether something changed.';

-- The slots of a group whose next event has failed, and that event: they wait for it, or it is due, or it is in somebody's hand.
CREATE FUNCTION sluice.held_slots(log sluice.stream, of_group integer) RETURNS TABLE (slot smallint, progress bigint, "position" bigint,
                                                                                      attempt integer, last_error text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.slot, r.position, r.next_position, r.attempt, r.last_error
  FROM sluice.stream_group g CROSS JOIN LATERAL sluice.read_group_slots(log.stream, g.name, 1) r
  WHERE g.id = of_group AND r.held_until IS NOT NULL ORDER BY r.slot
$$;

-- Has the failed event of each slot that waits for it tried again now, as if it never had been. Nobody has a slot in hand that
-- waits, so its lock is there at once; where the event is being tried just now, this waits for that batch.
CREATE FUNCTION sluice.retry_slots(stream text, name text, slot integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
  this_group sluice.stream_group := sluice.find_group(stream, name);
  held record;
  freed integer := 0;
BEGIN
  PERFORM sluice.check_isolation();
  FOR held IN SELECT h.* FROM sluice.held_slots(log, this_group.id) h WHERE slot IS NULL OR h.slot = slot LOOP
    PERFORM pg_advisory_xact_lock(746503, this_group.id << 6 | held.slot);
    UPDATE sluice.group_progress p SET held_until = NULL, attempt = 0, last_error = NULL
    WHERE p.group_id = this_group.id AND p.slot = held.slot AND p.held_until IS NOT NULL;
    IF FOUND THEN
      freed := freed + 1;
    END IF;
  END LOOP;
  IF freed > 0 THEN
    PERFORM sluice.wake_stream(stream);
  END IF;
  RETURN freed;
END
$$;
COMMENT ON FUNCTION sluice.retry_slots IS
  'Has the events tried again now that slots of a group wait for because they have failed: in one slot, or null: in all. Returns how many slots go on.';

-- Passes over an event that a slot waits for because it has failed. It becomes a dead letter.
CREATE FUNCTION sluice.skip_event(stream text, name text, "position" bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
  this_group sluice.stream_group := sluice.find_group(stream, name);
  held record;
BEGIN
  PERFORM sluice.check_isolation();
  SELECT h.* INTO held FROM sluice.held_slots(log, this_group.id) h WHERE h.position = position;
  IF held.slot IS NULL THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(746503, this_group.id << 6 | held.slot);
  -- Another one may have been faster.
  SELECT h.* INTO held FROM sluice.held_slots(log, this_group.id) h WHERE h.position = position;
  IF held.slot IS NULL THEN
    RETURN false;
  END IF;
  PERFORM sluice.bury_events(this_group.id, ARRAY[held.slot], ARRAY[position], ARRAY[held.attempt], ARRAY['skipped'], ARRAY[held.last_error], NULL);
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id AND p.slot = held.slot;
  INSERT INTO sluice.group_progress (group_id, slot, position) VALUES (this_group.id, held.slot, position);
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name AND c.message_id = -position;
  PERFORM sluice.wake_stream(stream);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.skip_event IS
  'Passes over an event that a slot of a group waits for because it has failed: it becomes a dead letter. Returns whether a slot was waiting for it.';

-- Deletes a group, with what it has parked, its dead letters, and what its queue was told.
CREATE FUNCTION sluice.delete_group(stream text, name text) RETURNS TABLE (messages bigint, dead_letters bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group := sluice.lock_found_group(sluice.find_stream(stream), name);
BEGIN
  -- No redrive puts messages there any more: see sluice.lock_dead_events.
  PERFORM pg_advisory_xact_lock(746506, this_group.id);
  DELETE FROM sluice.stream_group g WHERE g.id = this_group.id;
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id;
  DELETE FROM sluice.group_queued q WHERE q.group_id = this_group.id;
  -- In the order of claims: see sluice.seek_group.
  DELETE FROM sluice.slot s WHERE s.queue = stream || ':' || name;
  DELETE FROM sluice.message m WHERE m.queue = stream || ':' || name;
  GET DIAGNOSTICS messages = ROW_COUNT;
  -- Behind the messages: this has waited for the batches that had some of them in hand, and may have buried them.
  DELETE FROM sluice.dead_letter d WHERE d.queue = stream || ':' || name;
  GET DIAGNOSTICS dead_letters = ROW_COUNT;
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name;
  DELETE FROM sluice.queue q WHERE q.queue = stream || ':' || name;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.delete_group IS
  'Deletes a group with what it has parked, its dead letters and the settings of its queue. Returns how many messages and dead letters those were.';

-- Retention
-- Whether what a group has not read stays where its stream says so.
CREATE FUNCTION sluice.pins(log sluice.stream, g sluice.stream_group) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(g.keep_unread, log.keep_unread AND NOT EXISTS (
    SELECT FROM sluice.queue q WHERE q.queue = log.stream || ':' || g.name AND q.paused_at IS NOT NULL
  ))
$$;

-- The first and the last event in a table, behind one position and up to another, that a group has not read. table: of the
-- stream or of one segment, also after it has been detached.
CREATE FUNCTION sluice.unread_in(log_table text, of_group integer, after bigint, upto bigint, OUT first bigint, OUT last bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
BEGIN
  EXECUTE format($query$
    SELECT min(f.position), max(l.position)
    FROM (SELECT p.slot, max(p.position) AS position FROM sluice.group_progress p WHERE p.group_id = $1 GROUP BY p.slot) p
    CROSS JOIN LATERAL (
      SELECT e.position FROM %1$s e WHERE e.slot = p.slot AND e.position > p.position ORDER BY e.position LIMIT 1
    ) f
    CROSS JOIN LATERAL (
      SELECT e.position FROM %1$s e WHERE e.slot = p.slot AND e.position > p.position ORDER BY e.position DESC LIMIT 1
    ) l
  $query$, sluice.part_of_log(log_table, after, upto)) INTO first, last USING of_group;
END
$$;

-- Moves the low-water mark, and tells the groups that have not read what is below it. A claim that looks at what its group has
-- lost after it has read, in a later statement, passes nothing over.
CREATE FUNCTION sluice.move_mark(log sluice.stream, upto bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE sluice.stream s SET trimmed_to = upto WHERE s.id = log.id AND s.trimmed_to < upto;
  UPDATE sluice.stream_group g SET lost_from = least(g.lost_from, l.first), lost_to = greatest(g.lost_to, l.last)
  FROM (
    SELECT o.id, u.first, u.last FROM sluice.stream_group o
    CROSS JOIN LATERAL sluice.unread_in('event_' || log.id, o.id, log.trimmed_to, upto) u
    WHERE o.stream = log.stream AND u.first IS NOT NULL
  ) l
  WHERE g.id = l.id;
END
$$;

-- Events before a position count as gone from now on; their segments go with the next passes of maintenance. It stops before
-- what is not settled and before what a group has not read that pins it, unless forced. events: how many positions that takes.
-- held_by: who has stopped it; lost_by: who has not read what is gone. A dry run locks nothing and changes nothing.
CREATE FUNCTION sluice.trim_stream(
  stream text, before bigint, force boolean DEFAULT false, dry_run boolean DEFAULT false,
  OUT trimmed_to bigint, OUT events bigint, OUT held_by text[], OUT lost_by text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
  wanted bigint;
  unread bigint;
  g sluice.stream_group;
BEGIN
  PERFORM sluice.check_isolation();
  IF before IS NULL OR force IS NULL OR dry_run IS NULL THEN
    RAISE EXCEPTION 'trim_stream: expected before, force and dry_run, received NULL' USING ERRCODE = '22023',
      HINT = 'A query without a row gives NULL: nothing is trimmed then.';
  END IF;
  held_by := '{}';
  lost_by := '{}';
  IF NOT dry_run THEN
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = stream FOR NO KEY UPDATE;
  END IF;
  wanted := least(before - 1, (SELECT min(b) FROM unnest(sluice.slot_bounds(log.id, log.positions)) AS b));
  trimmed_to := wanted;
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream AND NOT force ORDER BY o.name LOOP
    unread := CASE WHEN sluice.pins(log, g) THEN (sluice.unread_in('event_' || log.id, g.id, log.trimmed_to, wanted)).first END;
    IF unread IS NOT NULL THEN
      held_by := held_by || g.name;
      trimmed_to := least(trimmed_to, unread - 1);
    END IF;
  END LOOP;
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream AND o.name <> ALL (held_by) ORDER BY o.id LOOP
    CONTINUE WHEN (sluice.unread_in('event_' || log.id, g.id, log.trimmed_to, trimmed_to)).first IS NULL;
    IF NOT dry_run THEN
      -- A batch that has them in hand loses none of them: when it is over, they are read.
      PERFORM sluice.lock_group(g.id, log.slots);
      CONTINUE WHEN (sluice.unread_in('event_' || log.id, g.id, log.trimmed_to, trimmed_to)).first IS NULL;
    END IF;
    lost_by := lost_by || g.name;
  END LOOP;
  events := sluice.positions_between(log.id, log.trimmed_to, trimmed_to);
  IF trimmed_to > log.trimmed_to AND NOT dry_run THEN
    PERFORM sluice.move_mark(log, trimmed_to);
  END IF;
  trimmed_to := greatest(trimmed_to, log.trimmed_to);
END
$$;
COMMENT ON FUNCTION sluice.trim_stream IS
  'Events before a position count as gone from now on. It stops before what a group has not read that keeps it, unless forced. trimmed_to: the last position that is gone. events: how many that takes. held_by, lost_by: the groups that have stopped it, and those that have not read what is gone. A dry run only says so.';

-- The table of a segment.
CREATE FUNCTION sluice.segment_table(stream_id integer, first bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('event_%s_%s', stream_id, first / 1000000000)
$$;

CREATE FUNCTION sluice.segment_bytes(stream_id integer, first bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(pg_total_relation_size(to_regclass(format('sluice.%I', sluice.segment_table(stream_id, first)))), 0)
$$;

-- One pass over the segments of a stream, or of every stream: notes which one is open, opens the next one in time, attaches the one after it,
-- and marks those that are to go. Returns how many segments it has opened, attached or marked. What waits for a lock for longer
-- than a moment is left to the next pass. With all streams, one that fails is reported by a warning, and the others are kept.
CREATE FUNCTION sluice.keep_segments(of_stream text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET lock_timeout = '50ms' AS $$
DECLARE
  log sluice.stream;
  done integer := 0;
BEGIN
  PERFORM sluice.check_isolation();
  FOR log IN SELECT s.* FROM sluice.stream s WHERE of_stream IS NULL OR s.stream = of_stream ORDER BY s.id LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(746505, log.id);
    -- It may have been given other slots until then.
    SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id;
    BEGIN
      done := done + sluice.note_open_segment(log) + sluice.open_next_segment(log);
      PERFORM sluice.note_lasts(log);
      done := done + sluice.mark_segments(log);
    EXCEPTION
      WHEN lock_not_available OR deadlock_detected THEN
        NULL;
      WHEN OTHERS THEN
        IF of_stream IS NOT NULL THEN
          RAISE;
        END IF;
        RAISE WARNING 'stream "%": %', log.stream, SQLERRM USING ERRCODE = SQLSTATE;
    END;
  END LOOP;
  RETURN done;
END
$$;

-- Segments that positions have come to: by themselves, or by a sluice.open_next_segment that was rolled back, which leaves
-- its setval. So the last position of the segment before is read from its events.
CREATE FUNCTION sluice.note_open_segment(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- The next position to be drawn.
  next bigint := coalesce(pg_sequence_last_value(log.positions), 0) + 1;
  opened integer;
  closing sluice.segment;
  ends bigint;
BEGIN
  UPDATE sluice.segment g SET opened_at = clock_timestamp() WHERE g.stream_id = log.id AND g.opened_at IS NULL AND g.first <= next;
  GET DIAGNOSTICS opened = ROW_COUNT;
  IF opened > 0 THEN
    FOR closing IN
      SELECT g.* FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NULL AND g.first + 1000000000 <= next
    LOOP
      EXECUTE format($query$
        SELECT max(l.position) FROM generate_series(0, $1 - 1) AS s (slot) CROSS JOIN LATERAL (
          SELECT e.position FROM sluice.%I e WHERE e.slot = s.slot ORDER BY e.position DESC LIMIT 1
        ) l
      $query$, sluice.segment_table(log.id, closing.first)) INTO ends USING log.slots;
      UPDATE sluice.segment g SET closed_at = clock_timestamp(), last = coalesce(ends, g.first - 1)
      WHERE g.stream_id = log.id AND g.first = closing.first;
    END LOOP;
  END IF;
  RETURN opened;
END
$$;

-- Notes the last position of each slot for segments that are closed and settled.
CREATE FUNCTION sluice.note_lasts(log sluice.stream) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  settled bigint := (SELECT min(b) FROM unnest(sluice.slot_bounds(log.id, log.positions)) AS b);
  closed bigint;
BEGIN
  FOR closed IN
    SELECT g.first FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.lasts IS NULL ORDER BY g.first
  LOOP
    EXIT WHEN settled < closed + 999999999;
    EXECUTE format($query$
      UPDATE sluice.segment g SET lasts = ARRAY(
        SELECT coalesce(
          (SELECT e.position FROM sluice.%I e WHERE e.slot = s.slot ORDER BY e.position DESC LIMIT 1),
          (SELECT b.lasts[s.slot + 1] FROM sluice.segment b WHERE b.stream_id = $1 AND b.first = $2 - 1000000000), 0)
        FROM generate_series(0, $3 - 1) AS s (slot) ORDER BY s.slot
      )
      WHERE g.stream_id = $1 AND g.first = $2
    $query$, sluice.segment_table(log.id, closed)) USING log.id, closed, log.slots;
  END LOOP;
END
$$;

-- Sets the sequence to the first position of the next segment, if the open one has lasted for long enough, or has a quarter of
-- what the stream may take. Not before it has an event; nor before it is noted what the closed ones have, because a claim looks
-- into two segments of which that is not known; nor before the next one is attached, which a transaction
-- before this one has done, because others see the new position at once and the table only when it is committed; and
-- not while an append is open that began before this segment: its lock has 31 bits of a position, and two jumps over it would
-- make those of another; nor while one is open that began before it could see the table of the next one, in which its next append would
-- find no partition. Then it attaches the segment after the next. setval(..., true) to the position before it: with
-- false the sequence would have no last value.
CREATE FUNCTION sluice.open_next_segment(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bounds bigint[] := sluice.slot_bounds(log.id, log.positions);
  settled bigint := (SELECT min(b) FROM unnest(bounds) AS b);
  open_one sluice.segment;
  next bigint;
  ready bigint;
BEGIN
  SELECT g.* INTO open_one FROM sluice.segment g WHERE g.stream_id = log.id AND g.opened_at IS NOT NULL ORDER BY g.first DESC LIMIT 1;
  next := open_one.first + 1000000000;
  IF NOT EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.first = next) THEN
    PERFORM sluice.attach_segment(log.id, next);
    RETURN 1;
  ELSIF EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.lasts IS NULL) THEN
    RETURN 0;
  END IF;
  UPDATE sluice.segment g SET ready_from = bounds[1] WHERE g.stream_id = log.id AND g.first = next AND g.ready_from IS NULL;
  SELECT g.ready_from INTO ready FROM sluice.segment g WHERE g.stream_id = log.id AND g.first = next;
  IF bounds[1] >= greatest(open_one.first, 1) AND bounds[1] < next - 1000000 AND settled >= greatest(open_one.first - 1, ready)
    AND (open_one.opened_at <= clock_timestamp() - log.segment_ms * interval '1 millisecond'
         OR sluice.segment_bytes(log.id, open_one.first) > log.retain_bytes / 4)
  THEN
    PERFORM setval(log.positions, next - 1, true);
    UPDATE sluice.segment g SET closed_at = clock_timestamp(), last = bounds[1] WHERE g.stream_id = log.id AND g.first = open_one.first;
    UPDATE sluice.segment g SET opened_at = clock_timestamp() WHERE g.stream_id = log.id AND g.first = next;
    PERFORM sluice.attach_segment(log.id, next + 1000000000);
    RETURN 2;
  END IF;
  RETURN 0;
END
$$;

-- Marks closed segments that are to go, the oldest first, and moves the low-water mark to their ends. A segment goes if it is
-- below the mark, too old, or the oldest of a stream that takes too much; and no append is open that may have events in
-- it, and no group pins it.
CREATE FUNCTION sluice.mark_segments(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  settled bigint := (SELECT min(b) FROM unnest(sluice.slot_bounds(log.id, log.positions)) AS b);
  bytes bigint := (SELECT sum(sluice.segment_bytes(g.stream_id, g.first)) FROM sluice.segment g WHERE g.stream_id = log.id AND g.dropping_at IS NULL);
  old sluice.segment;
  ends bigint;
  marked integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.dropping_at IS NULL) THEN
    RETURN 0;
  END IF;
  -- Whoever makes or moves a group has the row in share mode until others see what has come of it.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR NO KEY UPDATE;
  FOR old IN
    SELECT g.* FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.dropping_at IS NULL ORDER BY g.first
  LOOP
    ends := old.first + 999999999;
    EXIT WHEN settled < ends;
    IF ends > log.trimmed_to THEN
      EXIT WHEN (old.closed_at > clock_timestamp() - log.retain_ms * interval '1 millisecond') IS NOT FALSE AND (bytes > log.retain_bytes) IS NOT TRUE;
      EXIT WHEN EXISTS (
        SELECT FROM sluice.stream_group g
        WHERE g.stream = log.stream AND sluice.pins(log, g)
          AND (sluice.unread_in('event_' || log.id, g.id, log.trimmed_to, ends)).first IS NOT NULL
      );
      PERFORM sluice.move_mark(log, ends);
      log.trimmed_to := ends;
    END IF;
    UPDATE sluice.segment g SET dropping_at = clock_timestamp() WHERE g.stream_id = log.id AND g.first = old.first;
    bytes := bytes - sluice.segment_bytes(log.id, old.first);
    marked := marked + 1;
  END LOOP;
  RETURN marked;
END
$$;

-- Segments that are to go, and how far that has come: attached, pending (a DETACH CONCURRENTLY was interrupted) or detached.
CREATE FUNCTION sluice.segments_to_drop() RETURNS TABLE (stream text, stream_id integer, first bigint, log text, part text, state text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT s.stream, g.stream_id, g.first, 'event_' || g.stream_id, sluice.segment_table(g.stream_id, g.first),
         CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END
  FROM sluice.segment g JOIN sluice.stream s ON s.id = g.stream_id
  LEFT JOIN pg_inherits i ON i.inhrelid = to_regclass(format('sluice.%I', sluice.segment_table(g.stream_id, g.first)))
  WHERE g.dropping_at IS NOT NULL
  ORDER BY g.stream_id, g.first
$$;

-- Drops a segment that has been marked. After a DETACH CONCURRENTLY nobody has read it or can read it, so what groups have lost
-- with it is exact: until then a batch that had its last events in hand may have gone on. One that is still attached is
-- detached here, for whoever does not own the tables: that takes the whole stream for a moment, and gives up after 50 ms.
CREATE FUNCTION sluice.drop_segment(stream_id integer, first bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET lock_timeout = '50ms' AS $$
#variable_conflict use_variable
DECLARE
  part text := sluice.segment_table(stream_id, first);
  ends bigint := first + 999999999;
  going text;
  g sluice.stream_group;
BEGIN
  PERFORM sluice.check_isolation();
  SELECT d.state INTO going FROM sluice.segments_to_drop() d WHERE d.stream_id = stream_id AND d.first = first;
  IF going IS NULL THEN
    RETURN;
  ELSIF going <> 'detached' THEN
    EXECUTE format('ALTER TABLE sluice.%I DETACH PARTITION sluice.%I%s', 'event_' || stream_id, part, CASE going WHEN 'pending' THEN ' FINALIZE' ELSE '' END);
  END IF;
  IF to_regclass(format('sluice.%I', part)) IS NOT NULL THEN
    FOR g IN
      SELECT o.* FROM sluice.stream_group o JOIN sluice.stream s ON s.stream = o.stream
      WHERE s.id = stream_id AND o.lost_from <= ends
    LOOP
      IF (sluice.unread_in(part, g.id, first - 1, ends)).first IS NULL THEN
        UPDATE sluice.stream_group o
        SET lost_from = CASE WHEN o.lost_to > ends THEN greatest(o.lost_from, ends + 1) END, lost_to = CASE WHEN o.lost_to > ends THEN o.lost_to END
        WHERE o.id = g.id;
      END IF;
    END LOOP;
    EXECUTE format('DROP TABLE sluice.%I', part);
  END IF;
  DELETE FROM sluice.segment s WHERE s.stream_id = stream_id AND s.first = first;
END
$$;

-- The views. Each calls its function for each stream, so that one that asks for a stream by its name reads no other.
CREATE FUNCTION sluice.read_stream(stream_id integer) RETURNS TABLE (
  head bigint, segments bigint, bytes bigint, events bigint, open_appends bigint, open_pid integer, open_since timestamptz
) LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT l.bounds[1], g.segments, g.bytes, sluice.positions_between(s.id, s.trimmed_to, l.bounds[1]), coalesce(o.appends, 0), o.pid, o.since
  FROM sluice.stream s
  CROSS JOIN LATERAL (SELECT sluice.slot_bounds(s.id, s.positions) AS bounds) l
  CROSS JOIN LATERAL (
    SELECT count(*) AS segments, coalesce(sum(sluice.segment_bytes(g.stream_id, g.first)), 0)::bigint AS bytes FROM sluice.segment g WHERE g.stream_id = s.id
  ) g
  LEFT JOIN LATERAL (
    SELECT max(o.transactions) AS appends, (array_agg(o.pid ORDER BY o.since))[1] AS pid, min(o.since) AS since FROM sluice.open_appends_of(s.id) o
  ) o ON true
  WHERE s.id = read_stream.stream_id
$$;

CREATE VIEW sluice.streams AS
SELECT s.stream, s.slots, r.head, s.trimmed_to, r.events, r.bytes, r.segments,
       (SELECT count(*) FROM sluice.stream_group g WHERE g.stream = s.stream) AS groups,
       s.retain_ms * interval '1 millisecond' AS retain, s.retain_bytes, s.keep_unread, s.segment_ms * interval '1 millisecond' AS segment,
       r.open_appends, r.open_pid, (SELECT sluice.clock()) - r.open_since AS open_for, s.created_at
FROM sluice.stream s CROSS JOIN LATERAL sluice.read_stream(s.id) r;
COMMENT ON VIEW sluice.streams IS 'One row per stream: how much it has, how long that is kept, and who holds it back.';
COMMENT ON COLUMN sluice.streams.stream IS 'The stream.';
COMMENT ON COLUMN sluice.streams.slots IS 'Among how many slots its ordering keys are divided.';
COMMENT ON COLUMN sluice.streams.head IS 'The last position that was drawn.';
COMMENT ON COLUMN sluice.streams.trimmed_to IS 'Events at this position and before are gone.';
COMMENT ON COLUMN sluice.streams.events IS 'How many positions were drawn behind that: about as many events, or fewer.';
COMMENT ON COLUMN sluice.streams.bytes IS 'How much its tables and indexes take.';
COMMENT ON COLUMN sluice.streams.segments IS 'How many segments it has, with the one that is attached ahead.';
COMMENT ON COLUMN sluice.streams.groups IS 'How many groups it has.';
COMMENT ON COLUMN sluice.streams.retain IS 'How long a segment is kept after it was closed; null: for ever.';
COMMENT ON COLUMN sluice.streams.retain_bytes IS 'How much the stream may take before its oldest segments go; null: any amount.';
COMMENT ON COLUMN sluice.streams.keep_unread IS 'Whether a segment stays that a group has not read.';
COMMENT ON COLUMN sluice.streams.segment IS 'After how long a segment is closed.';
COMMENT ON COLUMN sluice.streams.open_appends IS 'How many transactions that have appended to one slot are open, in the slot that has most of them: no group reads what comes after them in their slots.';
COMMENT ON COLUMN sluice.streams.open_pid IS 'The server process of the oldest one; null also for a prepared transaction.';
COMMENT ON COLUMN sluice.streams.open_for IS 'How long that one has been open; null also if the owner of the schema may not see it (pg_read_all_stats).';
COMMENT ON COLUMN sluice.streams.created_at IS 'When it was made.';

CREATE VIEW sluice.group_slots AS
SELECT s.stream, r.name, r.slot, r.position, r.settled, r.next_position, r.unread,
       (SELECT sluice.clock()) - r.next_appended_at AS oldest_unread_age, r.moved_at, r.held_until, r.attempt, r.last_error,
       r.open_pid, (SELECT sluice.clock()) - r.open_since AS open_for
FROM sluice.stream s CROSS JOIN LATERAL sluice.read_group_slots(s.stream, NULL, 1000) r;
COMMENT ON VIEW sluice.group_slots IS 'How far each group has read each slot of its stream.';
COMMENT ON COLUMN sluice.group_slots.stream IS 'The stream.';
COMMENT ON COLUMN sluice.group_slots.name IS 'The group.';
COMMENT ON COLUMN sluice.group_slots.slot IS 'The slot, from 0.';
COMMENT ON COLUMN sluice.group_slots."position" IS 'The group has read the slot up to this position. It moves with events of the slot alone.';
COMMENT ON COLUMN sluice.group_slots.settled IS 'Up to which position the slot may be read now: behind it an append may be open.';
COMMENT ON COLUMN sluice.group_slots.next_position IS 'The first event that it has not read; null: it has read all.';
COMMENT ON COLUMN sluice.group_slots.unread IS 'How many events it has not read, with those that wait behind an open append: counted up to 1,000 in four segments, and beyond that taken from the positions.';
COMMENT ON COLUMN sluice.group_slots.oldest_unread_age IS 'How long ago the first of them was appended.';
COMMENT ON COLUMN sluice.group_slots.moved_at IS 'When the group read from it last.';
COMMENT ON COLUMN sluice.group_slots.held_until IS 'Until when the slot waits because its next event has failed: of a group that stops on failure, or has parked as many as it may; infinity: until somebody has it tried again or skipped.';
COMMENT ON COLUMN sluice.group_slots.attempt IS 'How often that event has failed; 0: it has not.';
COMMENT ON COLUMN sluice.group_slots.last_error IS 'How it has failed last.';
COMMENT ON COLUMN sluice.group_slots.open_pid IS 'The server process of the oldest transaction that has appended to the slot and is open; null also for a prepared one.';
COMMENT ON COLUMN sluice.group_slots.open_for IS 'How long that has been open.';

CREATE VIEW sluice.groups AS
SELECT g.stream, g.name, g.stream || ':' || g.name AS queue, s.unread, s.oldest_unread_age, s.slots_unread, s.slots_held_back, s.open_for,
       (SELECT count(*) FROM sluice.message m WHERE m.queue = g.stream || ':' || g.name) AS parked,
       (SELECT count(*) FROM sluice.dead_letter d WHERE d.queue = g.stream || ':' || g.name) AS dead,
       (SELECT count(*) FROM sluice.workers w WHERE w.alive AND g.stream || ':' || g.name = ANY (w.queues)) AS members,
       (SELECT q.paused_at FROM sluice.queue q WHERE q.queue = g.stream || ':' || g.name) AS paused_at,
       s.moved_at, g.lost_from, g.lost_to, s.slots_stopped, g.on_failure, g.park_limit, g.keep_unread, g.created_at
FROM sluice.stream_group g JOIN (
  SELECT s.stream, r.name, sum(r.unread)::bigint AS unread, (SELECT sluice.clock()) - min(r.next_appended_at) AS oldest_unread_age,
         count(r.next_position) AS slots_unread, count(*) FILTER (WHERE r.open_pid IS NOT NULL OR r.open_since IS NOT NULL) AS slots_held_back,
         (SELECT sluice.clock()) - min(r.open_since) AS open_for, max(r.moved_at) AS moved_at,
         count(*) FILTER (WHERE r.held_until = 'infinity') AS slots_stopped
  FROM sluice.stream s CROSS JOIN LATERAL sluice.read_group_slots(s.stream, NULL, 1000) r GROUP BY s.stream, r.name
) s ON s.stream = g.stream AND s.name = g.name;
COMMENT ON VIEW sluice.groups IS 'One row per group: what it has not read, what waits in its queue, who reads, and what holds it up.';
COMMENT ON COLUMN sluice.groups.stream IS 'The stream.';
COMMENT ON COLUMN sluice.groups.name IS 'The group.';
COMMENT ON COLUMN sluice.groups.queue IS 'Its queue: there its failed events are messages, and those that wait behind them.';
COMMENT ON COLUMN sluice.groups.unread IS 'How many events it has not read, with those that wait behind an open append: counted up to 1,000 a slot in four segments, and beyond that taken from the positions.';
COMMENT ON COLUMN sluice.groups.oldest_unread_age IS 'How long ago the oldest of them was appended.';
COMMENT ON COLUMN sluice.groups.slots_unread IS 'How many slots have some.';
COMMENT ON COLUMN sluice.groups.slots_held_back IS 'How many slots have an open append, behind which nothing is read.';
COMMENT ON COLUMN sluice.groups.open_for IS 'How long the oldest of these has been open.';
COMMENT ON COLUMN sluice.groups.parked IS 'Events in its queue: failed, and due again, or waiting behind a failed one.';
COMMENT ON COLUMN sluice.groups.dead IS 'Dead letters.';
COMMENT ON COLUMN sluice.groups.members IS 'How many live worker processes consume it.';
COMMENT ON COLUMN sluice.groups.paused_at IS 'Since when nobody reads for it; null: it is not paused.';
COMMENT ON COLUMN sluice.groups.moved_at IS 'When it read last.';
COMMENT ON COLUMN sluice.groups.lost_from IS 'The first position of events that retention took before it had read them: it stands still until it is moved. Null: none.';
COMMENT ON COLUMN sluice.groups.lost_to IS 'The last one.';
COMMENT ON COLUMN sluice.groups.slots_stopped IS 'How many slots wait for an event that has failed for good, until somebody has it tried again or skipped.';
COMMENT ON COLUMN sluice.groups.on_failure IS 'What becomes of failed events: park, in its queue, with the later ones of their keys; stop: their slots wait for them.';
COMMENT ON COLUMN sluice.groups.park_limit IS 'So many events may be parked before slots wait.';
COMMENT ON COLUMN sluice.groups.keep_unread IS 'Whether what it has not read stays; null: as its stream says, unless it is paused.';
COMMENT ON COLUMN sluice.groups.created_at IS 'When it was made.';

-- No view: a view of all streams cannot be planned without the tables of all of them, and the server locks what a plan names, so one
-- look would take thousands of locks from everybody. This opens segment after segment until it has enough, and skips those that are
-- known to have nothing behind `after`.
CREATE FUNCTION sluice.events(stream text, after bigint DEFAULT 0, most integer DEFAULT 1000) RETURNS TABLE (
  "position" bigint, slot smallint, type text, schema_version integer, payload jsonb, headers jsonb, ordering_key text, appended_at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_column
DECLARE
  log sluice.stream := sluice.find_stream(events.stream);
  slots smallint[] := ARRAY(SELECT n::smallint FROM generate_series(0, log.slots - 1) AS n);
  low bigint := greatest(coalesce(events.after, 0), log.trimmed_to);
  wanted bigint := events.most;
  taken bigint;
  part bigint;
BEGIN
  IF wanted IS NULL OR wanted NOT BETWEEN 1 AND 10000 THEN
    RAISE EXCEPTION 'most: expected an integer from 1 to 10000, received %', coalesce(wanted::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For more, call it again with after => the last position that it has returned.';
  END IF;
  FOR part IN
    SELECT g.first FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.first > low - 999999999
      AND EXISTS (SELECT FROM unnest(slots) AS s (slot) WHERE (g.lasts[s.slot + 1] <= low) IS NOT TRUE)
    ORDER BY g.first
  LOOP
    RETURN QUERY
      SELECT e.position, e.slot, e.type, e.schema_version, e.payload, e.headers, e.ordering_key, e.appended_at
      FROM sluice.read_events(
        log.id, slots, array_fill(greatest(low, part - 1), ARRAY[log.slots]), array_fill(part + 999999999, ARRAY[log.slots]), wanted::integer
      ) e
      ORDER BY e.position;
    GET DIAGNOSTICS taken = ROW_COUNT;
    wanted := wanted - taken;
    EXIT WHEN wanted <= 0;
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.events IS
  'The events of a stream behind a position, in the order of their positions, at most so many. It opens the segments that they are in, and no others.';

-- Those that run with the owner's rights, for those who are granted them.
REVOKE ALL ON FUNCTION sluice.stream_positions, sluice.stream_bounds, sluice.read_events, sluice.events, sluice.next_position, sluice.read_group_slots,
  sluice.open_appends_of, sluice.seek_group, sluice.group_set, sluice.retry_slots, sluice.skip_event, sluice.delete_group, sluice.trim_stream, sluice.keep_segments,
  sluice.segments_to_drop, sluice.drop_segment, sluice.read_stream FROM PUBLIC;

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 11, 1';
