-- Schedules: messages that are enqueued at given times.
--
-- A schedule is one row, and its occurrences are instants that a cron expression or an interval gives. SQL cannot compute
-- the next occurrence of a cron expression, so worker processes do: every process whose Sluice has started looks. Whoever
-- finds an occurrence due calls schedule_fire, which compares and sets next_at and enqueues, in one statement: of any
-- number of processes one wins, and a process that is frozen in between holds nothing up. There is no leader.

CREATE TABLE sluice.schedule (
  name           text        NOT NULL CONSTRAINT "name: 1 to 100 letters, digits and _ . : - (no . : - first)" CHECK (octet_length(name) <= 100 AND name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  queue          text        NOT NULL CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)" CHECK (octet_length(queue) <= 100 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  cron           text        CONSTRAINT "cron: 1 to 255 bytes" CHECK (octet_length(cron) BETWEEN 1 AND 255),
  -- Occurrences at the multiples of this since 1970-01-01 00:00 UTC.
  every_ms       bigint      CONSTRAINT "every: 1 second to 366 days" CHECK (every_ms BETWEEN 1000 AND 31622400000),
  zone           text        NOT NULL DEFAULT 'UTC' CONSTRAINT "zone: 1 to 100 bytes" CHECK (octet_length(zone) BETWEEN 1 AND 100),
  -- What becomes of occurrences that nobody has enqueued within grace_ms. That is never so short that an occurrence is
  -- missed because a timer is late: a worker looks after its time.
  missed         text        NOT NULL DEFAULT 'skip' CONSTRAINT "missed: skip, last or all" CHECK (missed IN ('skip', 'last', 'all')),
  grace_ms       bigint      NOT NULL DEFAULT 60000 CONSTRAINT "grace: 1 second to 1 hour" CHECK (grace_ms BETWEEN 1000 AND 3600000),
  -- Of missed occurrences at most so many, the latest, and none that is older.
  catch_up_most  integer     NOT NULL DEFAULT 100 CONSTRAINT "catch_up_most: 1 to 1,000" CHECK (catch_up_most BETWEEN 1 AND 1000),
  catch_up_ms    bigint      NOT NULL DEFAULT 604800000 CONSTRAINT "catch_up_within: 1 minute to 366 days" CHECK (catch_up_ms BETWEEN 60000 AND 31622400000),
  -- False: not while the last message of this schedule is queued or in flight.
  overlap        boolean     NOT NULL DEFAULT true,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL DEFAULT '{}' CONSTRAINT "headers: a JSON object" CHECK (jsonb_typeof(headers) = 'object'),
  type           text        CONSTRAINT "type: dot-separated text, 1 to 255 bytes" CHECK (octet_length(type) BETWEEN 1 AND 255 AND type ~ '^[^\x01-\x20\x7f.*]+([.][^\x01-\x20\x7f.*]+)*$'),
  schema_version integer     NOT NULL DEFAULT 1 CONSTRAINT "schema_version: 1 or more" CHECK (schema_version > 0),
  ordering_key   text        CONSTRAINT "ordering_key: 1 to 255 bytes" CHECK (octet_length(ordering_key) BETWEEN 1 AND 255),
  priority       smallint    NOT NULL DEFAULT 5 CONSTRAINT "priority: from 0 to 9" CHECK (priority BETWEEN 0 AND 9),
  delay_ms       bigint      CONSTRAINT "delay: 0 to 100 years" CHECK (delay_ms BETWEEN 0 AND 3155760000000),
  max_attempts   integer     CONSTRAINT "max_attempts: 1 or more" CHECK (max_attempts > 0),
  ttl_ms         bigint      CONSTRAINT "ttl: 1 ms to 100 years" CHECK (ttl_ms BETWEEN 1 AND 3155760000000),
  retry_policy   text        CONSTRAINT "retry_policy: 1 to 100 bytes" CHECK (octet_length(retry_policy) BETWEEN 1 AND 100),
  lease_ms       integer     CONSTRAINT "lease: 1 second to 24 hours" CHECK (lease_ms BETWEEN 1000 AND 86400000),
  tenant         text        CONSTRAINT "tenant: 1 to 255 bytes, without an ordering_key" CHECK (tenant IS NULL OR octet_length(tenant) BETWEEN 1 AND 255 AND ordering_key IS NULL),
  -- Another one with every change of the definition, and with pause and resume: what a worker has computed before counts for
  -- nothing then.
  revision       bigint      NOT NULL DEFAULT 1,
  -- When the next occurrence is due; null: there is none any more. As long as it is not planned, when the next worker is to
  -- compute it. In whole milliseconds, because it is compared with what a worker has read.
  next_at        timestamptz,
  planned        boolean     NOT NULL DEFAULT false,
  paused_at      timestamptz,
  paused_by      text,
  pause_reason   text,
  -- The last occurrence that was enqueued, when that was, and its message.
  last_at        timestamptz,
  last_enqueued_at timestamptz,
  last_id        bigint,
  enqueued       bigint      NOT NULL DEFAULT 0,
  skipped        bigint      NOT NULL DEFAULT 0,
  -- Why no worker could compute the next occurrence, or enqueue.
  error          text,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_by     text,
  CONSTRAINT schedule_pkey PRIMARY KEY (name),
  CONSTRAINT "cron, every: one of the two" CHECK ((cron IS NULL) <> (every_ms IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- The first row of this is what each poll of a worker looks at: two pages of an index, and one if there are no schedules.
CREATE INDEX schedule_next_idx ON sluice.schedule (next_at) WHERE paused_at IS NULL;

-- Defines a schedule, and tells what that changed. next_at: the next occurrence, where the caller can compute it; null: the
-- next worker that looks does. It counts only if the times of the schedule are new: otherwise an occurrence that is due and
-- not enqueued yet would be lost with each deployment. A pause stays as it is.
CREATE FUNCTION sluice.schedule_define(definition sluice.schedule) RETURNS TABLE (outcome text, next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  given sluice.schedule := definition;
  had sluice.schedule;
  now_at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  IF octet_length(given.payload::text) > 1048576 OR octet_length(given.headers::text) > 1048576 THEN
    RAISE EXCEPTION 'payload, headers: expected at most 1048576 bytes of JSON'
      USING ERRCODE = '22023', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
  PERFORM sluice.check_payload_bytes(given.payload, coalesce((SELECT q.payload_bytes FROM sluice.queue q WHERE q.queue = given.queue), 1073741823));
  SELECT s.* INTO had FROM sluice.schedule s WHERE s.name = given.name;
  -- What nobody chooses.
  given.revision := coalesce(had.revision, 1);
  given.planned := given.next_at IS NOT NULL;
  given.next_at := coalesce(date_trunc('milliseconds', given.next_at), now_at);
  given.paused_at := had.paused_at;
  given.paused_by := had.paused_by;
  given.pause_reason := had.pause_reason;
  given.last_at := had.last_at;
  given.last_enqueued_at := had.last_enqueued_at;
  given.last_id := CASE WHEN had.queue = given.queue THEN had.last_id END;
  given.enqueued := coalesce(had.enqueued, 0);
  given.skipped := coalesce(had.skipped, 0);
  given.error := had.error;
  given.created_at := coalesce(had.created_at, now_at);
  given.changed_at := coalesce(had.changed_at, now_at);
  given.changed_by := session_user;
  IF had.name IS NULL THEN
    INSERT INTO sluice.schedule SELECT given.* ON CONFLICT ON CONSTRAINT schedule_pkey DO NOTHING;
    IF FOUND THEN
      RETURN QUERY SELECT 'created', CASE WHEN given.planned THEN given.next_at END;
    ELSE
      -- Another process has defined it at this moment. Its row is seen by the next statement, unless this transaction has a
      -- snapshot of its own.
      IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'schedule: another transaction has defined "%" at the same time', given.name
          USING ERRCODE = '40001', HINT = 'Try the transaction again.';
      END IF;
      RETURN QUERY SELECT * FROM sluice.schedule_define(definition);
    END IF;
    RETURN;
  END IF;
  IF (had.cron, had.every_ms, had.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone) THEN
    given.next_at := had.next_at;
    given.planned := had.planned;
    given.changed_by := had.changed_by;
    IF had IS NOT DISTINCT FROM given THEN
      RETURN QUERY SELECT 'unchanged', CASE WHEN had.planned AND had.paused_at IS NULL THEN had.next_at END;
      RETURN;
    END IF;
  END IF;
  UPDATE sluice.schedule s SET
    queue = given.queue, cron = given.cron, every_ms = given.every_ms, zone = given.zone, missed = given.missed,
    grace_ms = given.grace_ms, catch_up_most = given.catch_up_most, catch_up_ms = given.catch_up_ms, overlap = given.overlap,
    payload = given.payload, headers = given.headers, type = given.type, schema_version = given.schema_version,
    ordering_key = given.ordering_key, priority = given.priority, delay_ms = given.delay_ms, max_attempts = given.max_attempts,
    ttl_ms = given.ttl_ms, retry_policy = given.retry_policy, lease_ms = given.lease_ms, tenant = given.tenant,
    revision = s.revision + 1,
    -- A worker may have enqueued an occurrence since had was read.
    next_at = CASE WHEN (s.cron, s.every_ms, s.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone) THEN s.next_at ELSE given.next_at END,
    planned = CASE WHEN (s.cron, s.every_ms, s.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone) THEN s.planned ELSE given.planned END,
    last_id = CASE WHEN s.queue = given.queue THEN s.last_id END,
    error = NULL, changed_at = now_at, changed_by = session_user
  WHERE s.name = given.name
  RETURNING s.next_at, s.planned AND s.paused_at IS NULL INTO given.next_at, given.planned;
  RETURN QUERY SELECT 'changed', CASE WHEN given.planned THEN given.next_at END;
END
$$;

CREATE FUNCTION sluice.schedule(
  name            text,
  queue           text,
  payload         jsonb,
  cron            text     DEFAULT NULL,
  every           interval DEFAULT NULL,
  zone            text     DEFAULT 'UTC',
  missed          text     DEFAULT 'skip',
  grace           interval DEFAULT '1 minute',
  catch_up_most   integer  DEFAULT 100,
  catch_up_within interval DEFAULT '7 days',
  overlap         boolean  DEFAULT true,
  type            text     DEFAULT NULL,
  schema_version  integer  DEFAULT 1,
  headers         jsonb    DEFAULT '{}',
  ordering_key    text     DEFAULT NULL,
  priority        integer  DEFAULT 5,
  delay           interval DEFAULT NULL,
  max_attempts    integer  DEFAULT NULL,
  ttl             interval DEFAULT NULL,
  retry_policy    text     DEFAULT NULL,
  lease           interval DEFAULT NULL,
  tenant          text     DEFAULT NULL,
  next_at         timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  given sluice.schedule;
BEGIN
  IF payload IS NULL THEN
    RAISE EXCEPTION 'payload: expected a JSON value, received NULL'
      USING ERRCODE = '22004', HINT = 'For a message without content pass ''null''::jsonb or ''{}''::jsonb.';
  END IF;
  given.name := name;
  given.queue := queue;
  given.cron := cron;
  given.every_ms := extract(epoch FROM every) * 1000;
  given.zone := coalesce(zone, 'UTC');
  given.missed := coalesce(missed, 'skip');
  given.grace_ms := extract(epoch FROM coalesce(grace, '1 minute')) * 1000;
  given.catch_up_most := coalesce(catch_up_most, 100);
  given.catch_up_ms := extract(epoch FROM coalesce(catch_up_within, '7 days')) * 1000;
  given.overlap := coalesce(overlap, true);
  given.payload := payload;
  given.headers := coalesce(headers, '{}');
  given.type := type;
  given.schema_version := coalesce(schema_version, 1);
  given.ordering_key := ordering_key;
  -- What is no smallint either meets the constraint on the priority, which says more than an overflow.
  given.priority := greatest(least(coalesce(priority, 5), 10), -1);
  given.delay_ms := extract(epoch FROM delay) * 1000;
  given.max_attempts := max_attempts;
  given.ttl_ms := extract(epoch FROM ttl) * 1000;
  given.retry_policy := retry_policy;
  given.lease_ms := CASE WHEN lease > interval '24 hours' THEN 86400001 ELSE extract(epoch FROM lease) * 1000 END;
  given.tenant := tenant;
  given.next_at := next_at;
  RETURN (SELECT d.outcome FROM sluice.schedule_define(given) d);
END
$$;
COMMENT ON FUNCTION sluice.schedule IS
  'Defines a schedule, or changes it: messages for a queue, by a cron expression or at an interval. Returns created, changed or unchanged. The next worker that looks computes the next occurrence.';

-- Fails: there is no such schedule.
CREATE FUNCTION sluice.schedule_unknown(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'Schedule "%": expected one that has been defined, received one that is unknown', name
    USING ERRCODE = 'SL070', HINT = 'The view sluice.schedules has all of them.';
END
$$;

-- Returns whether a schedule has been changed. Fails if it has not because there is none.
CREATE FUNCTION sluice.schedule_changed(name text, changed boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF NOT changed AND NOT EXISTS (SELECT FROM sluice.schedule s WHERE s.name = name) THEN
    PERFORM sluice.schedule_unknown(name);
  END IF;
  RETURN changed;
END
$$;

CREATE FUNCTION sluice.schedule_pause(name text, reason text DEFAULT NULL, paused_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s
  SET paused_at = clock_timestamp(), paused_by = coalesce(paused_by, session_user), pause_reason = reason, revision = s.revision + 1
  WHERE s.name = name AND s.paused_at IS NULL;
  RETURN sluice.schedule_changed(name, FOUND);
END
$$;
COMMENT ON FUNCTION sluice.schedule_pause IS
  'Pauses a schedule: nothing is enqueued until it is resumed. Returns false if it is paused already.';

-- What was due during the pause is not wanted: the next occurrence is the first one after now.
CREATE FUNCTION sluice.schedule_resume(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s
  SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, revision = s.revision + 1,
      next_at = date_trunc('milliseconds', clock_timestamp()), planned = false
  WHERE s.name = name AND s.paused_at IS NOT NULL;
  RETURN sluice.schedule_changed(name, FOUND);
END
$$;
COMMENT ON FUNCTION sluice.schedule_resume IS
  'Resumes a schedule. What was due during the pause is not enqueued. Returns false if it is not paused.';

CREATE FUNCTION sluice.schedule_remove(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM sluice.schedule s WHERE s.name = name;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION sluice.schedule_remove IS
  'Removes a schedule. What it has enqueued stays. Returns false if there is none with this name.';

-- Enqueues one message of a locked schedule; null if the last one is still there and they must not overlap. A probe of the
-- primary key tells: the row of a message that a transaction has in hand is still seen.
CREATE FUNCTION sluice.schedule_insert(given sluice.schedule, occurrence timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  message_id bigint;
BEGIN
  IF NOT given.overlap AND EXISTS (SELECT FROM sluice.message m WHERE m.queue = given.queue AND m.id = given.last_id) THEN
    RETURN NULL;
  END IF;
  message_id := sluice.insert_message(
    queue => given.queue,
    payload => given.payload,
    headers => given.headers || jsonb_build_object(
      'schedule', given.name,
      'scheduledFor', to_char(occurrence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    ),
    type => given.type,
    schema_version => given.schema_version,
    ordering_key => given.ordering_key,
    priority => given.priority,
    due_at => NULL,
    delay_ms => given.delay_ms,
    max_attempts => given.max_attempts,
    ttl_ms => given.ttl_ms,
    retry_policy => given.retry_policy,
    lease_ms => given.lease_ms,
    tenant => given.tenant,
    dedupe_key => NULL,
    dedupe_ms => NULL
  );
  IF message_id IS NULL THEN
    RAISE EXCEPTION 'sluice.message: expected to take 1 message for queue "%", took 0', given.queue
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
  RETURN message_id;
END
$$;

CREATE FUNCTION sluice.schedule_run(name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.schedule;
  message_id bigint;
  now_at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  SELECT s.* INTO had FROM sluice.schedule s WHERE s.name = name FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice.schedule_unknown(name);
  END IF;
  message_id := sluice.schedule_insert(had, now_at);
  IF message_id IS NOT NULL THEN
    UPDATE sluice.schedule s
    SET last_at = now_at, last_enqueued_at = clock_timestamp(), last_id = message_id, enqueued = s.enqueued + 1
    WHERE s.name = name;
  END IF;
  RETURN message_id;
END
$$;
COMMENT ON FUNCTION sluice.schedule_run IS
  'Enqueues a message of a schedule now, paused or not, and returns its id; null if it must not overlap and the last one is still there. Its times stay as they are.';

-- For workers

-- An occurrence is due: enqueues those that are given, in their order, and sets the next one. One process does it: the one
-- that finds next_at and the revision as it had read them, and the row not locked. Exactly equal, and not "at least": with
-- that, a process whose clock is ahead would jump over occurrences. No row: another process has done it, or does it now.
CREATE FUNCTION sluice.schedule_fire(
  name text, revision bigint, due_at timestamptz, occurrences timestamptz[], following timestamptz, missed bigint
) RETURNS TABLE (queue text, id bigint, occurrence timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.schedule;
  message_id bigint;
  at timestamptz;
  unwanted bigint := missed;
BEGIN
  SELECT s.* INTO had FROM sluice.schedule s
  WHERE s.name = name AND s.revision = revision AND s.next_at = due_at AND s.planned AND s.paused_at IS NULL
  FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOREACH at IN ARRAY occurrences LOOP
    message_id := sluice.schedule_insert(had, at);
    IF message_id IS NULL THEN
      unwanted := unwanted + 1;
    ELSE
      had.last_id := message_id;
      had.last_at := at;
      had.last_enqueued_at := clock_timestamp();
      had.enqueued := had.enqueued + 1;
    END IF;
    RETURN QUERY SELECT had.queue, message_id, at;
  END LOOP;
  UPDATE sluice.schedule s
  SET next_at = date_trunc('milliseconds', following), last_at = had.last_at, last_enqueued_at = had.last_enqueued_at,
      last_id = had.last_id, enqueued = had.enqueued, skipped = s.skipped + unwanted, error = NULL
  WHERE s.name = name;
  IF cardinality(occurrences) = 0 THEN
    RETURN QUERY SELECT had.queue, NULL::bigint, NULL::timestamptz;
  END IF;
END
$$;

-- Sets the next occurrence of a schedule that has none yet; null: it has no further one.
CREATE FUNCTION sluice.schedule_plan(name text, revision bigint, next_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s SET next_at = date_trunc('milliseconds', next_at), planned = true, error = NULL
  WHERE s.name = name AND s.revision = revision AND NOT s.planned;
  RETURN FOUND;
END
$$;

-- Says why a schedule could not be planned or enqueued. What could not be planned is tried again in five minutes, perhaps by
-- a process that knows the time zone.
CREATE FUNCTION sluice.schedule_failed(name text, revision bigint, error text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  UPDATE sluice.schedule s
  SET error = $3, next_at = CASE WHEN s.planned THEN s.next_at ELSE date_trunc('milliseconds', clock_timestamp()) + interval '5 minutes' END
  WHERE s.name = $1 AND s.revision = $2
$$;

CREATE VIEW sluice.schedules AS
SELECT s.name, s.queue, s.cron, s.every_ms * interval '1 millisecond' AS every, s.zone,
       CASE WHEN s.planned AND s.paused_at IS NULL THEN s.next_at END AS next_at,
       s.last_at, s.last_enqueued_at, s.last_id, s.enqueued, s.skipped, s.error,
       s.paused_at, s.paused_by, s.pause_reason,
       s.missed, s.grace_ms * interval '1 millisecond' AS grace, s.catch_up_most,
       s.catch_up_ms * interval '1 millisecond' AS catch_up_within, s.overlap,
       s.payload, s.headers, s.type, s.schema_version, s.ordering_key, s.priority, s.delay_ms * interval '1 millisecond' AS delay,
       s.max_attempts, s.ttl_ms * interval '1 millisecond' AS ttl, s.retry_policy, s.lease_ms * interval '1 millisecond' AS lease,
       s.tenant, s.created_at, s.changed_at, s.changed_by
FROM sluice.schedule s;
COMMENT ON VIEW sluice.schedules IS 'Schedules: messages that are enqueued at given times.';
COMMENT ON COLUMN sluice.schedules.name IS 'The name of the schedule.';
COMMENT ON COLUMN sluice.schedules.queue IS 'The queue that gets its messages.';
COMMENT ON COLUMN sluice.schedules.cron IS 'Its cron expression; null: it has an interval.';
COMMENT ON COLUMN sluice.schedules.every IS 'Its interval, counted from 1970-01-01 00:00 UTC; null: it has a cron expression.';
COMMENT ON COLUMN sluice.schedules.zone IS 'The time zone of the cron expression.';
COMMENT ON COLUMN sluice.schedules.next_at IS 'The next occurrence. Null: paused, not computed yet, or there is none any more.';
COMMENT ON COLUMN sluice.schedules.last_at IS 'The last occurrence that was enqueued; for a run on demand, when that was.';
COMMENT ON COLUMN sluice.schedules.last_enqueued_at IS 'When that was enqueued.';
COMMENT ON COLUMN sluice.schedules.last_id IS 'The id of its message.';
COMMENT ON COLUMN sluice.schedules.enqueued IS 'How many messages it has enqueued.';
COMMENT ON COLUMN sluice.schedules.skipped IS 'How many occurrences were missed, or left out because the last message was still there. Long gaps are counted to 1,000.';
COMMENT ON COLUMN sluice.schedules.error IS 'Why its next occurrence could not be computed or enqueued.';
COMMENT ON COLUMN sluice.schedules.paused_at IS 'Since when it is paused; null: it is not.';
COMMENT ON COLUMN sluice.schedules.paused_by IS 'Who paused it.';
COMMENT ON COLUMN sluice.schedules.pause_reason IS 'Why.';
COMMENT ON COLUMN sluice.schedules.missed IS 'What becomes of missed occurrences: skip, last or all.';
COMMENT ON COLUMN sluice.schedules.grace IS 'How late an occurrence may be without being missed.';
COMMENT ON COLUMN sluice.schedules.catch_up_most IS 'How many missed occurrences are enqueued at most.';
COMMENT ON COLUMN sluice.schedules.catch_up_within IS 'How old a missed occurrence may be to be enqueued.';
COMMENT ON COLUMN sluice.schedules.overlap IS 'False: nothing is enqueued while its last message is queued or in flight.';
COMMENT ON COLUMN sluice.schedules.payload IS 'The content of its messages.';
COMMENT ON COLUMN sluice.schedules.headers IS 'Their headers, to which schedule and scheduledFor are added.';
COMMENT ON COLUMN sluice.schedules.type IS 'Their type.';
COMMENT ON COLUMN sluice.schedules.schema_version IS 'The version of the payload''s schema.';
COMMENT ON COLUMN sluice.schedules.ordering_key IS 'Their ordering key.';
COMMENT ON COLUMN sluice.schedules.priority IS 'Their priority.';
COMMENT ON COLUMN sluice.schedules.delay IS 'How long after they are enqueued they are due; null: as the queue has been told, or at once.';
COMMENT ON COLUMN sluice.schedules.max_attempts IS 'Their limit of attempts; null: as the queue or the pipeline says.';
COMMENT ON COLUMN sluice.schedules.ttl IS 'For how long they may be delivered; null: as the queue has been told, or for ever.';
COMMENT ON COLUMN sluice.schedules.retry_policy IS 'The name of their retry policy.';
COMMENT ON COLUMN sluice.schedules.lease IS 'Their lease in leased mode.';
COMMENT ON COLUMN sluice.schedules.tenant IS 'Whose messages they are.';
COMMENT ON COLUMN sluice.schedules.created_at IS 'When it was defined.';
COMMENT ON COLUMN sluice.schedules.changed_at IS 'When its definition was changed last.';
COMMENT ON COLUMN sluice.schedules.changed_by IS 'The login that changed it last.';

-- PUBLIC gets EXECUTE by default, which here would be the owner's rights.
REVOKE ALL ON FUNCTION sluice.schedule, sluice.schedule_define, sluice.schedule_pause, sluice.schedule_resume,
  sluice.schedule_remove, sluice.schedule_run, sluice.schedule_fire, sluice.schedule_plan, sluice.schedule_failed FROM PUBLIC;

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 7, 1';
