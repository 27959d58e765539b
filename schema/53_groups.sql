-- Groups of streams: makes them, and says how far they have read.
--
-- Public functions: sluice.create_group.

-- What a batch of a group could not handle becomes messages of its queue, in the order of the arrays. due_us: in
-- microseconds since 1970; null: now. One that has a key and is due later has lease 0, by which the later messages of its
-- key wait for it in both modes: to write that into its queue's slot would wait for a batch that has the slot locked. The
-- transaction has its number before it draws an id: see sluice_private.insert_message. It fails unless the table takes all
-- of them.
CREATE FUNCTION sluice_private.queue_events(group_id integer, partitions smallint[], positions bigint[], attempts integer[],
  due_us double precision[],
                                    errors text[], details jsonb[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  queue text;
  number integer;
  taken bigint;
BEGIN
  PERFORM pg_current_xact_id();
  PERFORM sluice_private.note_queued(group_id);
  SELECT g.stream || ':' || g.name, s.id INTO queue, number
  FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream WHERE g.id = group_id;
  EXECUTE format('
    INSERT INTO sluice.message (queue, ordering_key, type, schema_version, payload, headers, attempt,
      enqueued_at, due_at, failed_at,
                                last_error, failures, lease, event_position)
    SELECT $1, e.ordering_key, e.type, e.schema_version, e.payload, e.headers, given.attempt, e.appended_at,
           coalesce(timestamptz ''epoch'' + given.due_us * interval ''1 microsecond'', clock_timestamp()),
           CASE WHEN given.error IS NOT NULL THEN clock_timestamp() END, given.error,
           sluice_private.add_failure(NULL, given.attempt, given.error, given.details, clock_timestamp()),
           CASE WHEN e.ordering_key IS NOT NULL AND given.due_us IS NOT NULL THEN 0 END, e.position
    FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7)) WITH ORDINALITY
         AS given (partition, position, attempt, due_us, error, details, ordinal)
    CROSS JOIN LATERAL (SELECT e.* FROM %s e WHERE e.partition = given.partition AND e.position = given.position LIMIT 1) e
    ORDER BY given.ordinal',
    sluice_private.segments_of(number, positions))
  USING queue, partitions, positions, attempts, due_us, errors, details;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('message', queue, cardinality(positions), taken);
END
$$;

-- Events that are given up in their first try.
CREATE FUNCTION sluice_private.dead_letter_events(group_id integer, partitions smallint[], positions bigint[], attempts integer[],
  reasons text[], errors text[],
                                   details jsonb[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  queue text;
  number integer;
  taken bigint;
BEGIN
  SELECT g.stream || ':' || g.name, s.id INTO queue, number
  FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream WHERE g.id = group_id;
  EXECUTE format('
    INSERT INTO sluice.dead_letter (queue, id, priority, ordering_key, type, schema_version, payload,
      headers, attempt, reason, error,
                                    failures, enqueued_at, event_position)
    SELECT $1, nextval(pg_get_serial_sequence(''sluice.message'', ''id'')), 5, e.ordering_key, e.type, e.schema_version,
           e.payload, e.headers, given.attempt, given.reason, given.error,
           sluice_private.add_failure(NULL, given.attempt, coalesce(given.error, given.reason),
             given.details, clock_timestamp()),
           e.appended_at, e.position
    FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7))
         AS given (partition, position, attempt, reason, error, details)
    CROSS JOIN LATERAL (SELECT e.* FROM %s e WHERE e.partition = given.partition AND e.position = given.position LIMIT 1) e',
    sluice_private.segments_of(number, positions))
  USING queue, partitions, positions, attempts, reasons, errors, details;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('dead_letter', queue, cardinality(positions), taken);
END
$$;

