-- The history of messages that have succeeded, and what maintenance does: one bounded step per call.

-- One row per message that has succeeded in a queue whose settings have history_ms, written by the statement that removes the
-- message. A partition per day (UTC) of completed_at: what is too old goes by DROP. The default partition takes what
-- no other does, so that no settlement fails for want of one.
CREATE TABLE sluice.completed_message (
  queue          text        NOT NULL,
  id             bigint      NOT NULL,
  completed_at   timestamptz NOT NULL,
  -- When the try that succeeded was claimed.
  claimed_at     timestamptz,
  -- The worker's name. Null: a claim or a pop.
  worker         text,
  -- The number of the claim. Null: a worker or a pop.
  claim          bigint,
  priority       smallint    NOT NULL,
  ordering_key   text,
  type           text,
  schema_version integer     NOT NULL,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL,
  -- The try that succeeded, from 1.
  attempt        integer     NOT NULL,
  max_attempts   integer,
  enqueued_at    timestamptz NOT NULL,
  failed_at      timestamptz,
  last_error     text,
  retry_policy   text,
  tenant         text,
  dedupe_key     text,
  CONSTRAINT completed_message_pkey PRIMARY KEY (queue, id, completed_at)
) PARTITION BY RANGE (completed_at);
CREATE INDEX completed_message_time_idx ON sluice.completed_message (queue, completed_at, id);
CREATE TABLE sluice.completed_default PARTITION OF sluice.completed_message DEFAULT;

-- When somebody began a pass of maintenance last: one process of all makes the next one. One row.
CREATE TABLE sluice.maintenance (
  one      boolean     NOT NULL DEFAULT true CONSTRAINT maintenance_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  begun_at timestamptz NOT NULL DEFAULT '-infinity',
  begun_by text
) WITH (fillfactor = 50, vacuum_truncate = off);
INSERT INTO sluice.maintenance DEFAULT VALUES;

-- For those that have expired. A message that never expires does not stand in it.
CREATE INDEX IF NOT EXISTS message_expires_idx ON sluice.message (queue, expires_at) WHERE expires_at IS NOT NULL;

-- Settling
-- Removes locked messages that have succeeded, and keeps them where the queue keeps its history. claimed_at null: now.
CREATE FUNCTION sluice.complete_locked(
  queue text, ids bigint[], claim_id bigint, claimed_at timestamptz, kept_for interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  taken bigint;
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.history_ms IS NOT NULL) THEN
    INSERT INTO sluice.completed_message
      (queue, id, completed_at, claimed_at, claim, priority, ordering_key, type, schema_version, payload, headers, attempt,
       max_attempts, enqueued_at, failed_at, last_error, retry_policy, tenant, dedupe_key)
    SELECT m.queue, m.id, now_at, coalesce(claimed_at, now_at), claim_id, m.priority, m.ordering_key, m.type, m.schema_version,
           m.payload, m.headers, sluice.failed_tries(m.queue, m.id, m.attempt) + 1, m.max_attempts, m.enqueued_at, m.failed_at,
           m.last_error, m.retry_policy, m.tenant, m.dedupe_key
    FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.* FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) m;
    GET DIAGNOSTICS taken = ROW_COUNT;
    PERFORM sluice.require_kept('completed_message', queue, cardinality(ids), taken);
  END IF;
  PERFORM sluice.remove_locked(queue, ids, true, kept_for);
END
$$;

-- Partitions
-- The day of a partition of the history by its name, completed_YYYYMMDD. Null: the default partition.
CREATE FUNCTION sluice.day_of_partition(name text) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN name ~ '^completed_[0-9]{8}$'
         THEN make_timestamptz(substr(name, 11, 4)::integer, substr(name, 15, 2)::integer, substr(name, 17, 2)::integer, 0, 0, 0, 'UTC')
         END
$$;

