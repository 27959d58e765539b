-- Explains one message: why it is not running, by its id or its dedupe key.
--
-- Public functions: sluice.explain.

-- Of a message that is there and in nobody's hands: what keeps it waiting, in the order in which it has to go.
CREATE FUNCTION sluice_private.waiting_reasons(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT * FROM sluice_private.why_later(m);
  RETURN QUERY SELECT * FROM sluice_private.why_paused(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_no_worker(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_all_workers_stale(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_destination_unavailable(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_waits_to_run_alone(m);
  RETURN QUERY SELECT * FROM sluice_private.why_all_workers_alone(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_held(m);
  RETURN QUERY SELECT * FROM sluice_private.why_key_locked(m, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_slot_busy(m, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_endpoint(m.queue, coalesce(m.tenant, m.ordering_key));
  RETURN QUERY SELECT * FROM sluice_private.why_no_permit(m.queue, '', locks);
  RETURN QUERY SELECT * FROM sluice_private.why_no_permit(m.queue, m.tenant, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_no_token(m.queue, '');
  RETURN QUERY SELECT * FROM sluice_private.why_no_token(m.queue, m.tenant);
  IF m.due_at <= clock_timestamp() THEN
    RETURN QUERY SELECT * FROM sluice_private.why_not_visible();
    RETURN QUERY SELECT * FROM sluice_private.why_behind(m, locks);
  END IF;
END
$$;

-- Of a message that is not there: it is dead, or has succeeded, or is gone.
CREATE FUNCTION sluice_private.missing_reasons(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT * FROM sluice_private.why_dead(queue, id);
  IF NOT FOUND THEN
    RETURN QUERY SELECT * FROM sluice_private.why_completed(queue, id);
  END IF;
  IF NOT FOUND THEN
    RETURN QUERY SELECT * FROM sluice_private.why_gone(queue, id);
  END IF;
END
$$;

-- All reasons of one message, the headline first. The settings are those without which a plan could read or sort a
-- backlog; the functions within inherit them. row_security off: a policy that would hide messages is an error.
CREATE FUNCTION sluice_private.message_reasons(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  locks jsonb := sluice_private.row_locks();
  holder integer;
  reasons sluice_private.reason[];
BEGIN
  SELECT o.* INTO m FROM sluice.message o WHERE o.queue = queue AND o.id = id;
  IF m.id IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.missing_reasons(queue, id);
    RETURN;
  END IF;
  holder := (SELECT sluice_private.locker(o.xmax, locks) FROM sluice.message o WHERE o.queue = queue AND o.id = id);
  IF m.lease <> 0 AND m.due_at > clock_timestamp() THEN
    reasons := ARRAY(SELECT r FROM sluice_private.why_leased(m) r);
  ELSE
    reasons := ARRAY(SELECT r FROM sluice_private.why_in_transaction(m, holder) r);
    IF reasons <> '{}' THEN
      reasons := reasons || ARRAY(SELECT r FROM sluice_private.why_cancel_asked(m) r)
        -- A claim may wait for whoever has locked the message.
        || ARRAY(SELECT r FROM sluice_private.why_slot_busy(m, locks) r WHERE r.pid <> holder);
    END IF;
  END IF;
  IF reasons = '{}' THEN
    reasons := ARRAY(SELECT r FROM sluice_private.why_expired(m) r);
  END IF;
  IF reasons = '{}' THEN
    reasons := ARRAY(SELECT r FROM sluice_private.waiting_reasons(m, locks) r);
  END IF;
  IF reasons = '{}' THEN
    reasons := ARRAY(SELECT r FROM sluice_private.why_due_now(m, locks) r);
  END IF;
  RETURN QUERY SELECT * FROM unnest(reasons);
  RETURN QUERY SELECT * FROM sluice_private.why_evidence(queue, id, m.attempt);
  RETURN QUERY SELECT * FROM sluice_private.why_worker_gone(m, holder);
END
$$;

-- Who has a dedupe key: of a pointer's two messages the one that is in flight goes before the one that follows it.
CREATE FUNCTION sluice_private.key_holders(pointer sluice.dedupe, locks jsonb) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(
    SELECT m.id FROM unnest(ARRAY[pointer.running_id, pointer.message_id]) WITH ORDINALITY AS given (id, ordinal)
    CROSS JOIN LATERAL (
      SELECT m.id, m.expires_at, m.lease, m.due_at, m.xmax FROM sluice.message m
      WHERE m.queue = pointer.queue AND m.id = given.id LIMIT 1
    ) m
    WHERE coalesce(m.expires_at > clock_timestamp(), true) OR m.lease <> 0 AND m.due_at > clock_timestamp()
      OR sluice_private.locker(m.xmax, locks) IS NOT NULL
    ORDER BY given.ordinal
  )
$$;

-- Who has a dedupe key, and until when. kept: the window after success that ends last.
CREATE FUNCTION sluice_private.why_key(
  queue text, dedupe_key text, pointer sluice.dedupe, kept sluice.kept_key, holders bigint[]
) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text := sluice_private.quoted(dedupe_key);
  -- After --, a key that begins with - is no option.
  freed_by text := format('npx sluice message free-key %s %s%s', queue, CASE WHEN dedupe_key LIKE '-%' THEN '-- ' END,
    sluice_private.shell_word(dedupe_key));
BEGIN
  IF holders <> '{}' THEN
    RETURN NEXT sluice_private.say('key_taken',
      format('Message %s has the dedupe key %s', holders[1], name)
        || coalesce(', and message ' || holders[2] || ' follows it', '') || '.',
      until => CASE WHEN pointer.until > clock_timestamp() THEN pointer.until END,
      details => jsonb_build_object('message', holders[1]::text, 'next', holders[2]::text),
      remedy => format('npx sluice message cancel %s %s', queue, holders[1]));
  ELSIF kept.until IS NOT NULL THEN
    RETURN NEXT sluice_private.say('key_kept',
      format('Message %s has succeeded, and its dedupe key %s stays taken for another %s.', kept.message_id, name,
        sluice_private.duration_words_to(kept.until)),
      until => kept.until, details => jsonb_build_object('message', kept.message_id::text), remedy => freed_by);
  ELSIF pointer.until > clock_timestamp() THEN
    RETURN NEXT sluice_private.say('key_kept',
      format('The dedupe key %s was taken by message %s and stays taken for another %s, whatever became of that '
        '(throttle).', name, pointer.message_id, sluice_private.duration_words_to(pointer.until)),
      until => pointer.until, details => jsonb_build_object('message', pointer.message_id::text), remedy => freed_by);
  ELSE
    RETURN NEXT sluice_private.say('key_free',
      format('No message of queue "%s" has the dedupe key %s: the next enqueue with it adds one.', queue, name),
      details => jsonb_build_object('message', nullif(pointer.message_id, 0)::text));
  END IF;
END
$$;

-- Who has a dedupe key, and until when; and then the reasons of the message that has it.
CREATE FUNCTION sluice_private.key_reasons(queue text, dedupe_key text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_nestloop = on SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  locks jsonb := sluice_private.row_locks();
  pointer sluice.dedupe;
  kept sluice.kept_key;
  holders bigint[];
  writer integer;
BEGIN
  SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
  writer := (SELECT sluice_private.locker(d.xmax, locks) FROM sluice.dedupe d
    WHERE d.queue = queue AND d.key = dedupe_key);
  SELECT k.* INTO kept FROM sluice.kept_key k
  WHERE k.queue = queue AND k.key = dedupe_key AND k.until > clock_timestamp() ORDER BY k.until DESC LIMIT 1;
  holders := sluice_private.key_holders(pointer, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_key(queue, dedupe_key, pointer, kept, holders);
  IF writer IS NOT NULL THEN
    RETURN NEXT sluice_private.say('key_locked',
      'A transaction that enqueues with the key is open: other enqueues with it wait.', pid => writer);
  ELSIF pointer.message_id IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_not_committed();
  END IF;
  IF holders <> '{}' THEN
    RETURN QUERY SELECT * FROM sluice_private.message_reasons(queue, holders[1]);
  ELSE
    RETURN QUERY SELECT * FROM sluice_private.why_dead(queue, pointer.message_id);
  END IF;
END
$$;

CREATE FUNCTION sluice.explain(queue text, id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'id, dedupe_key: expected one of the two, received %',
      CASE WHEN id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.explain(''emails'', 42). sluice.explain_queue explains a queue.';
  END IF;
  RETURN QUERY SELECT e.* FROM sluice_private.explained(
    CASE WHEN id IS NULL THEN 'key_reasons' ELSE 'message_reasons' END, ARRAY[queue, coalesce(id::text, dedupe_key)]
  ) e;
END
$$;
COMMENT ON FUNCTION sluice.explain IS
  'Explains why a message is not running, by its id or its dedupe key: one row per reason, the main one first. It '
  'locks nothing. since, until: for how long the reason lasts, as far as it is known. remedy: a command that changes '
  'it.';
