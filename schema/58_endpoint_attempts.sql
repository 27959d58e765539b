-- What workers ask of endpoints, and what they note about them.

-- What a request needs. closed_ms: for how long nothing may be sent yet; null: it may. source: the name of this database. now_ms: its
-- time, in milliseconds since 1970.
CREATE FUNCTION sluice_private.endpoints_to_call(queue text, names text[]) RETURNS TABLE (
  name text, url text, headers jsonb, secret text, old_secret text, state text, closed_ms double precision,
  source text, now_ms double precision
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  SELECT e.name, e.url, e.headers, e.secret, CASE WHEN e.old_secret_until > now_at THEN e.old_secret END, e.state,
         CASE WHEN e.closed_until > now_at THEN extract(epoch FROM e.closed_until - now_at)::double precision * 1000 END,
         (SELECT s.id::text FROM sluice.source s), extract(epoch FROM now_at)::double precision * 1000
  FROM sluice.endpoint e WHERE e.queue = queue AND e.name = ANY (names);
END
$$;

-- What became of attempts of one endpoint: {"name", "url", "attempts", "successes", "status", "error", "closed_ms", "gone"}, where
-- status and error are those of the last one. What a URL that it no longer has wants, closed_ms and gone, does not count. One update of the endpoint's row, whose lock lasts until the transaction ends.
--
-- Failures that are more than 36 hours apart do not add up: between attempts of one message are at most 24 hours, so an
-- endpoint with a longer gap has had no message to fail.
CREATE FUNCTION sluice_private.after_attempts(had sluice.endpoint, note jsonb, disable_ms double precision)
RETURNS sluice.endpoint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  failed boolean := (note ->> 'attempts')::integer > (note ->> 'successes')::integer;
  is_current boolean := note ->> 'url' = had.url;
  failing_for interval;
BEGIN
  had.attempts := had.attempts + (note ->> 'attempts')::integer;
  had.successes := had.successes + (note ->> 'successes')::integer;
  had.last_status := note ->> 'status';
  had.last_error := left(note ->> 'error', 200);
  IF is_current THEN
    had.closed_until := greatest(had.closed_until,
      now_at + (note ->> 'closed_ms')::double precision * interval '1 millisecond');
  END IF;
  IF (note ->> 'successes')::integer > 0 THEN
    had.last_success_at := now_at;
    had.failing_since := NULL;
    had.warned_at := NULL;
  ELSIF had.failing_since IS NULL OR had.last_failure_at < now_at - interval '36 hours' THEN
    had.failing_since := now_at;
    had.warned_at := NULL;
  END IF;
  IF failed THEN
    had.last_failure_at := now_at;
  END IF;
  IF had.state <> 'enabled' THEN
    RETURN had;
  END IF;
  failing_for := now_at - had.failing_since;
  IF is_current AND (note ->> 'gone')::boolean THEN
    had.state := 'gone';
    had.disabled_reason := 'It has answered 410';
  ELSIF failing_for >= disable_ms * interval '1 millisecond' THEN
    had.state := 'disabled';
    had.disabled_reason := format('Nothing but failures for %s', sluice_private.duration_words_of(failing_for));
  ELSIF failing_for >= disable_ms / 5 * interval '1 millisecond' THEN
    had.warned_at := coalesce(had.warned_at, now_at);
  END IF;
  IF had.state <> 'enabled' THEN
    had.disabled_at := now_at;
    had.disabled_by := sluice_private.actor();
  END IF;
  RETURN had;
END
$$;

-- Notes attempts of several endpoints. It waits for no lock: an application that has changed an endpoint in its transaction would
-- hold up all others, and could wait for one of them in turn. disable_ms: after how long of nothing but failures one is disabled;
-- null: never. Returns those that have changed, event is failing or disabled, and those that were locked and have nothing noted,
-- event is locked and reason the URL of the note.
CREATE FUNCTION sluice_private.note_attempts(queue text, notes jsonb, disable_ms double precision)
RETURNS TABLE (name text, event text, failing_since timestamptz, reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  note jsonb;
  had sluice.endpoint;
  has sluice.endpoint;
BEGIN
  -- A worker that no longer answers must not keep the locks.
  PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
  FOR note IN SELECT n.value FROM jsonb_array_elements(notes) AS n (value) ORDER BY (n.value ->> 'name') COLLATE "C" LOOP
    SELECT e.* INTO had FROM sluice.endpoint e WHERE e.queue = queue AND e.name = note ->> 'name' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN QUERY SELECT e.name, 'locked', e.failing_since, note ->> 'url' FROM sluice.endpoint e
      WHERE e.queue = queue AND e.name = note ->> 'name';
      CONTINUE;
    END IF;
    has := sluice_private.after_attempts(had, note, disable_ms);
    UPDATE sluice.endpoint e SET
      attempts = has.attempts, successes = has.successes, last_status = has.last_status, last_error = has.last_error,
      last_success_at = has.last_success_at, last_failure_at = has.last_failure_at, failing_since = has.failing_since,
      warned_at = has.warned_at, closed_until = has.closed_until, state = has.state, disabled_at = has.disabled_at,
      disabled_by = has.disabled_by, disabled_reason = has.disabled_reason
    WHERE e.queue = queue AND e.name = had.name;
    IF has.state <> had.state OR had.warned_at IS NULL AND has.warned_at IS NOT NULL THEN
      RETURN QUERY SELECT has.name, CASE has.state WHEN 'enabled' THEN 'failing' ELSE 'disabled' END, has.failing_since,
        coalesce(has.disabled_reason, has.last_error, '');
    END IF;
  END LOOP;
END
$$;
