-- Streams: a log that is kept, and the groups that read it.
--
-- An event is one row that is inserted and never updated. Each stream has a table of its own, event_<id>, a partition of
-- sluice.event, and that is partitioned by ranges of position into segments, so that retention drops a whole segment.
-- Positions of a stream come from its own sequence. They are drawn before the COMMIT, so a reader must know below which
-- position nothing can appear any more: see sluice.open_appends and sluice.slot_bounds.

CREATE TABLE sluice.stream (
  -- In the names of its table and of its sequence, and in the numbers of its locks.
  id             integer     NOT NULL CONSTRAINT "id: at most 65,535 streams" CHECK (id BETWEEN 1 AND 65535),
  stream         text        NOT NULL CONSTRAINT "stream: 1 to 49 letters, digits and _ . - (no . - first)" CHECK (octet_length(stream) <= 49 AND stream ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'),
  -- Ordering keys are hashed to so many slots; a batch of a group locks slots. It changes only while the stream has no events: see sluice.change_slots.
  slots          smallint    NOT NULL DEFAULT 16 CONSTRAINT "slots: 1, 2, 4, 8, 16, 32 or 64" CHECK (slots IN (1, 2, 4, 8, 16, 32, 64)),
  positions      regclass    NOT NULL,
  -- A segment may go when all of it is older than retain_ms; the oldest go while the stream takes more than retain_bytes.
  retain_ms      bigint      CONSTRAINT "retain_ms: 1 to 3155760000000, a hundred years" CHECK (retain_ms BETWEEN 1 AND 3155760000000),
  retain_bytes   bigint      CONSTRAINT "retain_bytes: 1 or more" CHECK (retain_bytes > 0),
  -- A segment stays as long as a group has not read it.
  keep_unread    boolean     NOT NULL DEFAULT true,
  -- After so long a segment ends, and the next begins.
  segment_ms     bigint      NOT NULL DEFAULT 86400000 CONSTRAINT "segment_ms: 1000 to 3155760000000, a hundred years" CHECK (segment_ms BETWEEN 1000 AND 3155760000000),
  -- Events at and below it count as gone, although their segment is still there.
  trimmed_to     bigint      NOT NULL DEFAULT 0,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT stream_pkey PRIMARY KEY (stream),
  CONSTRAINT stream_id_key UNIQUE (id)
);

-- The ranges of positions, [first, first + 1,000,000,000), each a table event_<stream_id>_<first / 1,000,000,000>.
CREATE TABLE sluice.segment (
  stream_id      integer     NOT NULL,
  first          bigint      NOT NULL,
  -- When the sequence was set to its first position, or its first event came.
  opened_at      timestamptz,
  -- The head when others could see its table: an append that was open then may not know of it.
  ready_from     bigint,
  -- When the next one was opened: no later append has a position in it, but one that was open then may.
  closed_at      timestamptz,
  -- It is on its way out: detached, or about to be.
  dropping_at    timestamptz,
  CONSTRAINT segment_pkey PRIMARY KEY (stream_id, first)
);

-- Rows are inserted by sluice.append and sluice.append_many alone, which draw the position. There is no default, so that an INSERT by hand
-- fails instead of losing events.
CREATE TABLE sluice.event (
  stream_id      integer     NOT NULL,
  slot           smallint    NOT NULL,
  position       bigint      NOT NULL,
  ordering_key   text        CONSTRAINT "ordering_key: 1 to 255 bytes" CHECK (octet_length(ordering_key) BETWEEN 1 AND 255),
  type           text        CONSTRAINT "type: 1 to 255 bytes" CHECK (octet_length(type) BETWEEN 1 AND 255),
  schema_version integer     NOT NULL DEFAULT 1 CONSTRAINT "schema_version: 1 or more" CHECK (schema_version > 0),
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL DEFAULT '{}' CONSTRAINT "headers: a JSON object" CHECK (jsonb_typeof(headers) = 'object'),
  appended_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- See sluice.message.
  CONSTRAINT "payload, headers, ordering_key, type: readable in UTF-8" CHECK (
    getdatabaseencoding() = 'UTF8'
    OR convert_to(payload::text, 'UTF8') IS NOT NULL AND convert_to(headers::text, 'UTF8') IS NOT NULL
       AND convert_to(concat_ws(' ', ordering_key, type), 'UTF8') IS NOT NULL
  )
) PARTITION BY LIST (stream_id);

-- A group reads a stream, at its own pace.
CREATE TABLE sluice.stream_group (
  id             integer     NOT NULL GENERATED ALWAYS AS IDENTITY,
  stream         text        NOT NULL,
  name           text        NOT NULL CONSTRAINT "group: 1 to 49 letters, digits and _ . - (no . - first)" CHECK (octet_length(name) <= 49 AND name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'),
  -- park: a failed event, and the later ones of its key, become messages of the queue <stream>:<name>. stop: its slot waits.
  on_failure     text        NOT NULL DEFAULT 'park' CONSTRAINT "on_failure: park or stop" CHECK (on_failure IN ('park', 'stop')),
  -- So many events are in that queue before slots wait.
  park_limit     integer     NOT NULL DEFAULT 1000 CONSTRAINT "park_limit: 0 or more" CHECK (park_limit >= 0),
  -- Null: it has read all that it should have. Otherwise the positions that retention took from it.
  lost_from      bigint,
  lost_to        bigint,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT stream_group_pkey PRIMARY KEY (stream, name),
  CONSTRAINT stream_group_id_key UNIQUE (id)
);

-- How far a group has read a slot: the highest position counts. A batch inserts the new one and deletes the one before. An
-- UPDATE of one row would leave a chain of versions, which every claim walks while an old snapshot keeps them: 349 buffers
-- after 64,000 batches, where this has 4. Who may move it holds the lock (746503, group_id << 6 | slot).
CREATE TABLE sluice.group_progress (
  group_id       integer     NOT NULL,
  slot           smallint    NOT NULL,
  position       bigint      NOT NULL,
  moved_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Of a group that stops, or has parked as many as it may: the slot waits until then, which is infinity if its next event is not tried again by itself; how often
  -- that has failed, and how. Only this is updated, by whoever holds the lock: a row has as many versions as its event has tries.
  held_until     timestamptz,
  attempt        integer     NOT NULL DEFAULT 0,
  last_error     text,
  CONSTRAINT group_progress_pkey PRIMARY KEY (group_id, slot, position)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Groups whose queue may have messages. A claim that looked into an empty queue would walk all messages that have been there
-- since an old snapshot: 18 ms after 30,000. So claims look only where this has a row. Who puts a message there inserts one if
-- it sees none, and holds the lock (746506, group_id) shared until its transaction ends; who finds the queue empty
-- deletes what it sees, and holds the lock alone. There may be several rows, so that nobody waits for another's.
CREATE TABLE sluice.group_queued (
  group_id       integer     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);
CREATE INDEX group_queued_idx ON sluice.group_queued (group_id);

-- Takes a shared lock that lives as long as the rows that the transaction, or its subtransaction, writes. A lock that is taken in a cursor
-- belongs to the cursor: if a later FETCH fails and is undone to a savepoint, the lock goes, and the rows of earlier FETCHes stay. A block
-- that catches errors is a subtransaction, which leaves its locks to the one around it, and not to the cursor.
CREATE FUNCTION sluice.lock_shared(class integer, object integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(class, object);
EXCEPTION WHEN assert_failure THEN
  RAISE;
END
$$;

-- Before a message is put into the queue of a group, or after it. A snapshot that does not move may show a row that is gone.
CREATE FUNCTION sluice.note_queued(group_id integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice.lock_shared(746506, group_id);
  INSERT INTO sluice.group_queued (group_id)
  SELECT g.id FROM sluice.stream_group g
  WHERE g.id = group_id AND (current_setting('transaction_isolation') <> 'read committed'
    OR NOT EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = group_id));
END
$$;

-- Notes that the queue of a group is empty, if it is. Returns whether it has. Waits for nobody.
CREATE FUNCTION sluice.note_empty(group_id integer, queue text) RETURNS boolean
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

-- What a statement reads of a stream, or of one segment: positions that are constants of its text, so that the planner leaves out the other
-- segments. A statement locks all that its plan names, and keeps the locks to the end of its transaction. Not > after: the planner does not know
-- that there is nothing between two whole numbers, and would keep the segment that ends there.
CREATE FUNCTION sluice.part_of_log(log_table text, after bigint, upto bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('(SELECT part.* FROM sluice.%I part WHERE part.position >= %s AND part.position <= %s)', log_table, after + 1, upto)
$$;

-- The segments of events that a batch has in hand, by their own tables: through its stream's table it would not find those in one that is being
-- detached, which waits for the batch.
CREATE FUNCTION sluice.segments_of(stream_id integer, positions bigint[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '(' || string_agg(DISTINCT format('SELECT part.* FROM sluice.event_%s_%s part', stream_id, p / 1000000000), ' UNION ALL ') || ')'
  FROM unnest(positions) AS p
$$;

-- Makes a segment, for positions from `first` on. CREATE ... PARTITION OF would wait for every open batch; ATTACH does not.
CREATE FUNCTION sluice.attach_segment(stream_id integer, first bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  log text := 'event_' || stream_id;
  part text := 'event_' || stream_id || '_' || first / 1000000000;
BEGIN
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.%I INCLUDING ALL) WITH (autovacuum_vacuum_cost_delay = 0)', part, log);
  EXECUTE format('ALTER TABLE sluice.%I ADD CONSTRAINT segment_range CHECK (position >= %s AND position < %s AND stream_id = %s)', part, first, first + 1000000000, stream_id);
  EXECUTE format('ALTER TABLE sluice.%I ATTACH PARTITION sluice.%I FOR VALUES FROM (%s) TO (%s)', log, part, first, first + 1000000000);
  EXECUTE format('ALTER TABLE sluice.%I DROP CONSTRAINT segment_range', part);
  INSERT INTO sluice.segment (stream_id, first) VALUES (attach_segment.stream_id, attach_segment.first);
END
$$;

-- An interval in milliseconds, from some to a hundred years: a longer one is no instant of PostgreSQL's when it is taken from now.
CREATE FUNCTION sluice.stream_ms(what text, given interval, shortest interval) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF given < shortest OR given > interval '100 years' THEN
    RAISE EXCEPTION '%: expected % to 100 years, received %', what, CASE WHEN shortest = interval '0' THEN '0 (none)' ELSE '1 second' END, given
      USING ERRCODE = '22023', HINT = 'As in sluice.create_stream(''orders'', retain => ''30 days'', segment => ''1 day'').';
  END IF;
  RETURN extract(epoch FROM given) * 1000;
END
$$;

-- Writes the number of slots where appends find it: it is the START of the stream's sequence, which nothing begins with. An append has the sequence
-- locked from before it looks until its transaction ends, and sees the catalogs as they are now, whatever its snapshot. Waits for all
-- that are open, and those that come meanwhile wait for this transaction.
CREATE FUNCTION sluice.note_slots(stream_id integer, slots integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER SEQUENCE sluice.%I START WITH %s', 'event_position_' || stream_id, slots);
END
$$;

-- Whether a stream has an event, or an append that is open may have put one there. Each segment by itself: one that is being detached is no
-- part of the stream's table any more.
CREATE FUNCTION sluice.has_events(stream_id integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  part text;
  is_there boolean := EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  );
BEGIN
  FOR part IN
    SELECT format('event_%s_%s', g.stream_id, g.first / 1000000000) FROM sluice.segment g WHERE g.stream_id = stream_id ORDER BY g.first DESC
  LOOP
    EXIT WHEN is_there;
    CONTINUE WHEN to_regclass('sluice.' || part) IS NULL;
    EXECUTE format('SELECT EXISTS (SELECT FROM sluice.%I)', part) INTO is_there;
  END LOOP;
  RETURN is_there;
END
$$;

-- Gives a stream another number of slots, as long as no key has a place in one: while it has no events. It asks before it waits, because
-- appends wait behind it. The locks are in the order of others: the maintenance of the stream, its row, the slots of its groups, its sequence.
-- Then each group begins in the new slots behind the last position.
CREATE FUNCTION sluice.change_slots(stream_id integer, slots integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  is_empty boolean := NOT sluice.has_events(stream_id);
  g sluice.stream_group;
  head bigint;
  moved timestamptz;
BEGIN
  PERFORM sluice.check_isolation();
  PERFORM pg_advisory_xact_lock(746505, stream_id) WHERE is_empty;
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = stream_id;
  IF is_empty THEN
    SELECT s.* INTO log FROM sluice.stream s WHERE s.id = stream_id FOR UPDATE;
    UPDATE sluice.stream s SET slots = change_slots.slots WHERE s.id = stream_id;
    FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream ORDER BY o.id LOOP
      PERFORM sluice.lock_group(g.id, greatest(log.slots, slots));
    END LOOP;
    PERFORM sluice.note_slots(stream_id, slots);
    is_empty := NOT sluice.has_events(stream_id);
  END IF;
  IF NOT is_empty THEN
    RAISE EXCEPTION 'slots: expected %, which stream "%" keeps while it has events or open appends, received %', log.slots, log.stream, slots
      USING ERRCODE = 'SL031', HINT = 'To have other slots, make another stream.';
  END IF;
  UPDATE sluice.segment o SET lasts = array_fill(0::bigint, ARRAY[slots]) WHERE o.stream_id = stream_id AND o.lasts IS NOT NULL;
  head := sluice.stream_head(log.positions);
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream LOOP
    SELECT max(p.moved_at) INTO moved FROM sluice.group_progress p WHERE p.group_id = g.id;
    DELETE FROM sluice.group_progress p WHERE p.group_id = g.id;
    INSERT INTO sluice.group_progress (group_id, slot, position, moved_at)
    SELECT g.id, slot, head, moved FROM generate_series(0, slots - 1) AS slot;
    DELETE FROM sluice.crash c WHERE c.queue = log.stream || ':' || g.name AND c.message_id < 0;
  END LOOP;
END
$$;

-- Makes a stream if there is none of this name, or changes its settings. True: it was made. What is null stays as it is; a
-- retain or retain_bytes of 0 is none.
CREATE FUNCTION sluice.create_stream(stream text, slots integer DEFAULT NULL, retain interval DEFAULT NULL, retain_bytes bigint DEFAULT NULL,
                                     keep_unread boolean DEFAULT NULL, segment interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
<<given>>
DECLARE
  log sluice.stream;
  number integer;
  reader regrole;
  retain_ms bigint := sluice.stream_ms('retain', retain, '0');
  segment_ms bigint := sluice.stream_ms('segment', segment, '1 second');
BEGIN
  SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = create_stream.stream;
  IF log.id IS NULL THEN
    -- Two that make it at once.
    PERFORM pg_advisory_xact_lock(746504, 0);
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = create_stream.stream;
  END IF;
  IF log.id IS NOT NULL THEN
    IF slots <> log.slots THEN
      PERFORM sluice.change_slots(log.id, slots);
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
    RETURN false;
  END IF;
  -- Under the lock, so that a creation that is refused or rolled back uses up no number. One whose row was deleted by hand has its tables.
  SELECT coalesce(max(s.id), 0) + 1 INTO number
  FROM (SELECT s.id FROM sluice.stream s UNION ALL SELECT g.stream_id FROM sluice.segment g) s;
  -- A snapshot that does not move may not show the last ones; of one that has this name, the INSERT says so.
  WHILE to_regclass('sluice.event_position_' || number) IS NOT NULL LOOP
    number := number + 1;
  END LOOP;
  EXECUTE format('CREATE SEQUENCE sluice.%I CACHE 1', 'event_position_' || number);
  INSERT INTO sluice.stream (id, stream, slots, positions, retain_ms, retain_bytes, keep_unread, segment_ms)
  VALUES (number, create_stream.stream, coalesce(create_stream.slots, 16), ('sluice.event_position_' || number)::regclass,
          nullif(given.retain_ms, 0), nullif(create_stream.retain_bytes, 0), coalesce(create_stream.keep_unread, true),
          coalesce(given.segment_ms, 86400000))
  ON CONFLICT ON CONSTRAINT stream_pkey DO NOTHING;
  PERFORM sluice.note_slots(number, coalesce(create_stream.slots, 16));
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.event INCLUDING ALL, CONSTRAINT %I PRIMARY KEY (slot, position)) PARTITION BY RANGE (position)',
                 'event_' || number, 'event_' || number || '_pkey');
  EXECUTE format('ALTER TABLE sluice.event ATTACH PARTITION sluice.%I FOR VALUES IN (%s)', 'event_' || number, number);
  -- Groups read it by its own name: through sluice.event they would lock the segments of all streams.
  FOR reader IN
    SELECT a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
    WHERE c.oid = 'sluice.event'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner AND a.grantee <> 0
  LOOP
    EXECUTE format('GRANT SELECT ON sluice.%I TO %s', 'event_' || number, reader);
  END LOOP;
  PERFORM sluice.attach_segment(number, 0), sluice.attach_segment(number, 1000000000);
  UPDATE sluice.segment s SET ready_from = 0, opened_at = CASE WHEN s.first = 0 THEN clock_timestamp() END WHERE s.stream_id = number;
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.create_stream IS
  'Makes a stream, or changes its settings; what is null stays as it is, and a retain or retain_bytes of 0 is none. Returns whether it was made.';

-- The slot of an ordering key: its low bits are those of the slot in a queue.
CREATE FUNCTION sluice.event_slot(ordering_key text, slots smallint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (pg_catalog.hashtextextended(ordering_key COLLATE pg_catalog."C", 0) OPERATOR(pg_catalog.&) (slots OPERATOR(pg_catalog.-) 1)::bigint)::smallint
$$;

-- Says where the transaction's appends may still put events, before it draws their positions: for each slot it takes a
-- shared lock, which nobody takes exclusively, whose number is the last position drawn at that moment (its low 31 bits).
-- All positions that it draws are above that. The locks go with the transaction, after it has become visible, and with a
-- rollback to a savepoint. Prepared transactions keep them. A setting of the transaction remembers the number for each slot, so that
-- its next append takes the same lock again, which costs no entry in the lock table. A session may write the setting by hand:
-- a number from 0 to the head holds back at least what the append draws, and any other is not used.
-- False: the stream has other slots by now, so the append looks for its own again. To read the head locks the sequence, and so keeps the slots as they
-- are: see sluice.note_slots.
CREATE FUNCTION sluice.open_appends(log sluice.stream, slots smallint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text := 'sluice.open_appends_' || log.id;
  floors bigint[] := coalesce(nullif(current_setting(name, true), ''), '{}');
  head bigint := coalesce(pg_sequence_last_value(log.positions), 0);
  slot smallint;
  is_new boolean := false;
BEGIN
  IF (pg_sequence_parameters(log.positions)).start_value <> log.slots THEN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      RAISE EXCEPTION 'could not serialize access: stream "%" has other slots since the transaction began', log.stream
        USING ERRCODE = '40001', HINT = 'Try the transaction again.';
    END IF;
    RETURN false;
  END IF;
  FOREACH slot IN ARRAY slots LOOP
    IF (floors[slot + 1] BETWEEN greatest(head - 2147483647, 0) AND head) IS NOT TRUE THEN
      floors[slot + 1] := head;
      is_new := true;
    END IF;
    PERFORM sluice.lock_shared(1275068416 | (log.id << 8) | slot, (floors[slot + 1] & 2147483647)::integer);
  END LOOP;
  IF is_new THEN
    PERFORM set_config(name, floors::text, true);
  END IF;
  RETURN true;
END
$$;

-- The last position that was drawn.
CREATE FUNCTION sluice.stream_head(positions regclass) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS 'SELECT coalesce(pg_sequence_last_value(positions), 0)';

-- Wakes those who sleep on the stream, as the trigger of sluice.message wakes those of a queue. No queue's name has a '/'.
-- Appends call it only if somebody sleeps: to ask here would take a call, and a path, for each event.
CREATE FUNCTION sluice.wake_stream(stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_notification_queue_usage() < 0.5 AND coalesce(current_setting('sluice.notify', true), '') <> 'off' THEN
    PERFORM pg_notify('sluice', '/' || stream);
  END IF;
END
$$;

-- Appends one event, and returns its position. One without an ordering key goes to a slot by chance.
CREATE FUNCTION sluice.append(stream text, payload jsonb, ordering_key text DEFAULT NULL, type text DEFAULT NULL,
                              schema_version integer DEFAULT 1, headers jsonb DEFAULT '{}') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  slot smallint;
  at bigint;
BEGIN
  LOOP
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = append.stream;
    IF log.id IS NULL THEN
      RAISE EXCEPTION 'expected the name of a stream, received "%"', append.stream
        USING ERRCODE = 'SL030', HINT = 'Make it with sluice.create_stream.';
    END IF;
    slot := CASE WHEN ordering_key IS NULL THEN floor(random() * log.slots)::smallint ELSE sluice.event_slot(ordering_key, log.slots) END;
    EXIT WHEN sluice.open_appends(log, ARRAY[slot]);
  END LOOP;
  INSERT INTO sluice.event (stream_id, slot, position, ordering_key, type, schema_version, payload, headers)
  VALUES (log.id, slot, nextval(log.positions), ordering_key, type, coalesce(schema_version, 1), payload, coalesce(headers, '{}'))
  RETURNING position INTO at;
  IF at IS NULL THEN
    RAISE EXCEPTION 'sluice.event: expected to take 1 event for stream "%", took 0', append.stream
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext('/' || append.stream)) THEN
    PERFORM sluice.wake_stream(append.stream);
  END IF;
  RETURN at;
END
$$;
COMMENT ON FUNCTION sluice.append IS 'Appends one event to a stream in the current transaction, and returns its position.';

-- Appends many, in the order of the arrays, and returns their positions in that order, which ascend. payloads: a JSON array.
-- options: a JSON array of objects with orderingKey, type, schemaVersion and headers, or an empty one. Those without an
-- ordering key go to one slot, a hundred at a time. Every slot that a row may go to has to be wanted, also where there are
-- fewer options than payloads; so both look at the keys as the same function gives them.
CREATE FUNCTION sluice.append_many(stream text, payloads jsonb, options jsonb DEFAULT '[]') RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  base bigint := floor(random() * 64);
  given bigint := jsonb_array_length(payloads);
  wanted smallint[];
  taken bigint;
BEGIN
  options := coalesce(options, '[]');
  LOOP
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = append_many.stream;
    IF log.id IS NULL THEN
      RAISE EXCEPTION 'expected the name of a stream, received "%"', append_many.stream
        USING ERRCODE = 'SL030', HINT = 'Make it with sluice.create_stream.';
    END IF;
    IF given = 0 THEN
      RETURN;
    END IF;
    SELECT array_agg(DISTINCT w.slot) INTO wanted FROM (
      SELECT coalesce(sluice.event_slot(o.key, log.slots), (base + (o.ordinal - 1) / 100) & (log.slots - 1))::smallint AS slot
      FROM ROWS FROM (jsonb_to_recordset(options) AS ("orderingKey" text)) WITH ORDINALITY AS o (key, ordinal)
      UNION ALL
      SELECT ((base + chunk) & (log.slots - 1))::smallint FROM generate_series(0, (given - 1) / 100) AS chunk
      WHERE jsonb_array_length(options) < given
    ) w;
    EXIT WHEN sluice.open_appends(log, wanted);
  END LOOP;
  RETURN QUERY
  INSERT INTO sluice.event (stream_id, slot, position, ordering_key, type, schema_version, payload, headers)
  SELECT log.id, coalesce(sluice.event_slot(r."orderingKey", log.slots), (base + (r.ordinal - 1) / 100) & (log.slots - 1))::smallint,
         nextval(log.positions), r."orderingKey", r.type, coalesce(r."schemaVersion", 1), r.payload, coalesce(r.headers, '{}')
  FROM (
    SELECT r.* FROM ROWS FROM (
      jsonb_array_elements(payloads),
      jsonb_to_recordset(options) AS (headers jsonb, type text, "schemaVersion" integer, "orderingKey" text)
    ) WITH ORDINALITY AS r (payload, headers, type, "schemaVersion", "orderingKey", ordinal)
    ORDER BY r.ordinal
  ) r
  RETURNING position;
  GET DIAGNOSTICS taken = ROW_COUNT;
  IF taken < given THEN
    RAISE EXCEPTION 'sluice.event: expected to take % event(s) for stream "%", took %', given, append_many.stream, taken
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext('/' || append_many.stream)) THEN
    PERFORM sluice.wake_stream(append_many.stream);
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.append_many IS
  'Appends the elements of a JSON array to a stream in the current transaction, in their order, and returns their positions. options: an array of objects beside it, with orderingKey, type, schemaVersion and headers.';

-- Up to which position each slot is settled: at and below it no event appears any more. First the head, then the locks of
-- open appends: whoever takes one later draws positions above this head. Whoever reads must do so in a later statement: a
-- COMMIT is visible before its locks go, so what has no lock is visible to the next snapshot. The head is read again for the
-- 31 bits of the locks: no lock that was seen is above it. The first number is the head, the others are those of the slots: of as many
-- as the stream has now, which may be other slots than a caller knows who has waited here for sluice.change_slots.
-- With the rights of the owner, because a stream's sequence is made after the roles have been granted what they may read.
CREATE FUNCTION sluice.slot_bounds(stream_id integer, positions regclass) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  head bigint := coalesce(pg_sequence_last_value(positions), 0);
  later bigint;
  slots integer := (pg_sequence_parameters(positions)).start_value;
  locks integer[];
  slot_of integer[];
BEGIN
  SELECT array_agg(l.objid::bigint::integer), array_agg((l.classid::bigint & 255)::integer) INTO locks, slot_of
  FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
  IF locks IS NULL THEN
    RETURN array_fill(head, ARRAY[slots + 1]);
  END IF;
  later := coalesce(pg_sequence_last_value(positions), 0);
  RETURN head || (
    SELECT array_agg(least(head, o.floor) ORDER BY s.slot)
    FROM generate_series(0, slots - 1) AS s (slot)
    LEFT JOIN (
      SELECT l.slot, min(later - ((later - l.floor) & 2147483647)) AS floor
      FROM unnest(slot_of, locks) AS l (slot, floor) GROUP BY l.slot
    ) o ON o.slot = s.slot
  );
END
$$;

-- Appends look it up for themselves: a call for each event would take time.
CREATE FUNCTION sluice.find_stream(stream text) RETURNS sluice.stream
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

-- Whether a queue is that of a group, <stream>:<group>. Others may have a ':' in their names as well.
CREATE FUNCTION sluice.is_of_group(queue text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM sluice.stream_group g
    WHERE g.stream = split_part(queue, ':', 1) AND g.name = substr(queue, strpos(queue, ':') + 1)
  )
$$;

-- The queue of a group has the events of its stream that have failed, and nothing else: what is enqueued there would have no
-- position, and who consumes it without the group would not keep the order of the log.
CREATE FUNCTION sluice.refuse_group_queue(queue text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  IF sluice.is_of_group(queue) THEN
    PERFORM sluice.say_group_queue(queue);
  END IF;
END
$$;

CREATE FUNCTION sluice.say_group_queue(queue text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'queue: expected one that is not of a group, received "%"', queue
    USING ERRCODE = 'SL034', HINT = 'Append to the stream, or consume it with its group.';
END
$$;

-- The same where a snapshot may be older than the group. The index of its name shows it all the same, to who tries to make another. That is undone in
-- any case, so it keeps nobody else from it. The number is one that no other session tries at the same time.
CREATE FUNCTION sluice.refuse_newer_group(queue text) RETURNS void
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
    PERFORM sluice.say_group_queue(queue);
END
$$;

CREATE FUNCTION sluice.refuse_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  -- Whoever makes a group of this name waits for this transaction, and this one for that.
  PERFORM sluice.lock_shared(746507, hashtext(NEW.queue));
  PERFORM sluice.refuse_group_queue(NEW.queue);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM sluice.refuse_newer_group(NEW.queue);
  END IF;
  RETURN NULL;
END
$$;

-- Only names with a ':' can be of a group, so other messages pay for a look at their name.
CREATE TRIGGER message_group AFTER INSERT ON sluice.message FOR EACH ROW
WHEN (NEW.event_position IS NULL AND pg_catalog.strpos(NEW.queue, ':') OPERATOR(pg_catalog.>) 0)
EXECUTE FUNCTION sluice.refuse_inserted();

-- Behind which positions the slots of a group are to begin: one for all, or one for each.
CREATE FUNCTION sluice.check_starts(parameter text, starts bigint[], slots smallint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF cardinality(starts) NOT IN (1, slots) OR array_position(starts, NULL) IS NOT NULL THEN
    RAISE EXCEPTION '%: expected 1 or % positions, received %', parameter, slots, starts
      USING ERRCODE = '22023', HINT = 'As sluice.stream_positions returns them.';
  END IF;
END
$$;

-- Makes a group if there is none of this name, with its progress. True: it was made. start_at: the position after which it
-- begins in each slot, one for all or one for each; not before what is gone, and not behind the head. Null: at the end, which
-- is what is settled now: an append that is open now is still seen.
CREATE FUNCTION sluice.create_group(stream text, name text, start_at bigint[] DEFAULT NULL, park_limit integer DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice.find_stream(stream);
  number integer;
  ends bigint[];
BEGIN
  IF EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = create_group.stream AND g.name = create_group.name) THEN
    RETURN false;
  END IF;
  PERFORM sluice.check_isolation();
  PERFORM pg_advisory_xact_lock(746507, hashtext(stream || ':' || name));
  IF EXISTS (SELECT FROM sluice.message m WHERE m.queue = stream || ':' || name AND m.event_position IS NULL)
    OR EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = stream || ':' || name AND d.event_position IS NULL)
  THEN
    RAISE EXCEPTION 'group: expected a name whose queue is empty, received "%": queue "%:%" has messages', name, stream, name
      USING ERRCODE = '22023', HINT = 'Choose another name, or consume them first, and delete its dead letters.';
  END IF;
  -- Until this transaction ends no retention takes what the group has not read: nobody else sees the group yet.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR SHARE;
  PERFORM sluice.check_starts('start_at', start_at, log.slots);
  INSERT INTO sluice.stream_group (stream, name, park_limit) VALUES (create_group.stream, create_group.name, coalesce(create_group.park_limit, 1000))
  ON CONFLICT ON CONSTRAINT stream_group_pkey DO NOTHING RETURNING id INTO number;
  IF number IS NULL THEN
    RETURN false;
  END IF;
  ends := sluice.slot_bounds(log.id, log.positions);
  INSERT INTO sluice.group_progress (group_id, slot, position)
  SELECT number, slot, greatest(log.trimmed_to, least(ends[1], CASE WHEN start_at IS NULL THEN ends[slot + 2]
                                                                    WHEN cardinality(start_at) = 1 THEN start_at[1] ELSE start_at[slot + 1] END))
  FROM generate_series(0, log.slots - 1) AS slot;
  -- One of this name may have been deleted while its members slept.
  PERFORM sluice.wake_stream(stream);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.create_group IS 'Makes a group of a stream, if there is none of this name. Returns whether it was made.';

-- What a batch of a group could not handle becomes messages of its queue, in the order of the arrays. due_us: in microseconds
-- since 1970; null: now. One that has a key and is due later has lease 0, by which the later messages of its key wait
-- for it in both modes: to write that into its queue's slot would wait for a batch that has the slot locked. The transaction
-- has its number before it draws an id: see sluice.insert_message. It fails unless the table takes all of them.
CREATE FUNCTION sluice.queue_events(group_id integer, slots smallint[], positions bigint[], attempts integer[], due_us double precision[],
                                    errors text[], details jsonb[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  queue text;
  number integer;
  taken bigint;
BEGIN
  PERFORM pg_current_xact_id();
  PERFORM sluice.note_queued(group_id);
  SELECT g.stream || ':' || g.name, s.id INTO queue, number
  FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream WHERE g.id = group_id;
  EXECUTE format('
    INSERT INTO sluice.message (queue, ordering_key, type, schema_version, payload, headers, attempt, enqueued_at, due_at, failed_at,
                                last_error, failures, lease, event_position)
    SELECT $1, e.ordering_key, e.type, e.schema_version, e.payload, e.headers, given.attempt, e.appended_at,
           coalesce(timestamptz ''epoch'' + given.due_us * interval ''1 microsecond'', clock_timestamp()),
           CASE WHEN given.error IS NOT NULL THEN clock_timestamp() END, given.error,
           sluice.add_failure(NULL, given.attempt, given.error, given.details, clock_timestamp()),
           CASE WHEN e.ordering_key IS NOT NULL AND given.due_us IS NOT NULL THEN 0 END, e.position
    FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7)) WITH ORDINALITY
         AS given (slot, position, attempt, due_us, error, details, ordinal)
    CROSS JOIN LATERAL (SELECT e.* FROM %s e WHERE e.slot = given.slot AND e.position = given.position LIMIT 1) e
    ORDER BY given.ordinal',
    sluice.segments_of(number, positions))
  USING queue, slots, positions, attempts, due_us, errors, details;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice.require_kept('message', queue, cardinality(positions), taken);
END
$$;

-- Events that are given up in their first try.
CREATE FUNCTION sluice.bury_events(group_id integer, slots smallint[], positions bigint[], attempts integer[], reasons text[], errors text[],
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
    INSERT INTO sluice.dead_letter (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, reason, error,
                                    failures, enqueued_at, event_position)
    SELECT $1, nextval(pg_get_serial_sequence(''sluice.message'', ''id'')), 5, e.ordering_key, e.type, e.schema_version, e.payload, e.headers,
           given.attempt, given.reason, given.error,
           sluice.add_failure(NULL, given.attempt, coalesce(given.error, given.reason), given.details, clock_timestamp()),
           e.appended_at, e.position
    FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7))
         AS given (slot, position, attempt, reason, error, details)
    CROSS JOIN LATERAL (SELECT e.* FROM %s e WHERE e.slot = given.slot AND e.position = given.position LIMIT 1) e',
    sluice.segments_of(number, positions))
  USING queue, slots, positions, attempts, reasons, errors, details;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice.require_kept('dead_letter', queue, cardinality(positions), taken);
END
$$;

-- Before dead letters of a group are redriven. A batch of the log may have later events of their keys in hand, because it found
-- nothing of these keys in the queue. So this waits for the batches that have their slots; the next ones find them there. Those
-- without a key wait for nobody. Then it notes that the queue has messages, behind the locks of the slots, as a batch does that parks
-- events; nobody deletes the group from here on. A queue that is not of a group is left as it is. While it waits for a slot it has
-- those before it, so it asks for no slot that it does not need.
CREATE FUNCTION sluice.lock_dead_events(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  group_id integer;
  slots smallint;
  locked_as smallint;
  slot smallint;
BEGIN
  LOOP
    SELECT g.id, s.slots INTO group_id, slots FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream
    WHERE g.stream = split_part(queue, ':', 1) AND g.name = substr(queue, strpos(queue, ':') + 1);
    IF NOT FOUND OR ids = '{}' THEN
      RETURN;
    END IF;
    -- Who gives the stream other slots locks all of its groups' slots.
    EXIT WHEN locked_as = slots;
    locked_as := slots;
    FOR slot IN
      SELECT DISTINCT sluice.event_slot(d.ordering_key, slots) AS slot FROM sluice.dead_letter d
      WHERE d.queue = queue AND d.id = ANY (ids) AND d.ordering_key IS NOT NULL ORDER BY 1
    LOOP
      PERFORM pg_advisory_xact_lock(746503, group_id << 6 | slot);
    END LOOP;
  END LOOP;
  PERFORM sluice.note_queued(group_id);
END
$$;

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 10, 1';

-- Those that run with the owner's rights, for those who are granted them.
REVOKE ALL ON FUNCTION sluice.attach_segment, sluice.create_stream, sluice.open_appends, sluice.wake_stream, sluice.append,
  sluice.append_many, sluice.slot_bounds, sluice.create_group, sluice.stream_head, sluice.queue_events, sluice.bury_events,
  sluice.lock_shared, sluice.note_queued, sluice.note_empty, sluice.refuse_group_queue, sluice.refuse_inserted FROM PUBLIC;
