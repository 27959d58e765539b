-- Claims as objects, and pop.
--
-- What is public runs with the rights of the schema's owner, so that a login needs nothing but EXECUTE. The settings
-- are those without which a plan could read or sort a backlog; the functions within inherit them. row_security off: a
-- policy that would hide messages is an error.
--
-- Public functions: sluice.claim, sluice.claim_get, sluice.claim_renew, sluice.claim_release, sluice.claim_settle,
-- sluice.pop.

CREATE FUNCTION sluice.claim(
  queue        text,
  "limit"      integer  DEFAULT 10,
  lease          interval DEFAULT '1 minute',
  max_attempts integer  DEFAULT 20,
  grace        interval DEFAULT '0'
) RETURNS TABLE (
  claim_id bigint, expires_at timestamptz, id bigint, attempt integer, payload jsonb, headers jsonb, type text,
  schema_version integer, ordering_key text, priority smallint, enqueued_at timestamptz, due_at timestamptz,
  own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  now_at timestamptz;
  ids bigint[];
  due_ats timestamptz[];
BEGIN
  PERFORM sluice_private.check_isolation();
  lease := sluice_private.in_seconds(lease);
  grace := sluice_private.in_seconds(grace);
  PERFORM sluice_private.check_claim(queue, "limit", lease, max_attempts, grace);
  IF strpos(queue, ':') > 0 THEN
    PERFORM sluice_private.refuse_group_queue(queue);
  END IF;
  -- The number of a claim whose commit a crash of the server undoes is given to another.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.paused_at IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM sluice_private.prune_claims(queue);
  ids := sluice_private.lock_claimable(queue, "limit", coalesce(settings.max_attempts, max_attempts));
  IF ids = '{}' THEN
    RETURN;
  END IF;
  PERFORM sluice_private.end_leases(queue, ids);
  now_at := clock_timestamp();
  expires_at := now_at + lease;
  due_ats := sluice_private.due_ats_of(queue, ids);
  INSERT INTO sluice.claim AS c (queue, lease_ms, grace_ms, claimed_at, renewed_at, expires_at,
    max_attempts, message_ids, due_ats)
  VALUES (queue, extract(epoch FROM lease) * 1000, extract(epoch FROM grace) * 1000, now_at, now_at, expires_at, max_attempts,
          ids, due_ats)
  RETURNING c.id INTO claim_id;
  PERFORM sluice_private.lease_locked(queue, ids, claim_id, expires_at, expires_at + grace);
  PERFORM sluice_private.lease_allowed(queue, ids, -claim_id);
  RETURN QUERY
  SELECT claim_id, expires_at, r.id, r.attempt, r.payload, r.headers, r.type, r.schema_version, r.ordering_key, r.priority,
         r.enqueued_at, due_ats[array_position(ids, r.id)], r.own_max_attempts, r.tenant, r.dedupe_key, r.lives_until
  FROM sluice_private.claimed_rows(queue, claim_id, ids) r;
END
$$;
COMMENT ON FUNCTION sluice.claim IS
  'Claims due messages of a queue for the lease, and returns one row per message, or none. Settle them by '
  'claim_settle with claim_id. Messages that would expire before the end of the claim plus grace live until then.';

CREATE FUNCTION sluice.claim_get(queue text, claim_id bigint) RETURNS TABLE (
  expires_at timestamptz, id bigint, attempt integer, payload jsonb, headers jsonb, type text, schema_version integer,
  ordering_key text, priority smallint, enqueued_at timestamptz, due_at timestamptz, own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz, retry_policies text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
  of_queue text := (SELECT CASE jsonb_typeof(q.retry) WHEN 'string' THEN q.retry #>> '{}' END FROM sluice.queue q
    WHERE q.queue = queue);
BEGIN
  PERFORM sluice_private.check_isolation();
  held := sluice_private.hold_claim(queue, claim_id);
  RETURN QUERY
  SELECT held.expires_at, r.id, r.attempt, r.payload, r.headers, r.type, r.schema_version, r.ordering_key, r.priority,
         r.enqueued_at, held.due_ats[array_position(held.message_ids, r.id)], r.own_max_attempts, r.tenant, r.dedupe_key,
         r.lives_until, array_remove(ARRAY[
           (SELECT m.retry_policy FROM sluice.message m WHERE m.queue = queue AND m.id = r.id LIMIT 1), of_queue
         ], NULL)
  FROM sluice_private.claimed_rows(queue, claim_id, held.message_ids) r;
END
$$;
COMMENT ON FUNCTION sluice.claim_get IS
  'Returns the messages of a claim that are not settled yet. retry_policies: the names of their retry policies, that of '
  'the message before that of its queue.';

CREATE FUNCTION sluice.claim_renew(
  queue text, claim_id bigint, lease interval DEFAULT NULL, grace interval DEFAULT NULL
) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
  ours bigint[];
  now_at timestamptz;
BEGIN
  PERFORM sluice_private.check_isolation();
  lease := sluice_private.in_seconds(lease);
  grace := sluice_private.in_seconds(grace);
  PERFORM sluice_private.check_claim(queue, lease => coalesce(lease, interval '1 minute'),
    grace => coalesce(grace, interval '0'));
  held := sluice_private.hold_claim(queue, claim_id);
  lease := coalesce(lease, held.lease_ms * interval '1 millisecond');
  grace := coalesce(grace, held.grace_ms * interval '1 millisecond');
  ours := sluice_private.lock_claimed(held, held.message_ids);
  PERFORM sluice_private.require_unexpired(held);
  now_at := clock_timestamp();
  PERFORM sluice_private.lease_locked(queue, ours, claim_id, now_at + lease, now_at + lease + grace);
  UPDATE sluice.claim c
  SET renewed_at = now_at, expires_at = now_at + lease, lease_ms = extract(epoch FROM lease) * 1000,
      grace_ms = extract(epoch FROM grace) * 1000
  WHERE c.queue = queue AND c.id = claim_id;
  PERFORM sluice_private.note_if_named('claim.renew', queue, claim_id, ours);
  RETURN now_at + lease;
END
$$;
COMMENT ON FUNCTION sluice.claim_renew IS
  'Extends a claim to its lease from now, and the lives of its messages to grace after that; both default to the values of '
  'the claim. Returns when it ends.';

CREATE FUNCTION sluice.claim_release(queue text, claim_id bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
  ours bigint[];
  dues timestamptz[];
BEGIN
  PERFORM sluice_private.check_isolation();
  SELECT c.* INTO held FROM sluice.claim c WHERE c.queue = queue AND c.id = claim_id FOR UPDATE;
  -- Before the messages are locked: those of a claim that is over may be in a batch, and the lock would wait for it.
  IF held.id IS NULL OR clock_timestamp() >= held.expires_at THEN
    RETURN 0;
  END IF;
  ours := sluice_private.lock_claimed(held, held.message_ids);
  IF clock_timestamp() >= held.expires_at THEN
    RETURN 0;
  END IF;
  -- They were due already, also if the clock has been set back since.
  dues := ARRAY(
    SELECT least(held.due_ats[array_position(held.message_ids, o.id)], clock_timestamp())
    FROM unnest(ours) WITH ORDINALITY AS o (id, ordinal) ORDER BY o.ordinal
  );
  PERFORM sluice_private.postpone_locked(queue, ours, dues, NULL);
  DELETE FROM sluice.claim c WHERE c.queue = queue AND c.id = claim_id;
  PERFORM sluice_private.note_if_named('claim.release', queue, claim_id, ours);
  PERFORM sluice_private.wake(queue);
  RETURN cardinality(ours);
END
$$;
COMMENT ON FUNCTION sluice.claim_release IS
  'Releases the messages of a claim in their old order, without counting an attempt, and returns how many. An unknown '
  'or expired claim is not changed.';

CREATE FUNCTION sluice.claim_settle(
  queue       text,
  claim_id    bigint,
  message_ids bigint[] DEFAULT NULL,
  outcome     text     DEFAULT 'ack',
  delay       interval DEFAULT NULL,
  reason      text     DEFAULT NULL,
  error       text     DEFAULT NULL,
  policies    jsonb    DEFAULT NULL,
  dedupe_for  interval DEFAULT NULL,
  at_least    interval DEFAULT NULL
) RETURNS TABLE (id bigint, result text, written text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  held sluice.claim;
  ours bigint[];
  dead bigint[] := '{}';
  keyed boolean;
BEGIN
  PERFORM sluice_private.check_isolation();
  delay := sluice_private.in_seconds(delay);
  at_least := sluice_private.in_seconds(at_least);
  PERFORM sluice_private.check_outcome(outcome, delay, at_least, reason, error, dedupe_for);
  -- As much as of a handler's error.
  error := left(error, 4000);
  reason := CASE WHEN reason ~ '[^[:space:]]' THEN left(reason, 4000) END;
  policies := sluice_private.given_policies(policies);
  held := sluice_private.hold_claim(queue, claim_id);
  ours := sluice_private.lock_claimed(held, coalesce(message_ids, held.message_ids));
  PERFORM sluice_private.require_unexpired(held);
  keyed := sluice_private.any_keyed(queue, ours);
  CASE outcome
    WHEN 'ack' THEN
      PERFORM sluice_private.complete_locked(queue, ours, held.id, held.claimed_at, dedupe_for);
    WHEN 'retry' THEN
      SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
      dead := sluice_private.fail_locked(
        queue, ours, coalesce(settings.max_attempts, held.max_attempts), delay, at_least,
        coalesce(error, 'The claim asked for a retry'), settings.retry, policies
      );
    WHEN 'snooze' THEN
      PERFORM sluice_private.postpone_locked(queue, ours,
        array_fill(clock_timestamp() + delay, ARRAY[cardinality(ours)]), NULL);
    WHEN 'dead_letter' THEN
      PERFORM sluice_private.dead_letter_claimed(queue, ours, coalesce(reason, 'no reason given'), error);
  END CASE;
  DELETE FROM sluice.crash c WHERE c.queue = queue AND c.message_id = ANY (ours);
  PERFORM sluice_private.close_claim(held);
  PERFORM sluice_private.note_if_named('claim.settle', queue, claim_id, ours, jsonb_build_object('outcome', outcome));
  -- The next message of a key, or one of these that is due at once: by its delay, or by a policy.
  IF keyed OR EXISTS (
    SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = ANY (ours) AND m.due_at <= clock_timestamp()
  ) THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN QUERY
  SELECT given.id,
         CASE WHEN given.id = ANY (ours) THEN 'settled' WHEN m.id IS NULL THEN 'gone'
              WHEN m.lease <> 0 AND m.due_at > clock_timestamp() THEN 'claimed_by_other'
              ELSE 'not_claimed' END,
         CASE WHEN given.id = ANY (dead) THEN 'dead_letter' WHEN given.id = ANY (ours) THEN outcome END
  FROM unnest(coalesce(message_ids, ours)) WITH ORDINALITY AS given (id, ordinal) LEFT JOIN LATERAL (
    SELECT m.id, m.lease, m.due_at FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m ON true
  ORDER BY given.ordinal;
END
$$;
COMMENT ON FUNCTION sluice.claim_settle IS
  'Settles messages of a claim, by default all that are left. outcome: ack (dedupe_for), retry (delay or at_least, error), '
  'snooze (delay) or dead_letter (reason, error). result: settled, gone, not_claimed or claimed_by_other. written: the outcome '
  'that was written. policies: retry policies by name.';

CREATE FUNCTION sluice.pop(queue text, "limit" integer DEFAULT 1) RETURNS TABLE (
  id bigint, attempt integer, payload jsonb, headers jsonb, type text, schema_version integer, ordering_key text,
  priority smallint, enqueued_at timestamptz, due_at timestamptz, own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  ids bigint[];
BEGIN
  PERFORM sluice_private.check_isolation();
  PERFORM sluice_private.check_claim(queue, "limit");
  IF strpos(queue, ':') > 0 THEN
    PERFORM sluice_private.refuse_group_queue(queue);
  END IF;
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.paused_at IS NOT NULL THEN
    RETURN;
  END IF;
  ids := sluice_private.lock_claimable(queue, "limit", coalesce(settings.max_attempts, 20));
  RETURN QUERY
  SELECT r.id, r.attempt, r.payload, r.headers, r.type, r.schema_version, r.ordering_key, r.priority, r.enqueued_at,
         r.due_at, r.own_max_attempts, r.tenant, r.dedupe_key, r.lives_until
  FROM sluice_private.claimed_rows(queue, NULL, ids) r;
  IF sluice_private.any_keyed(queue, ids) THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  PERFORM sluice_private.complete_locked(queue, ids, NULL, NULL, NULL);
END
$$;
COMMENT ON FUNCTION sluice.pop IS 'Removes due messages of a queue and returns them. Each is delivered at most once.';
