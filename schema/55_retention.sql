-- Trims streams, and opens, closes, marks and drops their segments.
--
-- Public functions: sluice.trim_stream, sluice.keep_segments, sluice.segments_to_drop, sluice.drop_segment.

-- The table of a segment.
CREATE FUNCTION sluice_private.segment_table(stream_id integer, first bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('event_%s_%s', stream_id, first / 1000000000)
$$;

CREATE FUNCTION sluice_private.segment_bytes(stream_id integer, first bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(pg_total_relation_size(to_regclass(
    format('sluice.%I', sluice_private.segment_table(stream_id, first)))), 0)
$$;

-- Whether what a group has not read stays where its stream says so.
CREATE FUNCTION sluice_private.pins(log sluice.stream, g sluice.stream_group) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(g.keep_unread, log.keep_unread AND NOT EXISTS (
    SELECT FROM sluice.queue q WHERE q.queue = log.stream || ':' || g.name AND q.paused_at IS NOT NULL
  ))
$$;

-- The first and the last event in a table, behind one position and up to another, that a group has not read. table: of the
-- stream or of one segment, also after it has been detached.
CREATE FUNCTION sluice_private.unread_in(log_table text, of_group integer, after bigint, upto bigint,
  OUT first bigint, OUT last bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
BEGIN
  EXECUTE format($query$
    SELECT min(f.position), max(l.position)
    FROM (SELECT p.partition, max(p.position) AS position FROM sluice.group_progress p WHERE p.group_id = $1 GROUP BY p.partition) p
    CROSS JOIN LATERAL (
      SELECT e.position FROM %1$s e WHERE e.partition = p.partition AND e.position > p.position ORDER BY e.position LIMIT 1
    ) f
    CROSS JOIN LATERAL (
      SELECT e.position FROM %1$s e WHERE e.partition = p.partition AND e.position > p.position ORDER BY e.position DESC LIMIT 1
    ) l
  $query$, sluice_private.part_of_log(log_table, after, upto)) INTO first, last USING of_group;
END
$$;

-- Moves the low-water mark, and tells the groups that have not read what is below it. A claim that looks at what its group
-- has lost after it has read, in a later statement, passes nothing over.
CREATE FUNCTION sluice_private.move_mark(log sluice.stream, upto bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE sluice.stream s SET trimmed_to = upto WHERE s.id = log.id AND s.trimmed_to < upto;
  UPDATE sluice.stream_group g SET lost_from = least(g.lost_from, l.first), lost_to = greatest(g.lost_to, l.last)
  FROM (
    SELECT o.id, u.first, u.last FROM sluice.stream_group o
    CROSS JOIN LATERAL sluice_private.unread_in('event_' || log.id, o.id, log.trimmed_to, upto) u
    WHERE o.stream = log.stream AND u.first IS NOT NULL
  ) l
  WHERE g.id = l.id;
END
$$;

-- Events before a position count as gone from now on; their segments go with the next passes of maintenance. It stops
-- before what is not stable and before unread events of a group that pins them, unless forced. events: how many
-- positions that takes. held_by: the groups that have stopped it; lost_by: the groups that have not read what is gone. A
-- dry run locks nothing and changes nothing.
CREATE FUNCTION sluice.trim_stream(
  stream text, before bigint, force boolean DEFAULT false, dry_run boolean DEFAULT false,
  OUT trimmed_to bigint, OUT events bigint, OUT held_by text[], OUT lost_by text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  wanted bigint;
  unread bigint;
  g sluice.stream_group;
BEGIN
  PERFORM sluice_private.check_isolation();
  IF before IS NULL OR force IS NULL OR dry_run IS NULL THEN
    RAISE EXCEPTION 'trim_stream: expected before, force and dry_run, received NULL' USING ERRCODE = '22023',
      HINT = 'A query without a row gives NULL: nothing is trimmed then.';
  END IF;
  held_by := '{}';
  lost_by := '{}';
  IF NOT dry_run THEN
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = stream FOR NO KEY UPDATE;
  END IF;
  wanted := least(before - 1, (SELECT min(b) FROM unnest(sluice_private.stable_ends(log.id, log.positions)) AS b));
  trimmed_to := wanted;
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream AND NOT force ORDER BY o.name LOOP
    unread := CASE WHEN sluice_private.pins(log, g)
      THEN (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, wanted)).first END;
    IF unread IS NOT NULL THEN
      held_by := held_by || g.name;
      trimmed_to := least(trimmed_to, unread - 1);
    END IF;
  END LOOP;
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream AND o.name <> ALL (held_by) ORDER BY o.id LOOP
    CONTINUE WHEN (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, trimmed_to)).first IS NULL;
    IF NOT dry_run THEN
      -- A batch that has them loses none of them: when it is over, they are read.
      PERFORM sluice_private.lock_group(g.id, log.partitions);
      CONTINUE WHEN (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, trimmed_to)).first IS NULL;
    END IF;
    lost_by := lost_by || g.name;
  END LOOP;
  events := sluice_private.positions_between(log.id, log.trimmed_to, trimmed_to);
  IF trimmed_to > log.trimmed_to AND NOT dry_run THEN
    PERFORM sluice_private.move_mark(log, trimmed_to);
    PERFORM sluice_private.note_action('stream.trim', NULL, events, stream,
      details => jsonb_build_object('trimmed_to', trimmed_to, 'force', force, 'lost_by', lost_by));
  END IF;
  trimmed_to := greatest(trimmed_to, log.trimmed_to);
END
$$;
COMMENT ON FUNCTION sluice.trim_stream IS
  'Removes the events before a position. Unless forced, it stops at the first event that a group with keep_unread has '
  'not read. trimmed_to: the last removed position. events: how many are removed. held_by: the groups that stopped it. '
  'lost_by: the groups that had not read removed events. dry_run removes nothing.';

-- Segments that positions have come to: by themselves, or by a sluice_private.open_next_segment that was rolled back, which
-- leaves its setval. So the last position of the segment before is read from its events.
CREATE FUNCTION sluice_private.note_open_segment(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- The next position to be drawn.
  next bigint := coalesce(pg_sequence_last_value(log.positions), 0) + 1;
  opened integer;
  closing sluice.segment;
  ends bigint;
BEGIN
  UPDATE sluice.segment g SET opened_at = clock_timestamp()
  WHERE g.stream_id = log.id AND g.opened_at IS NULL AND g.first <= next;
  GET DIAGNOSTICS opened = ROW_COUNT;
  IF opened > 0 THEN
    FOR closing IN
      SELECT g.* FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NULL AND g.first + 1000000000 <= next
    LOOP
      EXECUTE format($query$
        SELECT max(l.position) FROM generate_series(0, $1 - 1) AS s (partition) CROSS JOIN LATERAL (
          SELECT e.position FROM sluice.%I e WHERE e.partition = s.partition ORDER BY e.position DESC LIMIT 1
        ) l
      $query$, sluice_private.segment_table(log.id, closing.first)) INTO ends USING log.partitions;
      UPDATE sluice.segment g SET closed_at = clock_timestamp(), last = coalesce(ends, g.first - 1)
      WHERE g.stream_id = log.id AND g.first = closing.first;
    END LOOP;
  END IF;
  RETURN opened;
END
$$;

-- Sets the sequence to the first position of the next segment, if the open one has lasted for long enough, or has a quarter
-- of what the stream may take. Not before it has an event; nor before it is noted what the closed ones have, because a claim
-- looks into two segments of which that is not known; nor before the next one is attached, which a transaction before this
-- one has done, because others see the new position at once and the table only when it is committed; and not while an append
-- is open that began before this segment: its lock has 31 bits of a position, and two jumps over it would make those of
-- another; nor while one is open that began before it could see the table of the next one, in which its next append would
-- find no partition. Then it attaches the segment after the next. setval(..., true) to the position before it: with false
-- the sequence would have no last value.
CREATE FUNCTION sluice_private.open_next_segment(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stable_ends bigint[] := sluice_private.stable_ends(log.id, log.positions);
  stable_end bigint := (SELECT min(b) FROM unnest(stable_ends) AS b);
  open_one sluice.segment;
  next bigint;
  ready bigint;
BEGIN
  SELECT g.* INTO open_one FROM sluice.segment g WHERE g.stream_id = log.id AND g.opened_at IS NOT NULL
  ORDER BY g.first DESC LIMIT 1;
  next := open_one.first + 1000000000;
  IF NOT EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.first = next) THEN
    PERFORM sluice_private.attach_segment(log.id, next);
    RETURN 1;
  ELSIF EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.lasts IS NULL) THEN
    RETURN 0;
  END IF;
  UPDATE sluice.segment g SET ready_from = stable_ends[1] WHERE g.stream_id = log.id AND g.first = next AND g.ready_from IS NULL;
  SELECT g.ready_from INTO ready FROM sluice.segment g WHERE g.stream_id = log.id AND g.first = next;
  IF stable_ends[1] >= greatest(open_one.first, 1) AND stable_ends[1] < next - 1000000
    AND stable_end >= greatest(open_one.first - 1, ready)
    AND (open_one.opened_at <= clock_timestamp() - log.segment_ms * interval '1 millisecond'
         OR sluice_private.segment_bytes(log.id, open_one.first) > log.retain_bytes / 4)
  THEN
    PERFORM setval(log.positions, next - 1, true);
    UPDATE sluice.segment g SET closed_at = clock_timestamp(), last = stable_ends[1]
    WHERE g.stream_id = log.id AND g.first = open_one.first;
    UPDATE sluice.segment g SET opened_at = clock_timestamp() WHERE g.stream_id = log.id AND g.first = next;
    PERFORM sluice_private.attach_segment(log.id, next + 1000000000);
    RETURN 2;
  END IF;
  RETURN 0;
END
$$;

-- Notes the last position of each partition for segments that are closed and stable.
CREATE FUNCTION sluice_private.note_lasts(log sluice.stream) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stable_end bigint := (SELECT min(b) FROM unnest(sluice_private.stable_ends(log.id, log.positions)) AS b);
  closed bigint;
BEGIN
  FOR closed IN
    SELECT g.first FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.lasts IS NULL
    ORDER BY g.first
  LOOP
    EXIT WHEN stable_end < closed + 999999999;
    EXECUTE format($query$
      UPDATE sluice.segment g SET lasts = ARRAY(
        SELECT coalesce(
          (SELECT e.position FROM sluice.%I e WHERE e.partition = s.partition ORDER BY e.position DESC LIMIT 1),
          (SELECT b.lasts[s.partition + 1] FROM sluice.segment b WHERE b.stream_id = $1 AND b.first = $2 - 1000000000), 0)
        FROM generate_series(0, $3 - 1) AS s (partition) ORDER BY s.partition
      )
      WHERE g.stream_id = $1 AND g.first = $2
    $query$, sluice_private.segment_table(log.id, closed)) USING log.id, closed, log.partitions;
  END LOOP;
END
$$;

-- Marks closed segments that are to go, the oldest first, and moves the low-water mark to their ends. A segment goes if it
-- is below the mark, too old, or the oldest of a stream that takes too much; and no append is open that may have events in
-- it, and no group pins it.
CREATE FUNCTION sluice_private.mark_segments(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stable_end bigint := (SELECT min(b) FROM unnest(sluice_private.stable_ends(log.id, log.positions)) AS b);
  bytes bigint := (SELECT sum(sluice_private.segment_bytes(g.stream_id, g.first)) FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.dropping_at IS NULL);
  old sluice.segment;
  ends bigint;
  marked integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.dropping_at IS NULL) THEN
    RETURN 0;
  END IF;
  -- A transaction that makes or moves a group has the row in share mode until others see the result.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR NO KEY UPDATE;
  FOR old IN
    SELECT g.* FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.dropping_at IS NULL
    ORDER BY g.first
  LOOP
    ends := old.first + 999999999;
    EXIT WHEN stable_end < ends;
    IF ends > log.trimmed_to THEN
      EXIT WHEN (old.closed_at > clock_timestamp() - log.retain_ms * interval '1 millisecond') IS NOT FALSE
        AND (bytes > log.retain_bytes) IS NOT TRUE;
      EXIT WHEN EXISTS (
        SELECT FROM sluice.stream_group g
        WHERE g.stream = log.stream AND sluice_private.pins(log, g)
          AND (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, ends)).first IS NOT NULL
      );
      PERFORM sluice_private.move_mark(log, ends);
      log.trimmed_to := ends;
    END IF;
    UPDATE sluice.segment g SET dropping_at = clock_timestamp() WHERE g.stream_id = log.id AND g.first = old.first;
    bytes := bytes - sluice_private.segment_bytes(log.id, old.first);
    marked := marked + 1;
  END LOOP;
  RETURN marked;
END
$$;

-- One pass over the segments of a stream, or of every stream: notes which one is open, opens the next one in time, attaches
-- the one after it, and marks those that are to go. Returns how many segments it has opened, attached or marked. What waits
-- for a lock for longer than a moment is left to the next pass. With all streams, one that fails is reported by a warning,
-- and the others are kept.
CREATE FUNCTION sluice.keep_segments(of_stream text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
  SET lock_timeout = '50ms' AS $$
DECLARE
  log sluice.stream;
  done integer := 0;
BEGIN
  PERFORM sluice_private.check_isolation();
  FOR log IN SELECT s.* FROM sluice.stream s WHERE of_stream IS NULL OR s.stream = of_stream ORDER BY s.id LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(746505, log.id);
    -- It may have been given other partitions until then.
    SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id;
    BEGIN
      done := done + sluice_private.note_open_segment(log) + sluice_private.open_next_segment(log);
      PERFORM sluice_private.note_lasts(log);
      done := done + sluice_private.mark_segments(log);
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

-- Segments that are to go, and how far that has come: attached, pending (a DETACH CONCURRENTLY was interrupted) or detached.
CREATE FUNCTION sluice.segments_to_drop()
RETURNS TABLE (stream text, stream_id integer, first bigint, log text, part text, state text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT s.stream, g.stream_id, g.first, 'event_' || g.stream_id, sluice_private.segment_table(g.stream_id, g.first),
         CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END
  FROM sluice.segment g JOIN sluice.stream s ON s.id = g.stream_id
  LEFT JOIN pg_inherits i ON i.inhrelid = to_regclass(
    format('sluice.%I', sluice_private.segment_table(g.stream_id, g.first)))
  WHERE g.dropping_at IS NOT NULL
  ORDER BY g.stream_id, g.first
$$;

-- Drops a segment that has been marked. After a DETACH CONCURRENTLY no session has read it or can read it, so what groups
-- have lost with it is exact: until then a batch that had its last events may have gone on. One that is still attached is
-- detached here, for a role that does not own the tables: that takes the whole stream for a moment, and gives up after 50
-- ms.
CREATE FUNCTION sluice.drop_segment(stream_id integer, first bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
  SET lock_timeout = '50ms' AS $$
#variable_conflict use_variable
DECLARE
  part text := sluice_private.segment_table(stream_id, first);
  ends bigint := first + 999999999;
  going text;
  g sluice.stream_group;
BEGIN
  PERFORM sluice_private.check_isolation();
  SELECT d.state INTO going FROM sluice.segments_to_drop() d WHERE d.stream_id = stream_id AND d.first = first;
  IF going IS NULL THEN
    RETURN;
  ELSIF going <> 'detached' THEN
    EXECUTE format('ALTER TABLE sluice.%I DETACH PARTITION sluice.%I%s', 'event_' || stream_id, part,
      CASE going WHEN 'pending' THEN ' FINALIZE' ELSE '' END);
  END IF;
  IF to_regclass(format('sluice.%I', part)) IS NOT NULL THEN
    FOR g IN
      SELECT o.* FROM sluice.stream_group o JOIN sluice.stream s ON s.stream = o.stream
      WHERE s.id = stream_id AND o.lost_from <= ends
    LOOP
      IF (sluice_private.unread_in(part, g.id, first - 1, ends)).first IS NULL THEN
        UPDATE sluice.stream_group o
        SET lost_from = CASE WHEN o.lost_to > ends THEN greatest(o.lost_from, ends + 1) END,
            lost_to = CASE WHEN o.lost_to > ends THEN o.lost_to END
        WHERE o.id = g.id;
      END IF;
    END LOOP;
    EXECUTE format('DROP TABLE sluice.%I', part);
  END IF;
  DELETE FROM sluice.segment s WHERE s.stream_id = stream_id AND s.first = first;
END
$$;

-- The views. Each calls its function for each stream, so that one that asks for a stream by its name reads no other.
CREATE FUNCTION sluice_private.read_stream(stream_id integer) RETURNS TABLE (
  head bigint, segments bigint, bytes bigint, events bigint, open_appends bigint, open_pid integer, open_since timestamptz
) LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT l.stable_ends[1], g.segments, g.bytes, sluice_private.positions_between(s.id, s.trimmed_to, l.stable_ends[1]),
    coalesce(o.appends, 0), o.pid, o.since
  FROM sluice.stream s
  CROSS JOIN LATERAL (SELECT sluice_private.stable_ends(s.id, s.positions) AS stable_ends) l
  CROSS JOIN LATERAL (
    SELECT count(*) AS segments, coalesce(sum(sluice_private.segment_bytes(g.stream_id, g.first)), 0)::bigint AS bytes
    FROM sluice.segment g WHERE g.stream_id = s.id
  ) g
  LEFT JOIN LATERAL (
    SELECT max(o.transactions) AS appends, (array_agg(o.pid ORDER BY o.since))[1] AS pid, min(o.since) AS since
    FROM sluice_private.open_appends_of(s.id) o
  ) o ON true
  WHERE s.id = read_stream.stream_id
$$;
