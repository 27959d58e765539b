-- The history of messages that have succeeded: its partitions, a day each.
--
-- Public functions: sluice.make_history, sluice.drop_history, sluice.prune_history.

-- The day of a partition of the history by its name, completed_YYYYMMDD. Null: the default partition.
CREATE FUNCTION sluice_private.day_of_partition(name text) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN name ~ '^completed_[0-9]{8}$'
         THEN make_timestamptz(substr(name, 11, 4)::integer, substr(name, 15, 2)::integer,
           substr(name, 17, 2)::integer, 0, 0, 0, 'UTC')
         END
$$;

-- When the UTC day of an instant begins.
CREATE FUNCTION sluice_private.day_of(instant timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT date_trunc('day', instant AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
$$;

-- Before which day nothing of a queue's history is kept: whole days, so that partitions can go as they are.
CREATE FUNCTION sluice_private.history_begins(history_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.day_of(clock_timestamp() - least(history_ms, 3155760000000) * interval '1 millisecond')
$$;

-- The queues that have rows in a partition, by one descent of its index for each.
CREATE FUNCTION sluice_private.queues_of_partition(name text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_queues text[];
BEGIN
  EXECUTE format($query$
    WITH RECURSIVE found (queue) AS (
      (SELECT c.queue FROM sluice.%1$I c ORDER BY c.queue, c.completed_at, c.id LIMIT 1)
      UNION ALL
      SELECT (SELECT c.queue FROM sluice.%1$I c WHERE c.queue > f.queue ORDER BY c.queue, c.completed_at, c.id LIMIT 1)
      FROM found f WHERE f.queue IS NOT NULL
    )
    SELECT array_agg(f.queue) FROM found f WHERE f.queue IS NOT NULL
  $query$, name) INTO found_queues;
  RETURN coalesce(found_queues, '{}');
END
$$;

-- Whether the default partition has messages of a day, by one descent of its index for each queue.
CREATE FUNCTION sluice_private.default_has(day timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM unnest(sluice_private.queues_of_partition('completed_default')) AS found (queue) CROSS JOIN LATERAL (
      SELECT FROM sluice.completed_default c
      WHERE c.queue = found.queue AND c.completed_at >= day AND c.completed_at < day + interval '24 hours'
      ORDER BY c.queue, c.completed_at, c.id LIMIT 1
    ) c
  )
$$;

-- Whether ATTACH keeps no settlement waiting for longer than a moment. It locks the new and the default partition only, and
-- reads the whole default partition, unless a CHECK that has been validated says that nothing of the day can be in it. Some
-- ten days without maintenance and 1.5 million messages made that a second and more for each day. It takes no time if the
-- default partition has 1 MB at the most; and no settlement waits for it if today has a partition of its own.
CREATE FUNCTION sluice_private.may_attach() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_relation_size('sluice.completed_default') <= 1048576
    OR EXISTS (
      SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'sluice.completed_message'::regclass
        AND sluice_private.day_of_partition(c.relname::text) = sluice_private.day_of(clock_timestamp())
    )
    OR EXISTS (
      SELECT FROM pg_constraint c
      WHERE c.conrelid = 'sluice.completed_default'::regclass AND c.contype = 'c' AND c.convalidated
    )
$$;

-- Makes the partitions of today and the next seven days that are missing, if any queue keeps its history. Returns how
-- many. A day stays in the default partition if that has messages of it already, and so do all while may_attach says no.
-- A partition that waits for the default one for longer than a moment is left to the next call. The text of a bound
-- depends on DateStyle and TimeZone.
CREATE FUNCTION sluice.make_history() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET lock_timeout = '50ms'
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET enable_seqscan = off SET enable_bitmapscan = off
  SET enable_sort = off AS $$
DECLARE
  today timestamptz := sluice_private.day_of(clock_timestamp());
  day timestamptz;
  name text;
  made integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.history_ms IS NOT NULL) OR NOT sluice_private.may_attach() THEN
    RETURN 0;
  END IF;
  FOR day IN SELECT today + n * interval '24 hours' FROM generate_series(0, 7) AS n LOOP
    name := 'completed_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD');
    CONTINUE WHEN to_regclass(format('sluice.%I', name)) IS NOT NULL OR sluice_private.default_has(day);
    BEGIN
      EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.completed_message)', name);
      EXECUTE format('ALTER TABLE sluice.completed_message ATTACH PARTITION sluice.%I FOR VALUES FROM (%L) TO (%L)',
                     name, day, day + interval '24 hours');
      made := made + 1;
    EXCEPTION
      -- The default partition has the day by now, or is in use; another session has made it; a partition of other bounds
      -- has it.
      WHEN check_violation OR lock_not_available OR duplicate_table OR unique_violation OR invalid_object_definition THEN
        NULL;
    END;
  END LOOP;
  RETURN made;
END
$$;
COMMENT ON FUNCTION sluice.make_history IS
  'Makes the partitions of the history for today and the next seven days, if a queue keeps its history. Returns how many.';

-- A queue that begins to keep its history has its partitions at once, and not after the next pass of maintenance.
CREATE FUNCTION sluice_private.history_wanted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  PERFORM sluice.make_history();
  RETURN NULL;
END
$$;
CREATE TRIGGER queue_history AFTER INSERT ON sluice.queue FOR EACH ROW
WHEN (NEW.history_ms IS NOT NULL) EXECUTE FUNCTION sluice_private.history_wanted();

-- Not with every other setting: to make a partition keeps settlements with history waiting until it commits.
CREATE TRIGGER queue_history_changed AFTER UPDATE OF history_ms ON sluice.queue FOR EACH ROW
WHEN (NEW.history_ms IS NOT NULL AND OLD.history_ms IS NULL) EXECUTE FUNCTION sluice_private.history_wanted();

-- Drops the partitions that are older than the history of any queue. Returns how many. DROP needs the whole table for
-- itself for about a millisecond, and settlements with history wait for as long as it waits: 50 ms at the most. If
-- another session uses the table for longer, the partition is emptied, which locks it alone, and dropped by a later call.
-- DETACH CONCURRENTLY, which would not wait like that, is refused in a function, and beside a default partition.
CREATE FUNCTION sluice.drop_history() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
  SET lock_timeout = '50ms' AS $$
DECLARE
  begins timestamptz := sluice_private.history_begins((SELECT coalesce(max(q.history_ms), 0) FROM sluice.queue q));
  name text;
  dropped integer := 0;
BEGIN
  FOR name IN
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass AND sluice_private.day_of_partition(c.relname::text) < begins
    ORDER BY 1
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE sluice.%I', name);
      dropped := dropped + 1;
    EXCEPTION WHEN lock_not_available OR undefined_table THEN
      BEGIN
        EXECUTE format('TRUNCATE sluice.%I', name);
      EXCEPTION WHEN lock_not_available OR undefined_table THEN
        NULL; -- somebody reads it
      END;
      EXIT; -- the others would wait for the same
    END;
  END LOOP;
  RETURN dropped;
END
$$;
COMMENT ON FUNCTION sluice.drop_history IS
  'Drops the partitions of the history older than any queue keeps. Returns how many.';

-- Deletes rows of queues that keep less than others, or nothing any more, out of the partitions that the others keep.
CREATE FUNCTION sluice.prune_history(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET jit = off SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_tidscan = on AS $$
DECLARE
  partition_name text;
  in_queue text;
  before timestamptz;
  deleted integer;
  total integer := 0;
BEGIN
  PERFORM sluice_private.check_most(most);
  FOR partition_name IN
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass
      AND coalesce(sluice_private.day_of_partition(c.relname::text), '-infinity') <= clock_timestamp()
    ORDER BY 1
  LOOP
    FOREACH in_queue IN ARRAY sluice_private.queues_of_partition(partition_name) LOOP
      before := coalesce(
        (SELECT sluice_private.history_begins(q.history_ms) FROM sluice.queue q
          WHERE q.queue = in_queue AND q.history_ms IS NOT NULL),
        clock_timestamp()
      );
      CONTINUE WHEN before <= sluice_private.day_of_partition(partition_name);
      EXECUTE format($query$
        DELETE FROM sluice.%1$I c WHERE c.ctid = ANY (ARRAY(
          SELECT o.ctid FROM sluice.%1$I o WHERE o.queue = $1 AND o.completed_at < $2
          ORDER BY o.completed_at, o.id LIMIT $3 FOR UPDATE SKIP LOCKED
        ))$query$, partition_name) USING in_queue, before, most - total;
      GET DIAGNOSTICS deleted = ROW_COUNT;
      total := total + deleted;
      IF total >= most THEN
        RETURN total;
      END IF;
    END LOOP;
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.prune_history IS
  'Deletes history older than its queue keeps, in partitions that other queues still keep. Returns how many.';
