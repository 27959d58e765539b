-- Appends events to streams.
--
-- Public functions: sluice.append, sluice.append_many.

-- Says where the transaction's appends may still put events, before it draws their positions: for each partition it takes a
-- shared lock, never taken exclusively; the lock's number is the last position drawn at that moment (its low 31 bits).
-- All positions that it draws are above that. The locks go with the transaction, after it has become visible, and with a
-- rollback to a savepoint. Prepared transactions keep them. A setting of the transaction remembers the number for each
-- partition, so that its next append takes the same lock again, which costs no entry in the lock table. A session may write
-- the setting by hand: a number from 0 to the head holds back at least what the append draws, and any other is not used.
-- False: the stream has other partitions by now, so the append looks for its own again. To read the head locks the sequence,
-- and so keeps the partitions as they are: see sluice_private.note_partitions.
CREATE FUNCTION sluice_private.open_appends(log sluice.stream, partitions smallint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET array_nulls = on AS $$
DECLARE
  name text := 'sluice.open_appends_' || log.id;
  floors bigint[] := coalesce(nullif(current_setting(name, true), ''), '{}');
  head bigint := coalesce(pg_sequence_last_value(log.positions), 0);
  partition smallint;
  is_new boolean := false;
BEGIN
  IF (pg_sequence_parameters(log.positions)).start_value <> log.partitions THEN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      RAISE EXCEPTION 'could not serialize access: stream "%" has other partitions since the transaction began', log.stream
        USING ERRCODE = '40001', HINT = 'Try the transaction again.';
    END IF;
    RETURN false;
  END IF;
  FOREACH partition IN ARRAY partitions LOOP
    IF (floors[partition + 1] BETWEEN greatest(head - 2147483647, 0) AND head) IS NOT TRUE THEN
      floors[partition + 1] := head;
      is_new := true;
    END IF;
    PERFORM sluice_private.lock_shared(1275068416 | (log.id << 8) | partition, (floors[partition + 1] & 2147483647)::integer);
  END LOOP;
  IF is_new THEN
    PERFORM set_config(name, floors::text, true);
  END IF;
  RETURN true;
END
$$;

-- Appends one event, and returns its position. One without an ordering key goes to a partition by chance.
CREATE FUNCTION sluice.append(stream text, payload jsonb, ordering_key text DEFAULT NULL, type text DEFAULT NULL,
                              schema_version integer DEFAULT 1, headers jsonb DEFAULT '{}') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  partition smallint;
  at bigint;
BEGIN
  IF type IS NOT NULL THEN
    PERFORM sluice_private.check_type(type);
  END IF;
  LOOP
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = append.stream;
    IF log.id IS NULL THEN
      PERFORM sluice_private.find_stream(append.stream); -- fails
    END IF;
    partition := CASE WHEN ordering_key IS NULL THEN floor(random() * log.partitions)::smallint
      ELSE sluice_private.event_partition(ordering_key, log.partitions) END;
    EXIT WHEN sluice_private.open_appends(log, ARRAY[partition]);
  END LOOP;
  INSERT INTO sluice.event (stream_id, partition, position, ordering_key, type, schema_version, payload, headers)
  VALUES (log.id, partition, nextval(log.positions), ordering_key, type, coalesce(schema_version, 1),
    payload, coalesce(headers, '{}'))
  RETURNING position INTO at;
  IF at IS NULL THEN
    PERFORM sluice_private.require_kept('event', append.stream, 1, 0);
  END IF;
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext('/' || append.stream)) THEN
    PERFORM sluice_private.wake_stream(append.stream);
  END IF;
  RETURN at;
END
$$;
COMMENT ON FUNCTION sluice.append IS 'Appends one event to a stream in the current transaction, and returns its position.';

-- The partition of one of many events: that of its key or, without one, the next after that of the hundred before. Places begin
-- with 1. PostgreSQL makes it part of the statement that calls it, so that it costs nothing: without a key only the sum is left.
CREATE FUNCTION sluice_private.partition_of_many(ordering_key text, place bigint, base bigint, partitions smallint)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(
    sluice_private.event_partition(ordering_key, partitions)::bigint,
    (base OPERATOR(pg_catalog.+) ((place OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog./) 100))
      OPERATOR(pg_catalog.&) (partitions OPERATOR(pg_catalog.-) 1)::bigint
  )::smallint
$$;

-- Appends many, in the order of the arrays, and returns their positions in that order, which ascend. payloads: a JSON array.
-- options: a JSON array of objects with orderingKey, type, schemaVersion and headers, or an empty one. Those without an
-- ordering key go to one partition, a hundred at a time. Every partition that a row may go to has to be wanted, also
-- where there are fewer options than payloads; so both look at the keys as the same function gives them.
CREATE FUNCTION sluice.append_many(stream text, payloads jsonb, options jsonb DEFAULT '[]') RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  base bigint := floor(random() * 64);
  given bigint;
  wrong integer;
  wanted smallint[];
  taken bigint;