-- Behind which positions the partitions of a group are to begin: one for all, or one for each.
CREATE FUNCTION sluice_private.check_starts(parameter text, starts bigint[], partitions smallint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF cardinality(starts) NOT IN (1, partitions) OR array_position(starts, NULL) IS NOT NULL THEN
    RAISE EXCEPTION '%: expected 1 or % positions, received %', parameter, partitions, starts
      USING ERRCODE = '22023', HINT = 'As sluice.stream_positions returns them.';
  END IF;
END
$$;

-- Makes a group if there is none of this name, with its progress. True: it was made. start_at: the position after which it
-- begins in each partition, one for all or one for each; not before what is gone, and not behind the head. Null: at the end,
-- which is what is stable now: an append that is open now is still seen.
CREATE FUNCTION sluice.create_group(stream text, name text, start_at bigint[] DEFAULT NULL, defer_limit integer DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  number integer;
  ends bigint[];
BEGIN
  IF EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = create_group.stream AND g.name = create_group.name) THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.check_isolation();
  PERFORM pg_advisory_xact_lock(746507, hashtext(stream || ':' || name));
  IF EXISTS (SELECT FROM sluice.message m WHERE m.queue = stream || ':' || name AND m.event_position IS NULL)
    OR EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = stream || ':' || name AND d.event_position IS NULL)
  THEN
    RAISE EXCEPTION 'group: expected a name whose queue is empty, received "%": queue "%:%" has messages', name, stream, name
      USING ERRCODE = '22023', HINT = 'Choose another name, or consume them first, and delete its dead letters.';
  END IF;
  -- Until this transaction ends no retention takes what the group has not read: other sessions do not see the group yet.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR SHARE;
  PERFORM sluice_private.check_starts('start_at', start_at, log.partitions);
  INSERT INTO sluice.stream_group (stream, name, defer_limit)
  VALUES (create_group.stream, create_group.name, coalesce(create_group.defer_limit, 1000))
  ON CONFLICT ON CONSTRAINT stream_group_pkey DO NOTHING RETURNING id INTO number;
  IF number IS NULL THEN
    RETURN false;
  END IF;
  ends := sluice_private.stable_ends(log.id, log.positions);
  INSERT INTO sluice.group_progress (group_id, partition, position)
  SELECT number, partition, greatest(log.trimmed_to, least(ends[1], CASE WHEN start_at IS NULL THEN ends[partition + 2]
                                                                    WHEN cardinality(start_at) = 1 THEN start_at[1]
                                                                    ELSE start_at[partition + 1] END))
  FROM generate_series(0, log.partitions - 1) AS partition;
  -- One of this name may have been deleted while its members slept.
  PERFORM sluice_private.wake_stream(stream);
  PERFORM sluice_private.note_action('group.set', stream || ':' || name, 1, details => jsonb_strip_nulls(
    jsonb_build_object('outcome', 'created', 'start_at', to_jsonb(start_at), 'defer_limit', defer_limit)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.create_group IS
  'Makes a group of a stream, if there is none of this name. Returns whether it was made.';

-- How many events there may be behind one position and up to another: positions, without those that a closed segment left
-- out.
CREATE FUNCTION sluice_private.positions_between(stream_id integer, after bigint, upto bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(sum(greatest(0,
    least(upto, coalesce(g.last, g.first + 999999999)) - greatest(after, g.first - 1))), 0)::bigint
  FROM sluice.segment g WHERE g.stream_id = positions_between.stream_id
$$;

-- The first segment that may have an event which a group has not read, by partition, and behind which position.
CREATE FUNCTION sluice_private.next_segments(log sluice.stream, of_group text, from_positions bigint[]) RETURNS TABLE (
  group_id integer, partition smallint, start bigint, segment bigint
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT g.id, s.partition::smallint, n.start, coalesce((
    SELECT o.first FROM sluice.segment o
    WHERE o.stream_id = log.id AND o.first > n.start - 1000000000 AND (o.lasts[s.partition + 1] <= n.start) IS NOT TRUE
    ORDER BY o.stream_id, o.first LIMIT 1
  ), 0)
  FROM sluice.stream_group g CROSS JOIN generate_series(0, log.partitions - 1) AS s (partition)
  CROSS JOIN LATERAL (
    SELECT p.position FROM sluice.group_progress p WHERE p.group_id = g.id AND p.partition = s.partition
    ORDER BY p.position DESC LIMIT 1
  ) p
  CROSS JOIN LATERAL (SELECT greatest(log.trimmed_to, coalesce(from_positions[s.partition + 1], p.position)) AS start) n
  WHERE g.stream = log.stream AND (of_group IS NULL OR g.name = of_group)
$$;

-- For each partition of a group: how far it has read, the first event that it has not, and how many those are: counted up to
-- `most` in four segments, and beyond that taken from the positions. Events that wait behind an open append are among them.
-- Three descents for each partition, and `most` index entries. A look at all streams locks four segments of each at
-- most, and one more for each window where partitions of groups are.
CREATE FUNCTION sluice_private.read_group_partitions(of_stream text, of_group text, most integer,
  from_positions bigint[] DEFAULT NULL) RETURNS TABLE (
  stream text, name text, partition smallint, "position" bigint, stable_end bigint, next_position bigint,
  next_appended_at timestamptz, unread bigint, moved_at timestamptz, held_until timestamptz, attempt integer,
  last_error text, open_pid integer, open_since timestamptz, failures jsonb
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
  SET enable_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
#variable_conflict use_column
DECLARE
  log sluice.stream;
  stable_ends bigint[];
  part record;
BEGIN
  FOR log IN SELECT s.* FROM sluice.stream s WHERE of_stream IS NULL OR s.stream = of_stream ORDER BY s.stream LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = log.stream);
    stable_ends := sluice_private.stable_ends(log.id, log.positions);
    FOR part IN
      SELECT n.segment, array_agg(n.group_id) AS groups, array_agg(n.partition) AS partitions, array_agg(n.start) AS starts
      FROM sluice_private.next_segments(log, of_group, from_positions) n GROUP BY n.segment ORDER BY n.segment
    LOOP
      RETURN QUERY EXECUTE format($query$
        SELECT g.stream, g.name, r.partition, p.position, $3[r.partition + 2], f.position, f.appended_at,
               CASE WHEN c.events < $4 AND $3[1] <= $5 THEN c.events
                    ELSE greatest(c.events, sluice_private.positions_between($1, f.position - 1, $3[1]) / $2) END,
               p.moved_at, p.held_until, p.attempt, p.last_error, o.pid, o.since, p.failures
        FROM ROWS FROM (unnest($6), unnest($7), unnest($8)) AS r (group_id, partition, start)
        JOIN sluice.stream_group g ON g.id = r.group_id
        CROSS JOIN LATERAL (
          SELECT p.* FROM sluice.group_progress p WHERE p.group_id = r.group_id AND p.partition = r.partition
          ORDER BY p.position DESC LIMIT 1
        ) p
        LEFT JOIN LATERAL (
          SELECT e.position, e.appended_at FROM %1$s e WHERE e.partition = r.partition AND e.position > r.start
          ORDER BY e.position LIMIT 1
        ) f ON true
        CROSS JOIN LATERAL (
          SELECT count(*) AS events FROM (
            SELECT FROM %1$s e WHERE f.position IS NOT NULL AND e.partition = r.partition AND e.position > r.start
            ORDER BY e.position LIMIT $4
          ) e
        ) c
        LEFT JOIN sluice_private.open_appends_of($1) o ON o.partition = r.partition
        ORDER BY g.name, r.partition
      $query$, sluice_private.part_of_log('event_' || log.id, part.segment - 1, least(stable_ends[1], part.segment + 3999999999)))
      USING log.id, log.partitions, stable_ends, most, part.segment + 3999999999, part.groups, part.partitions, part.starts;
    END LOOP;
  END LOOP;
END
$$;
