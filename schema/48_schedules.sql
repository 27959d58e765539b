-- Defines schedules, and enqueues what they say.
--
-- Public functions: sluice.schedule, sluice.schedule_pause, sluice.schedule_resume, sluice.schedule_delete,
-- sluice.schedule_run_now.

-- Defines a schedule, and tells what that changed. next_at: the next occurrence, where the caller can compute it; null: the
-- next worker that looks does. It counts only if the times of the schedule are new: otherwise an occurrence that is due and
-- not enqueued yet would be lost with each deployment. A pause stays as it is.
CREATE FUNCTION sluice_private.schedule_define(definition sluice.schedule) RETURNS TABLE (outcome text, next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  given sluice.schedule := definition;
  had sluice.schedule;
  now_at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  PERFORM sluice_private.check_bytes('payload', given.payload), sluice_private.check_bytes('headers', given.headers);
  PERFORM sluice_private.check_payload_bytes(given.payload,
    (sluice_private.queue_defaults(given.queue)).payload_limit_bytes);
  SELECT s.* INTO had FROM sluice.schedule s WHERE s.name = given.name;
  -- What the caller does not choose.
  given.revision := coalesce(had.revision, nextval('sluice.schedule_revision_seq'::regclass));
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
  given.changed_by := sluice_private.actor();
  IF had.name IS NULL THEN
    INSERT INTO sluice.schedule SELECT given.* ON CONFLICT ON CONSTRAINT schedule_pkey DO NOTHING;
    IF FOUND THEN
      PERFORM sluice_private.note_action('schedule.set', given.queue, 1, given.name, details => '{"outcome": "created"}');
      RETURN QUERY SELECT 'created', CASE WHEN given.planned THEN given.next_at END;
    ELSE
      -- Another process has defined it at this moment. Its row is seen by the next statement, unless this transaction has a
      -- snapshot of its own.
      IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'schedule: another transaction has defined "%" at the same time', given.name
          USING ERRCODE = '40001', HINT = 'Try the transaction again.';
      END IF;
      RETURN QUERY SELECT * FROM sluice_private.schedule_define(definition);
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
    ordering_key = given.ordering_key, priority = given.priority, delay_ms = given.delay_ms,
    max_attempts = given.max_attempts, ttl_ms = given.ttl_ms, retry_policy = given.retry_policy, lease_ms = given.lease_ms,
    tenant = given.tenant, revision = DEFAULT,
    -- A worker may have enqueued an occurrence since had was read.
    next_at = CASE WHEN (s.cron, s.every_ms, s.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone)
                   THEN s.next_at ELSE given.next_at END,
    planned = CASE WHEN (s.cron, s.every_ms, s.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone)
                   THEN s.planned ELSE given.planned END,
    last_id = CASE WHEN s.queue = given.queue THEN s.last_id END,
    error = NULL, changed_at = now_at, changed_by = sluice_private.actor()
  WHERE s.name = given.name
  RETURNING s.next_at, s.planned AND s.paused_at IS NULL INTO given.next_at, given.planned;
  PERFORM sluice_private.note_action('schedule.set', given.queue, 1, given.name, details => '{"outcome": "changed"}');
  RETURN QUERY SELECT 'changed', CASE WHEN given.planned THEN given.next_at END;
END
$$;

-- An interval in milliseconds. One that no constraint allows, which need not fit a bigint, becomes one that breaks it.
CREATE FUNCTION sluice_private.bounded_ms(given interval) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN given IS NOT NULL
    THEN greatest(least(extract(epoch FROM given) * 1000.0, 3155760000001.0), -1.0)::bigint END
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
  IF next_at < '1970-01-01 00:00Z' OR next_at >= '10000-01-01 00:00Z' THEN
    RAISE EXCEPTION 'next_at: expected an instant in the years 1970 to 9999, received %', next_at
      USING ERRCODE = '22023', HINT = 'Leave it out: the next worker that looks computes it.';
  END IF;
  PERFORM sluice_private.check_type(type);
  given.name := name;
  given.queue := queue;
  given.cron := cron;
  given.every_ms := sluice_private.bounded_ms(every);
  given.zone := coalesce(zone, 'UTC');
  given.missed := coalesce(missed, 'skip');
  given.grace_ms := sluice_private.bounded_ms(coalesce(grace, '1 minute'));
  given.catch_up_most := coalesce(catch_up_most, 100);
  given.catch_up_ms := sluice_private.bounded_ms(coalesce(catch_up_within, '7 days'));
  given.overlap := coalesce(overlap, true);
  given.payload := payload;
  given.headers := coalesce(headers, '{}');
  given.type := type;
  given.schema_version := coalesce(schema_version, 1);
  given.ordering_key := ordering_key;
  -- What is no smallint either meets the constraint on the priority, which says more than an overflow.
  given.priority := greatest(least(coalesce(priority, 5), 10), -1);
  given.delay_ms := sluice_private.bounded_ms(delay);
  given.max_attempts := max_attempts;
  given.ttl_ms := sluice_private.bounded_ms(ttl);
  given.retry_policy := retry_policy;
  given.lease_ms := CASE WHEN lease > interval '24 hours' THEN 86400001 ELSE sluice_private.bounded_ms(lease) END;
  given.tenant := tenant;
  given.next_at := next_at;
  RETURN (SELECT d.outcome FROM sluice_private.schedule_define(given) d);
END
$$;
COMMENT ON FUNCTION sluice.schedule IS
  'Defines or changes a schedule, which enqueues messages by a cron expression or at an interval. Returns created, '
  'changed or unchanged. A worker computes the next occurrence.';

-- Fails: there is no such schedule.
CREATE FUNCTION sluice_private.schedule_unknown(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'Schedule "%": expected one that has been defined, received one that is unknown', name
    USING ERRCODE = 'SL070', HINT = 'The view sluice.schedules has all of them.';
END
$$;

-- Returns whether a schedule has been changed, and notes it. Fails if it has not because there is none.
CREATE FUNCTION sluice_private.schedule_changed(name text, changed boolean, action text, reason text DEFAULT NULL,
  actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF changed THEN
    PERFORM sluice_private.note_action(action, (SELECT s.queue FROM sluice.schedule s WHERE s.name = name), 1, name,
      details => jsonb_strip_nulls(jsonb_build_object('reason', reason)), given => actor);
  ELSIF NOT changed AND NOT EXISTS (SELECT FROM sluice.schedule s WHERE s.name = name) THEN
    PERFORM sluice_private.schedule_unknown(name);
  END IF;
  RETURN changed;
END
$$;

CREATE FUNCTION sluice.schedule_pause(name text, reason text DEFAULT NULL, paused_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s
  SET paused_at = clock_timestamp(), paused_by = sluice_private.actor(paused_by), pause_reason = reason, revision = DEFAULT
  WHERE s.name = name AND s.paused_at IS NULL;
  RETURN sluice_private.schedule_changed(name, FOUND, 'schedule.pause', reason, paused_by);
END
$$;
COMMENT ON FUNCTION sluice.schedule_pause IS
  'Pauses a schedule: it enqueues nothing until it is resumed. Returns false if it is already paused.';

-- What was due during the pause is not wanted: the next occurrence is the first one after now.
CREATE FUNCTION sluice.schedule_resume(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s
  SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, revision = DEFAULT,
      next_at = date_trunc('milliseconds', clock_timestamp()), planned = false
  WHERE s.name = name AND s.paused_at IS NOT NULL;
  RETURN sluice_private.schedule_changed(name, FOUND, 'schedule.resume');
END
$$;
COMMENT ON FUNCTION sluice.schedule_resume IS
  'Resumes a schedule. Occurrences during the pause are not enqueued. Returns false if it is not paused.';

CREATE FUNCTION sluice.schedule_delete(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had_queue text;
BEGIN
  DELETE FROM sluice.schedule s WHERE s.name = name RETURNING s.queue INTO had_queue;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_action('schedule.delete', had_queue, 1, name);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.schedule_delete IS
  'Deletes a schedule, but not its messages. Returns false if there is none with this name.';

-- Enqueues one message of a locked schedule; null if the last one is still there and they must not overlap. A probe of
-- the primary key tells: it still sees the row of a message in a transaction. A message that has expired and is not in
-- flight does not count, as for a dedupe key.
CREATE FUNCTION sluice_private.schedule_insert(given sluice.schedule, occurrence timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last record;
  message_id bigint;
BEGIN
  IF NOT given.overlap THEN
    last := sluice_private.look_at_holder(given.queue, NULL, given.last_id, true);
    IF last.there THEN
      RETURN NULL;
    END IF;
  END IF;
  message_id := sluice_private.insert_message(
    given.queue, given.payload, given.headers || jsonb_build_object(
      'schedule', given.name, 'scheduledFor', to_char(occurrence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    ), given.type, given.schema_version, given.ordering_key, given.priority, NULL, given.delay_ms,
    given.max_attempts, given.ttl_ms, given.retry_policy, given.lease_ms, given.tenant, NULL, NULL
  );
  IF message_id IS NULL THEN
    PERFORM sluice_private.require_kept('message', given.queue, 1, 0);
  END IF;
  RETURN message_id;
END
$$;

CREATE FUNCTION sluice.schedule_run_now(name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.schedule;
  message_id bigint;
  now_at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  SELECT s.* INTO had FROM sluice.schedule s WHERE s.name = name FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice_private.schedule_unknown(name);
  END IF;
  message_id := sluice_private.schedule_insert(had, now_at);
  IF message_id IS NOT NULL THEN
    UPDATE sluice.schedule s
    SET last_at = now_at, last_enqueued_at = clock_timestamp(), last_id = message_id, enqueued = s.enqueued + 1
    WHERE s.name = name;
    PERFORM sluice_private.note_action('schedule.run_now', had.queue, 1, name, ARRAY[message_id]);
  END IF;
  RETURN message_id;
END
$$;
COMMENT ON FUNCTION sluice.schedule_run_now IS
  'Enqueues a message of a schedule now, paused or not, and returns its id, or null if it must not overlap and the last '
  'message still exists. Its times do not change.';

-- For workers

-- An occurrence is due: enqueues those that are given, in their order, and sets the next one. One process does it: the one
-- that finds next_at and the revision as it had read them, and the row not locked. Exactly equal, and not "at least": with
-- that, a process whose clock is ahead would jump over occurrences. No row: another process has done it, or does it now.
CREATE FUNCTION sluice_private.schedule_fire(
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
    message_id := sluice_private.schedule_insert(had, at);
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
CREATE FUNCTION sluice_private.schedule_plan(name text, revision bigint, next_at timestamptz) RETURNS boolean
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
CREATE FUNCTION sluice_private.schedule_failed(name text, revision bigint, error text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  UPDATE sluice.schedule s
  SET error = $3,
      next_at = CASE WHEN s.planned THEN s.next_at
                     ELSE date_trunc('milliseconds', clock_timestamp()) + interval '5 minutes' END
  WHERE s.name = $1 AND s.revision = $2
$$;
