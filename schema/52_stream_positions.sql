-- Positions of streams, and events between them.
--
-- Positions and locks are as of now, and events and progress as of the snapshot. What judges by both needs a snapshot that
-- is newer than the positions, or it takes an event that it does not see for none: such functions begin with
-- sluice_private.check_isolation.
--
-- Public functions: sluice.stream_positions, sluice.events.

-- Behind which position each partition begins with the first event that was appended at an instant or later; its stable end
-- if there is none. By bisection: each step is one descent of (partition, position) to the first event behind the
-- middle, some 30 for each partition, in a stream of any length. The clock is read when the position has been drawn, so
-- it almost ascends, unless it was set back, as by a fail-over: the bisection looks for ten minutes earlier, and then
-- reads on. Through sluice.event the server would lock the segments of all streams.
CREATE FUNCTION sluice_private.positions_at(log sluice.stream, at timestamptz, stable_ends bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
DECLARE
  found_positions bigint[];
BEGIN
  EXECUTE format($query$
    SELECT array_agg(coalesce((
      SELECT e.position - 1 FROM sluice.%1$I e
      WHERE e.partition = s.partition AND e.position > b.low AND e.position <= s.stable_end AND e.appended_at >= $2
      ORDER BY e.position LIMIT 1
    ), s.stable_end) ORDER BY s.partition)
    FROM (SELECT (o.ordinal - 2)::smallint AS partition, o.stable_end FROM unnest($3) WITH ORDINALITY AS o (stable_end, ordinal)
      WHERE o.ordinal > 1) s
    CROSS JOIN LATERAL (
      WITH RECURSIVE step (low, high) AS (
        SELECT $1, greatest(s.stable_end, $1)
        UNION ALL
        SELECT CASE WHEN f.appended_at < $2 - interval '10 minutes' THEN f.position ELSE p.low END,
               CASE WHEN f.appended_at < $2 - interval '10 minutes' THEN p.high ELSE (p.low + p.high) / 2 END
        FROM step p LEFT JOIN LATERAL (
          SELECT e.position, e.appended_at FROM sluice.%1$I e
          WHERE e.partition = s.partition AND e.position > (p.low + p.high) / 2 AND e.position <= p.high ORDER BY e.position LIMIT 1
        ) f ON true
        WHERE p.low < p.high
      )
      SELECT max(p.low) AS low FROM step p
    ) b
  $query$, 'event_' || log.id) INTO found_positions USING log.trimmed_to, at, stable_ends;
  RETURN found_positions;
END
$$;

-- Behind which position each partition begins: at the start, which is what is still there; at the end, which is what is
-- stable now; at a position, which may be behind an append that is open, and behind the head is the end; or at an instant.
CREATE FUNCTION sluice.stream_positions(stream text, at text, at_position bigint DEFAULT NULL,
  at_time timestamptz DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  stable_ends bigint[] := sluice_private.stable_ends(log.id, log.positions);
BEGIN
  IF at = 'end' THEN
    RETURN stable_ends[2:];
  ELSIF at = 'start' THEN
    RETURN array_fill(log.trimmed_to, ARRAY[cardinality(stable_ends) - 1]);
  ELSIF at = 'position' AND at_position > stable_ends[1] THEN
    RETURN stable_ends[2:];
  ELSIF at = 'position' AND at_position IS NOT NULL THEN
    RETURN array_fill(greatest(log.trimmed_to, at_position - 1), ARRAY[cardinality(stable_ends) - 1]);
  ELSIF at = 'time' AND at_time IS NOT NULL THEN
    PERFORM sluice_private.check_isolation();
    RETURN sluice_private.positions_at(log, at_time, stable_ends);
  END IF;
  RAISE EXCEPTION 'at: expected start, end, position with at_position, or time with at_time, received %',
    coalesce(quote_literal(left(at, 80)), 'NULL')
    USING ERRCODE = '22023',
      HINT = 'As in sluice.stream_positions(''orders'', ''time'', at_time => now() - interval ''1 day'').';
END
$$;
COMMENT ON FUNCTION sluice.stream_positions IS
  'Returns the position in each partition of a stream behind which a group begins. at: start, end, position (with '
  'at_position) or time (with at_time). For sluice.create_group and sluice.seek_group.';

-- What a reader must know of a stream, and in an earlier statement than the one that reads: the number in its table's name,
-- what has been trimmed, and up to which position each partition is stable (the first number is the head).
CREATE FUNCTION sluice_private.stream_stable_ends(stream text)
RETURNS TABLE (stream_id integer, partitions smallint, trimmed_to bigint, stable_ends bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'stream: expected the primary server, received a hot standby, which does not know of open appends'
      USING ERRCODE = '0A000', HINT = 'Read the stream on the primary.';
  END IF;
  PERFORM sluice_private.check_isolation();
  stable_ends := sluice_private.stable_ends(log.id, log.positions);
  RETURN QUERY SELECT log.id, (cardinality(stable_ends) - 1)::smallint, log.trimmed_to, stable_ends;
END
$$;

-- Events between two positions of a page of partitions and windows, in order of position: see
-- sluice_private.read_events in the library. It has the rights of the owner, because a stream's table is made after the
-- roles have been granted what they may read. Each partition is a range of (partition, position), which ends at its
-- LIMIT; the rows of the partitions are sorted by position.
CREATE FUNCTION sluice_private.read_events(stream_id integer, partitions smallint[], starts bigint[], ends bigint[],
  most integer, type text DEFAULT NULL, ordering_key text DEFAULT NULL) RETURNS SETOF sluice.event
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
BEGIN
  RETURN QUERY EXECUTE format($query$
    SELECT e.* FROM unnest($1, $2, $3) AS s (partition, start, finish) CROSS JOIN LATERAL (
      SELECT e.* FROM %s e
      WHERE e.partition = s.partition AND e.position > s.start AND e.position <= s.finish
        AND ($5 IS NULL OR e.type = $5) AND ($6 IS NULL OR e.ordering_key = $6)
      ORDER BY e.position LIMIT $4
    ) e
    ORDER BY e.position LIMIT $4
  $query$, sluice_private.part_of_log('event_' || stream_id,
    (SELECT min(s) FROM unnest(starts) AS s), (SELECT max(f) FROM unnest(ends) AS f)))
  USING partitions, starts, ends, most, type, ordering_key;
END
$$;

-- The first position behind the starts, of any of the partitions; null: there is none. Segment by segment, without those
-- that are known to have none.
CREATE FUNCTION sluice_private.next_position(stream_id integer, partitions smallint[], starts bigint[], ends bigint[])
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
  SET enable_sort = off
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
      SELECT FROM unnest(partitions, starts) AS s (partition, start) WHERE (g.lasts[s.partition + 1] <= s.start) IS NOT TRUE
    )
    ORDER BY g.first
  LOOP
    EXECUTE format($query$
      SELECT min(e.position) FROM unnest($1, $2, $3) AS s (partition, start, finish) CROSS JOIN LATERAL (
        SELECT e.position FROM %s e
        WHERE e.partition = s.partition AND e.position > s.start AND e.position <= s.finish ORDER BY e.position LIMIT 1
      ) e
    $query$, sluice_private.part_of_log('event_' || stream_id, part - 1, part + 999999999))
      INTO found_position USING partitions, starts, ends;
    EXIT WHEN found_position IS NOT NULL;
  END LOOP;
  RETURN found_position;
END
$$;

-- No view: a view of all streams cannot be planned without the tables of all of them, and the server locks what a plan
-- names, so one look would take thousands of locks from everybody. This opens segment after segment until it has enough, and
-- skips those that are known to have nothing behind `after`.
CREATE FUNCTION sluice.events(stream text, after bigint DEFAULT 0, most integer DEFAULT 1000) RETURNS TABLE (
  "position" bigint, partition smallint, type text, schema_version integer, payload jsonb, headers jsonb, ordering_key text,
  appended_at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_column
DECLARE
  log sluice.stream := sluice_private.find_stream(events.stream);
  partitions smallint[] := ARRAY(SELECT n::smallint FROM generate_series(0, log.partitions - 1) AS n);
  low bigint := greatest(coalesce(events.after, 0), log.trimmed_to);
  wanted bigint := events.most;
  taken bigint;
  part bigint;
BEGIN
  PERFORM sluice_private.check_integer('most', most, 10000,
    'For more, call it again behind the last position that it has returned.');
  FOR part IN
    SELECT g.first FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.first > low - 999999999
      AND EXISTS (SELECT FROM unnest(partitions) AS s (partition) WHERE (g.lasts[s.partition + 1] <= low) IS NOT TRUE)
    ORDER BY g.first
  LOOP
    RETURN QUERY
      SELECT e.position, e.partition, e.type::text, e.schema_version::integer, e.payload, e.headers, e.ordering_key::text,
             e.appended_at
      FROM sluice_private.read_events(
        log.id, partitions, array_fill(greatest(low, part - 1), ARRAY[log.partitions]), array_fill(part + 999999999, ARRAY[log.partitions]),
        wanted::integer
      ) e
      ORDER BY e.position;
    GET DIAGNOSTICS taken = ROW_COUNT;
    wanted := wanted - taken;
    EXIT WHEN wanted <= 0;
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.events IS
  'Returns up to most events of a stream behind a position, in the order of their positions. It reads no segments other '
  'than theirs.';