-- When the UTC day of an instant begins.
CREATE FUNCTION sluice.day_of(instant timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT date_trunc('day', instant AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
$$;

-- Before which day nothing of a queue's history is kept: whole days, so that partitions can go as they are.
CREATE FUNCTION sluice.history_begins(history_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice.day_of(clock_timestamp() - least(history_ms, 3155760000000) * interval '1 millisecond')
$$;

-- The queues that have rows in a partition, by one descent of its index for each.
CREATE FUNCTION sluice.queues_of_partition(name text) RETURNS text[]
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
CREATE FUNCTION sluice.default_has(day timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM unnest(sluice.queues_of_partition('completed_default')) AS found (queue) CROSS JOIN LATERAL (
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
CREATE FUNCTION sluice.may_attach() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_relation_size('sluice.completed_default') <= 1048576
    OR EXISTS (
      SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'sluice.completed_message'::regclass
        AND sluice.day_of_partition(c.relname::text) = sluice.day_of(clock_timestamp())
    )
    OR EXISTS (
      SELECT FROM pg_constraint c
      WHERE c.conrelid = 'sluice.completed_default'::regclass AND c.contype = 'c' AND c.convalidated
    )
$$;

-- Makes the partitions of today and the next seven days that are missing, if any queue keeps its history. Returns how many. A
-- day of which the default partition has messages already stays there, and so do all while may_attach says no. One that
-- waits for the default partition for longer than a moment is left to the next call. The text of a bound depends on
-- DateStyle and TimeZone.
CREATE FUNCTION sluice.make_history() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET lock_timeout = '50ms'
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
  today timestamptz := sluice.day_of(clock_timestamp());
  day timestamptz;
  name text;
  made integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.history_ms IS NOT NULL) OR NOT sluice.may_attach() THEN
    RETURN 0;
  END IF;
  FOR day IN SELECT today + n * interval '24 hours' FROM generate_series(0, 7) AS n LOOP
    name := 'completed_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD');
    CONTINUE WHEN to_regclass(format('sluice.%I', name)) IS NOT NULL OR sluice.default_has(day);
    BEGIN
      EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.completed_message)', name);
      EXECUTE format('ALTER TABLE sluice.completed_message ATTACH PARTITION sluice.%I FOR VALUES FROM (%L) TO (%L)',
                     name, day, day + interval '24 hours');
      made := made + 1;
    EXCEPTION
      -- The default partition has the day by now, or is in use; somebody else has made it; a partition of other bounds has it.
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
CREATE FUNCTION sluice.history_wanted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  PERFORM sluice.make_history();
  RETURN NULL;
END
$$;
CREATE TRIGGER queue_history AFTER INSERT ON sluice.queue FOR EACH ROW
WHEN (NEW.history_ms IS NOT NULL) EXECUTE FUNCTION sluice.history_wanted();

-- Not with every other setting: whoever makes a partition keeps settlements with history waiting until it commits.
CREATE TRIGGER queue_history_changed AFTER UPDATE OF history_ms ON sluice.queue FOR EACH ROW
WHEN (NEW.history_ms IS NOT NULL AND OLD.history_ms IS NULL) EXECUTE FUNCTION sluice.history_wanted();

-- Drops the partitions that are older than the history of any queue. Returns how many. DROP needs the whole table for
-- itself for about a millisecond, and whoever settles with history waits for as long as it waits: 50 ms at the most. If
-- somebody uses the table for longer, the partition is emptied, for which it alone is locked, and dropped by a later call.
-- DETACH CONCURRENTLY, which would not wait like that, is refused in a function, and beside a default partition.
CREATE FUNCTION sluice.drop_history() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET lock_timeout = '50ms' AS $$
DECLARE
  begins timestamptz := sluice.history_begins((SELECT coalesce(max(q.history_ms), 0) FROM sluice.queue q));
  name text;
  dropped integer := 0;
BEGIN
  FOR name IN
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass AND sluice.day_of_partition(c.relname::text) < begins
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
  'Drops the partitions of the history that are older than any queue keeps. Returns how many.';

-- Maintenance. Each call is one bounded step of one task, with the rights of the owner, so that a role that may call it needs
-- no right on the tables. None waits for a row that somebody has locked.

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
  PERFORM sluice.check_most(most);
  FOR partition_name IN
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass
      AND coalesce(sluice.day_of_partition(c.relname::text), '-infinity') <= clock_timestamp()
    ORDER BY 1
  LOOP
    FOREACH in_queue IN ARRAY sluice.queues_of_partition(partition_name) LOOP
      before := coalesce(
        (SELECT sluice.history_begins(q.history_ms) FROM sluice.queue q WHERE q.queue = in_queue AND q.history_ms IS NOT NULL),
        clock_timestamp()
      );
      CONTINUE WHEN before <= sluice.day_of_partition(partition_name);
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
  'Deletes messages from the history that their queue does not keep, though another queue keeps messages of that age. Returns how many.';

-- From queue to queue by message_expires_idx, which has those of each in the order in which they expire. A message in hand is
-- locked, or, leased or claimed, due later. A message that waits for a retry goes when it is due.
CREATE FUNCTION sluice.remove_expired(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  in_queue text := '';
  ids bigint[];
  total integer := 0;
BEGIN
  PERFORM sluice.check_isolation();
  PERFORM sluice.check_most(most);
  LOOP
    in_queue := (
      SELECT m.queue FROM sluice.message m WHERE m.expires_at IS NOT NULL AND m.queue > in_queue
      ORDER BY m.queue, m.expires_at LIMIT 1
    );
    EXIT WHEN in_queue IS NULL OR total >= most;
    ids := ARRAY(
      SELECT m.id FROM sluice.message m
      WHERE m.queue = in_queue AND m.expires_at IS NOT NULL AND m.expires_at <= now_at AND m.due_at <= now_at
        -- A claim that has the slot would wait for a row that is locked without it.
        AND (m.slot IS NULL
             OR EXISTS (SELECT FROM sluice.slot s WHERE s.queue = in_queue AND s.slot = m.slot FOR NO KEY UPDATE OF s SKIP LOCKED)
             OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = in_queue AND s.slot = m.slot))
      ORDER BY m.queue, m.expires_at LIMIT most - total FOR UPDATE OF m SKIP LOCKED
    );
    CONTINUE WHEN ids = '{}';
    PERFORM sluice.expire_locked(in_queue, ids);
    -- Those that waited for their keys, or in a queue in order, may be claimed now.
    PERFORM sluice.wake(in_queue);
    total := total + cardinality(ids);
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.remove_expired IS
  'Drops messages that have expired and that nobody has in hand, or moves them to the dead letters, as their queue says. Returns how many.';

-- By dead_letter_died_at_idx, which has those of a queue in the order in which they died.
CREATE FUNCTION sluice.prune_dead_letters(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  settings record;
  deleted integer;
  total integer := 0;
BEGIN
  PERFORM sluice.check_most(most);
  FOR settings IN
    SELECT q.queue, clock_timestamp() - least(q.dead_letter_retention_ms, 3155760000000) * interval '1 millisecond' AS before
    FROM sluice.queue q WHERE q.dead_letter_retention_ms IS NOT NULL
  LOOP
    DELETE FROM sluice.dead_letter d WHERE d.ctid = ANY (ARRAY(
      SELECT o.ctid FROM sluice.dead_letter o WHERE o.queue = settings.queue AND o.died_at < settings.before
      ORDER BY o.queue, o.died_at, o.id LIMIT most - total FOR UPDATE OF o SKIP LOCKED
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    total := total + deleted;
    EXIT WHEN total >= most;
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.prune_dead_letters IS
  'Deletes dead letters that are older than their queue keeps them. Returns how many.';

-- What is left behind: claims that have been over for an hour, of queues from which nobody claims any more, evidence about
-- messages that are gone, requests to cancel that are an hour old, and permits and buckets of tenants that have no messages.
CREATE FUNCTION sluice.prune_leftovers(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  before timestamptz := clock_timestamp() - interval '1 hour';
  claims integer;
  crashes integer;
  requests integer;
BEGIN
  PERFORM sluice.check_most(most);
  DELETE FROM sluice.claim c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.claim o WHERE o.expires_at <= before LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS claims = ROW_COUNT;
  DELETE FROM sluice.crash c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.crash o
    -- A number below zero is the position of an event.
    WHERE CASE WHEN o.message_id < 0 THEN o.crashed_at < clock_timestamp() - interval '7 days'
               ELSE NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.id = o.message_id) END
    LIMIT most - claims FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS crashes = ROW_COUNT;
  DELETE FROM sluice.cancel_request c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.cancel_request o WHERE o.asked_at <= before
    LIMIT most - claims - crashes FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS requests = ROW_COUNT;
  RETURN claims + crashes + requests + sluice.prune_limits(most - claims - crashes - requests);
END
$$;
COMMENT ON FUNCTION sluice.prune_leftovers IS
  'Deletes claims that have been over for an hour, evidence about messages that are gone, requests to cancel that are an hour old, and what limits keep of tenants without messages. Returns how many.';

-- The view
CREATE VIEW sluice.completed AS
SELECT c.queue, c.id, 'completed' AS state, c.completed_at, c.claimed_at, c.completed_at - c.claimed_at AS took,
       c.worker, c.claim, c.type, c.schema_version, c.payload, c.headers, c.ordering_key, c.priority, c.attempt, c.max_attempts,
       c.enqueued_at, c.failed_at, c.last_error, c.tenant, c.dedupe_key, c.retry_policy
FROM sluice.completed_message c;
COMMENT ON VIEW sluice.completed IS 'Messages that have succeeded, of queues that keep their history.';
COMMENT ON COLUMN sluice.completed.queue IS 'The queue.';
COMMENT ON COLUMN sluice.completed.id IS 'The message''s id.';
COMMENT ON COLUMN sluice.completed.state IS 'completed.';
COMMENT ON COLUMN sluice.completed.completed_at IS 'When it was removed from its queue, by the statement that did that.';
COMMENT ON COLUMN sluice.completed.claimed_at IS 'When the try that succeeded was claimed.';
COMMENT ON COLUMN sluice.completed.took IS 'From the one to the other.';
COMMENT ON COLUMN sluice.completed.worker IS 'The name of the worker that handled it. Null: it was in a claim, or popped.';
COMMENT ON COLUMN sluice.completed.claim IS 'The claim that settled it. Null: a worker did, or it was popped.';
COMMENT ON COLUMN sluice.completed.type IS 'The message''s type.';
COMMENT ON COLUMN sluice.completed.schema_version IS 'The version of the payload''s schema.';
COMMENT ON COLUMN sluice.completed.payload IS 'The content, as it was enqueued.';
COMMENT ON COLUMN sluice.completed.headers IS 'Its headers.';
COMMENT ON COLUMN sluice.completed.ordering_key IS 'Its ordering key.';
COMMENT ON COLUMN sluice.completed.priority IS 'Its priority.';
COMMENT ON COLUMN sluice.completed.attempt IS 'Which try succeeded, from 1.';
COMMENT ON COLUMN sluice.completed.max_attempts IS 'Its own limit of attempts, where it had one.';
COMMENT ON COLUMN sluice.completed.enqueued_at IS 'When it was enqueued.';
COMMENT ON COLUMN sluice.completed.failed_at IS 'When its last failed try failed; null: none did.';
COMMENT ON COLUMN sluice.completed.last_error IS 'How that try failed.';
COMMENT ON COLUMN sluice.completed.tenant IS 'Whose message it was, where one was given.';
COMMENT ON COLUMN sluice.completed.dedupe_key IS 'Its dedupe key, where it had one.';
COMMENT ON COLUMN sluice.completed.retry_policy IS 'The name of its own retry policy, where it had one.';

-- PUBLIC gets EXECUTE by default, which here would be the owner's rights.
REVOKE ALL ON FUNCTION sluice.history_wanted, sluice.make_history, sluice.drop_history, sluice.prune_history, sluice.remove_expired,
  sluice.prune_dead_letters, sluice.prune_leftovers FROM PUBLIC;

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 6, 1';
