-- Makes streams, and gives them other settings.
--
-- Public functions: sluice.create_stream.

-- Appends look it up for themselves: a call for each event would take time.
CREATE FUNCTION sluice_private.find_stream(stream text) RETURNS sluice.stream
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
BEGIN
  SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = stream;
  IF log.id IS NULL THEN
    RAISE EXCEPTION 'expected the name of a stream, received "%"', stream
      USING ERRCODE = 'SL030', HINT = 'Make it with sluice.create_stream.';
  END IF;
  RETURN log;
END
$$;

CREATE FUNCTION sluice_private.find_group(stream text, name text) RETURNS sluice.stream_group
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group;
BEGIN
  PERFORM sluice_private.find_stream(stream);
  SELECT g.* INTO this_group FROM sluice.stream_group g WHERE g.stream = stream AND g.name = name;
  IF this_group.id IS NULL THEN
    RAISE EXCEPTION 'expected the name of a group of stream "%", received "%"', stream, name
      USING ERRCODE = 'SL032', HINT = 'Make it with sluice.create_group.';
  END IF;
  RETURN this_group;
END
$$;

-- An interval in milliseconds.
CREATE FUNCTION sluice_private.stream_ms(what text, given interval, shortest text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_time(what, given,
    'As in retain => ''30 days'', segment => ''1 day''. A retain of zero is none.', shortest);
  RETURN extract(epoch FROM given) * 1000;
END
$$;

-- What a statement reads of a stream, or of one segment: positions that are constants of its text, so that the planner
-- leaves out the other segments. A statement locks all that its plan names, and keeps the locks to the end of its
-- transaction. Not > after: the planner does not know that there is nothing between two whole numbers, and would keep the
-- segment that ends there.
CREATE FUNCTION sluice_private.part_of_log(log_table text, after bigint, upto bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('(SELECT part.* FROM sluice.%I part WHERE part.position >= %s AND part.position <= %s)',
    log_table, after + 1, upto)
$$;

-- The segments of the events of a batch, by their own tables: through its stream's table the batch would not find those
-- in one that is being detached, which waits for the batch.
CREATE FUNCTION sluice_private.segments_of(stream_id integer, positions bigint[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '(' || string_agg(DISTINCT format('SELECT part.* FROM sluice.event_%s_%s part', stream_id,
    p / 1000000000), ' UNION ALL ') || ')'
  FROM unnest(positions) AS p
$$;

-- The last position that was drawn.
CREATE FUNCTION sluice_private.stream_head(positions regclass) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  SET row_security = off AS 'SELECT coalesce(pg_sequence_last_value(positions), 0)';

-- Up to which position each partition is stable: at and below it no event appears any more. First the head, then the
-- locks of open appends: an append that takes one later draws positions above this head. The events must be read in a later
-- statement: a COMMIT is visible before its locks go, so what has no lock is visible to the next snapshot. The head is
-- read again for the 31 bits of the locks: no lock that was seen is above it. The first number is the head, the others
-- are those of the partitions: of as many as the stream has now, which may differ from what a caller knew before it waited
-- here for sluice_private.change_partitions. With the rights of the owner, because a stream's sequence is made after
-- roles.sql has granted what the roles may read.
CREATE FUNCTION sluice_private.stable_ends(stream_id integer, positions regclass) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  head bigint := coalesce(pg_sequence_last_value(positions), 0);
  later bigint;
  partitions integer := (pg_sequence_parameters(positions)).start_value;
  locks integer[];
  partition_of integer[];
BEGIN
  SELECT array_agg(l.objid::bigint::integer), array_agg((l.classid::bigint & 255)::integer) INTO locks, partition_of
  FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
  IF locks IS NULL THEN
    RETURN array_fill(head, ARRAY[partitions + 1]);
  END IF;
  later := coalesce(pg_sequence_last_value(positions), 0);
  RETURN head || (
    SELECT array_agg(least(head, o.floor) ORDER BY s.partition)
    FROM generate_series(0, partitions - 1) AS s (partition)
    LEFT JOIN (
      SELECT l.partition, min(later - ((later - l.floor) & 2147483647)) AS floor
      FROM unnest(partition_of, locks) AS l (partition, floor) GROUP BY l.partition
    ) o ON o.partition = s.partition
  );
END
$$;

-- The group's progress does not move until the transaction ends. Waits for the batches that have partitions, so the next
-- statement needs a newer snapshot.
CREATE FUNCTION sluice_private.lock_group(group_id integer, partitions integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_isolation();
  FOR partition IN 0 .. partitions - 1 LOOP
    PERFORM pg_advisory_xact_lock(746503, group_id << 6 | partition);
  END LOOP;
END
$$;

-- The same by its name. The session that had it locked may have deleted it, and made another one of its name, or given
-- its stream other partitions.
CREATE FUNCTION sluice_private.lock_found_group(log sluice.stream, name text) RETURNS sluice.stream_group
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  this_group sluice.stream_group;
BEGIN
  LOOP
    log := sluice_private.find_stream(log.stream);
    this_group := sluice_private.find_group(log.stream, name);
    PERFORM sluice_private.lock_group(this_group.id, log.partitions);
    EXIT WHEN EXISTS (
      SELECT FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream
      WHERE g.id = this_group.id AND s.partitions = log.partitions
    );
  END LOOP;
  RETURN this_group;
END
$$;

-- Makes a segment, for positions from `first` on. CREATE ... PARTITION OF would wait for every open batch; ATTACH does not.
CREATE FUNCTION sluice_private.attach_segment(stream_id integer, first bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  log text := 'event_' || stream_id;
  part text := 'event_' || stream_id || '_' || first / 1000000000;
BEGIN
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.%I INCLUDING ALL) WITH (autovacuum_vacuum_cost_delay = 0)', part, log);
  EXECUTE format('ALTER TABLE sluice.%I ADD CONSTRAINT segment_range '
    'CHECK (position >= %s AND position < %s AND stream_id = %s)', part, first, first + 1000000000, stream_id);
  EXECUTE format('ALTER TABLE sluice.%I ATTACH PARTITION sluice.%I FOR VALUES FROM (%s) TO (%s)', log, part,
    first, first + 1000000000);
  EXECUTE format('ALTER TABLE sluice.%I DROP CONSTRAINT segment_range', part);
  INSERT INTO sluice.segment (stream_id, first) VALUES (attach_segment.stream_id, attach_segment.first);
END
$$;

-- Writes the number of partitions where appends find it: it is the START of the stream's sequence, which nothing begins
-- with. An append has the sequence locked from before it looks until its transaction ends, and sees the catalogs as
-- they are now, whatever its snapshot. Waits for all that are open, and those that come meanwhile wait for this transaction.
CREATE FUNCTION sluice_private.note_partitions(stream_id integer, partitions integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER SEQUENCE sluice.%I START WITH %s', 'event_position_' || stream_id, partitions);
END
$$;

-- The oldest transaction that holds each partition back, because it has appended to it and is still open. A prepared
-- one has no process. since is null where the owner of the schema may not see it (pg_read_all_stats).
CREATE FUNCTION sluice_private.open_appends_of(stream_id integer)
RETURNS TABLE (partition smallint, pid integer, since timestamptz, transactions bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT DISTINCT ON (l.partition) l.partition, l.pid, a.xact_start, count(*) OVER (PARTITION BY l.partition)
  FROM (
    SELECT DISTINCT (l.classid::bigint & 255)::smallint AS partition, l.pid, l.virtualtransaction
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ) l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  ORDER BY l.partition, a.xact_start NULLS FIRST
$$;

-- Whether a stream has an event, or an append that is open may have put one there. Each segment by itself: one that is being
-- detached is no part of the stream's table any more.
CREATE FUNCTION sluice_private.has_events(stream_id integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  part text;
  is_there boolean := EXISTS (SELECT FROM sluice_private.open_appends_of(stream_id));
BEGIN
  FOR part IN
    SELECT format('event_%s_%s', g.stream_id, g.first / 1000000000) FROM sluice.segment g WHERE g.stream_id = stream_id
    ORDER BY g.first DESC
  LOOP
    EXIT WHEN is_there;
    CONTINUE WHEN to_regclass('sluice.' || part) IS NULL;
    EXECUTE format('SELECT EXISTS (SELECT FROM sluice.%I)', part) INTO is_there;
  END LOOP;
  RETURN is_there;
END
$$;

-- Gives a stream another number of partitions, as long as no key has an event in one: while it has no events. It asks
-- before it waits, because appends wait behind it. The locks are in the order of others: the maintenance of the stream,
-- its row, the partitions of its groups, its sequence. Then each group begins in the new partitions behind the last
-- position.
CREATE FUNCTION sluice_private.change_partitions(stream_id integer, partitions integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  is_empty boolean := NOT sluice_private.has_events(stream_id);
  g sluice.stream_group;
  head bigint;
  moved timestamptz;
BEGIN
  PERFORM sluice_private.check_isolation();
  PERFORM pg_advisory_xact_lock(746505, stream_id) WHERE is_empty;
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = stream_id;
  IF is_empty THEN
    SELECT s.* INTO log FROM sluice.stream s WHERE s.id = stream_id FOR UPDATE;
    UPDATE sluice.stream s SET partitions = change_partitions.partitions WHERE s.id = stream_id;
    FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream ORDER BY o.id LOOP
      PERFORM sluice_private.lock_group(g.id, greatest(log.partitions, partitions));
    END LOOP;
    PERFORM sluice_private.note_partitions(stream_id, partitions);
    is_empty := NOT sluice_private.has_events(stream_id);
  END IF;
  IF NOT is_empty THEN
    RAISE EXCEPTION 'partitions: expected %, which stream "%" keeps while it has events or open appends, received %', log.partitions,
      log.stream, partitions
      USING ERRCODE = 'SL031', HINT = 'To have other partitions, make another stream.';
  END IF;
  UPDATE sluice.segment o SET lasts = array_fill(0::bigint, ARRAY[partitions])
  WHERE o.stream_id = stream_id AND o.lasts IS NOT NULL;
  head := sluice_private.stream_head(log.positions);
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream LOOP
    SELECT max(p.moved_at) INTO moved FROM sluice.group_progress p WHERE p.group_id = g.id;
    DELETE FROM sluice.group_progress p WHERE p.group_id = g.id;
    INSERT INTO sluice.group_progress (group_id, partition, position, moved_at)
    SELECT g.id, partition, head, moved FROM generate_series(0, partitions - 1) AS partition;
    DELETE FROM sluice.crash c WHERE c.queue = log.stream || ':' || g.name AND c.message_id < 0;
  END LOOP;
END
$$;

-- Makes a stream if there is none of this name, or changes its settings. True: it was made. What is null stays as it is; a
-- retain or retain_bytes of 0 is none.
CREATE FUNCTION sluice.create_stream(stream text, partitions integer DEFAULT NULL, retain interval DEFAULT NULL,
  retain_bytes bigint DEFAULT NULL,
                                     keep_unread boolean DEFAULT NULL, segment interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
<<given>>
DECLARE
  log sluice.stream;
  number integer;
  reader regrole;
  retain_ms bigint := sluice_private.stream_ms('retain', retain, 'zero');
  segment_ms bigint := sluice_private.stream_ms('segment', segment, '1 second');
  details jsonb := jsonb_strip_nulls(jsonb_build_object('partitions', partitions, 'retain_ms', retain_ms,
    'retain_bytes', retain_bytes, 'keep_unread', keep_unread, 'segment_ms', segment_ms));
BEGIN
  SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = create_stream.stream;
  IF log.id IS NULL THEN
    -- Two that make it at once.
    PERFORM pg_advisory_xact_lock(746504, 0);
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = create_stream.stream;
  END IF;
  IF log.id IS NOT NULL THEN
    IF partitions <> log.partitions THEN
      PERFORM sluice_private.change_partitions(log.id, partitions);
    END IF;
    UPDATE sluice.stream s
    SET retain_ms = nullif(coalesce(given.retain_ms, s.retain_ms), 0),
        retain_bytes = nullif(coalesce(create_stream.retain_bytes, s.retain_bytes), 0),
        keep_unread = coalesce(create_stream.keep_unread, s.keep_unread),
        segment_ms = coalesce(given.segment_ms, s.segment_ms)
    WHERE s.id = log.id
      AND (coalesce(given.retain_ms, s.retain_ms, 0) <> coalesce(s.retain_ms, 0)
           OR coalesce(create_stream.retain_bytes, s.retain_bytes, 0) <> coalesce(s.retain_bytes, 0)
           OR create_stream.keep_unread <> s.keep_unread OR given.segment_ms <> s.segment_ms);
    IF FOUND OR partitions <> log.partitions THEN
      PERFORM sluice_private.note_action('stream.set', NULL, 1, stream, details => details || '{"outcome": "changed"}');
    END IF;
    RETURN false;
  END IF;
  -- Under the lock, so that a creation that is refused or rolled back uses up no number. One whose row was deleted by hand
  -- has its tables.
  SELECT coalesce(max(s.id), 0) + 1 INTO number
  FROM (SELECT s.id FROM sluice.stream s UNION ALL SELECT g.stream_id FROM sluice.segment g) s;
  -- A snapshot that does not move may not show the last ones; of one that has this name, the INSERT says so.
  WHILE to_regclass('sluice.event_position_' || number) IS NOT NULL LOOP
    number := number + 1;
  END LOOP;
  EXECUTE format('CREATE SEQUENCE sluice.%I CACHE 1', 'event_position_' || number);
  INSERT INTO sluice.stream (id, stream, partitions, positions, retain_ms, retain_bytes, keep_unread, segment_ms)
  VALUES (number, create_stream.stream, coalesce(create_stream.partitions, 16), ('sluice.event_position_' || number)::regclass,
          nullif(given.retain_ms, 0), nullif(create_stream.retain_bytes, 0), coalesce(create_stream.keep_unread, true),
          coalesce(given.segment_ms, 86400000))
  ON CONFLICT ON CONSTRAINT stream_pkey DO NOTHING;
  PERFORM sluice_private.note_partitions(number, coalesce(create_stream.partitions, 16));
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.event INCLUDING ALL, CONSTRAINT %I PRIMARY KEY (partition, position)) '
                 'PARTITION BY RANGE (position)',
                 'event_' || number, 'event_' || number || '_pkey');
  EXECUTE format('ALTER TABLE sluice.event ATTACH PARTITION sluice.%I FOR VALUES IN (%s)', 'event_' || number, number);
  -- Groups read it by its own name: through sluice.event they would lock the segments of all streams.
  FOR reader IN
    SELECT a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
    WHERE c.oid = 'sluice.event'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner AND a.grantee <> 0
  LOOP
    EXECUTE format('GRANT SELECT ON sluice.%I TO %s', 'event_' || number, reader);
  END LOOP;
  PERFORM sluice_private.attach_segment(number, 0), sluice_private.attach_segment(number, 1000000000);
  UPDATE sluice.segment s SET ready_from = 0, opened_at = CASE WHEN s.first = 0 THEN clock_timestamp() END
  WHERE s.stream_id = number;
  PERFORM sluice_private.note_action('stream.set', NULL, 1, stream, details => details || '{"outcome": "created"}');
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.create_stream IS
  'Makes a stream, or changes its settings. null keeps the old value; a retain or retain_bytes of 0 means none. Returns '
  'whether it was made.';
