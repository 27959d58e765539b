-- Puts dead letters back, deletes them, and removes those that are too old.
--
-- Public functions: sluice.redrive, sluice.delete_dead_letters, sluice.prune_dead_letters.

-- The ids of the dead letters of a queue that match every filter given.
CREATE FUNCTION sluice_private.dead_matching(
  queue text, ids bigint[], type text, died_before timestamptz, died_after timestamptz, tenant text, reason text, error text
) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN ARRAY(
    SELECT d.id FROM sluice.dead_letter d
    WHERE d.queue = queue
      AND (ids IS NULL OR d.id = ANY (ids))
      AND (type IS NULL OR d.type = type)
      AND (died_before IS NULL OR d.died_at < died_before)
      AND (died_after IS NULL OR d.died_at >= died_after)
      AND (tenant IS NULL OR d.tenant = tenant)
      AND (reason IS NULL OR strpos(lower(d.reason), lower(reason)) > 0)
      AND (error IS NULL OR strpos(lower(d.error), lower(error)) > 0)
  );
END
$$;

CREATE FUNCTION sluice.redrive(
  queue       text,
  ids         bigint[]    DEFAULT NULL,
  type        text        DEFAULT NULL,
  died_before timestamptz DEFAULT NULL,
  died_after  timestamptz DEFAULT NULL,
  tenant      text        DEFAULT NULL,
  reason      text        DEFAULT NULL,
  error       text        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  taken bigint;
  events bigint;
  redriven bigint;
  deduped bigint[];
  filter jsonb := jsonb_strip_nulls(jsonb_build_object(
    'type', type, 'died_before', died_before, 'died_after', died_after, 'tenant', tenant, 'reason', reason, 'error', error));
BEGIN
  ids := sluice_private.dead_matching(queue, ids, type, died_before, died_after, tenant, reason, error);
  IF strpos(queue, ':') > 0 THEN
    PERFORM sluice_private.lock_dead_events(queue, ids);
  END IF;
  WITH chosen AS (
    DELETE FROM sluice.dead_letter d
    WHERE d.queue = queue AND d.id = ANY (ids)
    RETURNING d.*
  ), restored AS (
    INSERT INTO sluice.message
      (queue, id, priority, ordering_key, type, schema_version, payload, headers, max_attempts, enqueued_at, last_error,
       failures, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position, redriven)
    SELECT c.queue, c.id, c.priority, c.ordering_key, c.type, c.schema_version, c.payload, c.headers, c.max_attempts,
           c.enqueued_at, c.error, c.failures, c.retry_policy, c.lease_ms, c.tenant, c.dedupe_key, c.dedupe_ms,
           c.event_position, true
    FROM chosen c
    ORDER BY c.id
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM chosen), (SELECT count(event_position) FROM chosen), (SELECT count(*) FROM restored),
         (SELECT array_agg(c.id) FROM chosen c WHERE c.dedupe_key IS NOT NULL),
         ARRAY(SELECT c.id FROM chosen c ORDER BY c.id LIMIT 100)
  INTO taken, events, redriven, deduped, ids;
  PERFORM sluice_private.require_kept('message', queue, taken, redriven);
  IF deduped IS NOT NULL THEN
    PERFORM sluice_private.take_keys_again(queue, deduped);
  END IF;
  -- No worker sleeps on the queue of a group: the group's members sleep on their stream.
  IF events > 0 THEN
    PERFORM sluice_private.wake_stream(split_part(queue, ':', 1));
  END IF;
  PERFORM sluice_private.note_action('dead.redrive', queue, redriven, NULL, ids, filter);
  RETURN redriven;
END
$$;
COMMENT ON FUNCTION sluice.redrive IS
  'Puts dead letters of a queue back, due now, with their ids and no attempts: all, or those that match all given '
  'filters. Returns how many.';

CREATE FUNCTION sluice.delete_dead_letters(
  queue       text,
  ids         bigint[]    DEFAULT NULL,
  type        text        DEFAULT NULL,
  died_before timestamptz DEFAULT NULL,
  died_after  timestamptz DEFAULT NULL,
  tenant      text        DEFAULT NULL,
  reason      text        DEFAULT NULL,
  error       text        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  deleted bigint;
  filter jsonb := jsonb_strip_nulls(jsonb_build_object(
    'type', type, 'died_before', died_before, 'died_after', died_after, 'tenant', tenant, 'reason', reason, 'error', error));
BEGIN
  ids := sluice_private.dead_matching(queue, ids, type, died_before, died_after, tenant, reason, error);
  WITH gone AS (
    DELETE FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = ANY (ids) RETURNING d.id
  )
  SELECT count(*), ARRAY(SELECT g.id FROM gone g ORDER BY g.id LIMIT 100) INTO deleted, ids FROM gone;
  PERFORM sluice_private.note_action('dead.delete', queue, deleted, NULL, ids, filter);
  RETURN deleted;
END
$$;
COMMENT ON FUNCTION sluice.delete_dead_letters IS
  'Deletes dead letters of a queue for good: all, or those that match all given filters. Returns how many.';

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
  PERFORM sluice_private.check_most(most);
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
  'Deletes dead letters older than their queue''s dead_letter_retention. Returns how many.';