BEGIN
  options := coalesce(options, '[]');
  IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' OR jsonb_typeof(options) <> 'array' THEN
    RAISE EXCEPTION 'append_many: expected payloads and options to be JSON arrays, received % and %',
      coalesce(jsonb_typeof(payloads), 'null'), jsonb_typeof(options) USING ERRCODE = '22023';
  END IF;
  given := jsonb_array_length(payloads);
  IF jsonb_array_length(options) > given THEN
    RAISE EXCEPTION 'append_many: expected at most one object of options for each payload, received % for %',
      jsonb_array_length(options), given USING ERRCODE = '22023';
  END IF;
  IF options <> '[]' THEN
    SELECT o.ordinal - 1 INTO wrong FROM jsonb_array_elements(options) WITH ORDINALITY AS o (value, ordinal)
    WHERE CASE WHEN jsonb_typeof(o.value) <> 'object' THEN true
               ELSE o.value - ARRAY['orderingKey', 'type', 'schemaVersion', 'headers'] <> '{}' END
    ORDER BY o.ordinal LIMIT 1;
    IF wrong IS NOT NULL THEN
      RAISE EXCEPTION 'append_many: options[%]: expected an object with orderingKey, type, schemaVersion and headers, received %',
        wrong, options -> wrong USING ERRCODE = '22023';
    END IF;
    SELECT o.ordinal - 1 INTO wrong FROM jsonb_array_elements(options) WITH ORDINALITY AS o (value, ordinal)
    WHERE jsonb_typeof(o.value -> 'type') NOT IN ('string', 'null')
    ORDER BY o.ordinal LIMIT 1;
    IF wrong IS NOT NULL THEN
      RAISE EXCEPTION 'append_many: options[%].type: expected a string, received %', wrong, options -> wrong -> 'type'
        USING ERRCODE = '22023', HINT = 'As in {"type": "order.placed"}.';
    END IF;
    PERFORM sluice_private.check_type(given_type.type) FROM (
      SELECT DISTINCT o.type FROM jsonb_to_recordset(options) AS o (type text) WHERE o.type IS NOT NULL
    ) given_type;
  END IF;
  LOOP
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = append_many.stream;
    IF log.id IS NULL THEN
      PERFORM sluice_private.find_stream(append_many.stream); -- fails
    END IF;
    IF given = 0 THEN
      RETURN;
    END IF;
    SELECT array_agg(DISTINCT w.partition) INTO wanted FROM (
      SELECT sluice_private.partition_of_many(o.key, o.ordinal, base, log.partitions) AS partition
      FROM ROWS FROM (jsonb_to_recordset(options) AS ("orderingKey" text)) WITH ORDINALITY AS o (key, ordinal)
      UNION ALL
      SELECT sluice_private.partition_of_many(NULL, place, base, log.partitions) FROM generate_series(1, given, 100) AS place
      WHERE jsonb_array_length(options) < given
    ) w;
    EXIT WHEN sluice_private.open_appends(log, wanted);
  END LOOP;
  -- Most calls have no options. Without them a call takes a tenth less of the server's time with 10 events, a thirtieth less with 1,000.
  IF options = '[]' THEN
    RETURN QUERY
    INSERT INTO sluice.event (stream_id, partition, position, payload)
    SELECT log.id, sluice_private.partition_of_many(NULL, r.ordinal, base, log.partitions), nextval(log.positions), r.payload
    FROM (
      SELECT r.* FROM jsonb_array_elements(payloads) WITH ORDINALITY AS r (payload, ordinal) ORDER BY r.ordinal
    ) r
    RETURNING position;
  ELSE
    RETURN QUERY
    INSERT INTO sluice.event (stream_id, partition, position, ordering_key, type, schema_version, payload, headers)
    SELECT log.id, sluice_private.partition_of_many(r."orderingKey", r.ordinal, base, log.partitions), nextval(log.positions),
           r."orderingKey", r.type, coalesce(r."schemaVersion", 1), r.payload, coalesce(r.headers, '{}')
    FROM (
      SELECT r.* FROM ROWS FROM (
        jsonb_array_elements(payloads),
        jsonb_to_recordset(options) AS (headers jsonb, type text, "schemaVersion" integer, "orderingKey" text)
      ) WITH ORDINALITY AS r (payload, headers, type, "schemaVersion", "orderingKey", ordinal)
      ORDER BY r.ordinal
    ) r
    RETURNING position;
  END IF;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('event', append_many.stream, given, taken);
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext('/' || append_many.stream)) THEN
    PERFORM sluice_private.wake_stream(append_many.stream);
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.append_many IS
  'Appends the elements of a JSON array to a stream in the current transaction, in their order, and returns their '
  'positions. options: an array with one object per element, with orderingKey, type, schemaVersion and headers.';
