-- Settings of queues, which may change while workers run, and how workers hear of a change.
--
-- The public functions run with the rights of the schema's owner, so that a login needs nothing but EXECUTE, and say no more
-- than they check.
--
-- Public functions: sluice.queue_set, sluice.pause, sluice.resume, sluice.is_paused.

-- A setting that is a time, in milliseconds: a number of them, or text as an interval has it.
CREATE FUNCTION sluice_private.setting_ms(name text, value jsonb, least_ms bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ms double precision;
BEGIN
  BEGIN
    ms := CASE jsonb_typeof(value)
      WHEN 'number' THEN (value #>> '{}')::double precision
      WHEN 'string' THEN extract(epoch FROM (value #>> '{}')::interval) * 1000
    END;
  EXCEPTION WHEN data_exception THEN
    NULL;
  END;
  -- 100 years, as everywhere.
  IF jsonb_typeof(value) <> 'null' AND (ms IS NULL OR ms NOT BETWEEN least_ms AND 3155760000000) THEN
    RAISE EXCEPTION '%: expected a time from % ms to 100 years, received %', name, least_ms, left(value::text, 80)
      USING ERRCODE = '22023', HINT = 'As in "7 days", "30s", or a number of milliseconds. null unsets it.';
  END IF;
  RETURN ceil(ms);
END
$$;

CREATE FUNCTION sluice_private.setting_integer(name text, value jsonb, most integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF jsonb_typeof(value) = 'null' THEN
    RETURN NULL;
  ELSIF jsonb_typeof(value) <> 'number' OR (value #>> '{}')::numeric NOT BETWEEN 1 AND most
    OR (value #>> '{}')::numeric % 1 <> 0 THEN
    RAISE EXCEPTION '%: expected an integer from 1 to %, received %', name, most, left(value::text, 80)
      USING ERRCODE = '22023', HINT = 'null unsets it.';
  END IF;
  RETURN (value #>> '{}')::numeric::integer;
END
$$;

-- Fails unless an object has no other keys than those. Inside of a setting a key has no null: what unsets is the setting.
CREATE FUNCTION sluice_private.check_setting_keys(what text, value jsonb, known text[], nulls boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  other text;
BEGIN
  IF value IS NULL OR jsonb_typeof(value) <> 'object' THEN
    RAISE EXCEPTION '%: expected an object, received %', what, coalesce(left(value::text, 80), 'NULL')
      USING ERRCODE = '22023';
  END IF;
  SELECT key INTO other FROM jsonb_object_keys(value) AS key WHERE key <> ALL (known) ORDER BY key LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%: expected only %, received %', what, array_to_string(known, ', '), quote_literal(left(other, 80))
      USING ERRCODE = '22023';
  END IF;
  SELECT key INTO other FROM jsonb_each(value) AS given (key, content)
  WHERE NOT nulls AND content = 'null' ORDER BY key LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%.%: expected a value, received null', what, other
      USING ERRCODE = '22023', HINT = format('Leave it out, or unset all of %s.', what);
  END IF;
END
$$;

CREATE FUNCTION sluice_private.setting_number(name text, value jsonb, lowest numeric, highest numeric) RETURNS numeric
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'number' OR (value #>> '{}')::numeric NOT BETWEEN lowest AND highest) THEN
    RAISE EXCEPTION '%: expected a number from % to %, received %', name, lowest, highest, left(value::text, 80)
      USING ERRCODE = '22023', HINT = 'Leave it out for the default.';
  END IF;
  RETURN (value #>> '{}')::numeric;
END
$$;

-- A retry policy as it is stored: its name, or an object with its times in milliseconds.
CREATE FUNCTION sluice_private.setting_retry(value jsonb, what text DEFAULT 'retry') RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  delay bigint := CASE WHEN value ? 'delay' THEN sluice_private.setting_ms(what || '.delay', value -> 'delay', 0) END;
  longest bigint := CASE WHEN value ? 'maxDelay'
    THEN sluice_private.setting_ms(what || '.maxDelay', value -> 'maxDelay', 0) END;
BEGIN
  IF jsonb_typeof(value) = 'string' AND octet_length(value #>> '{}') BETWEEN 1 AND 100 OR jsonb_typeof(value) = 'null' THEN
    RETURN value;
  ELSIF value ->> 'kind' = 'fixed' AND delay IS NOT NULL THEN
    PERFORM sluice_private.check_setting_keys(what, value, '{kind,delay}');
    RETURN jsonb_build_object('kind', 'fixed', 'delay', delay);
  ELSIF value ->> 'kind' = 'exponential' THEN
    PERFORM sluice_private.check_setting_keys(what, value, '{kind,delay,maxDelay,factor,jitter}');
    IF longest < delay THEN
      RAISE EXCEPTION '%.maxDelay: expected no less than the delay, which is % ms, received % ms', what, delay, longest
        USING ERRCODE = '22023';
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
      'kind', 'exponential', 'delay', delay, 'maxDelay', longest,
      'factor', sluice_private.setting_number(what || '.factor', value -> 'factor', 1, 100),
      'jitter', sluice_private.setting_number(what || '.jitter', value -> 'jitter', 0, 1)
    ));
  END IF;
  RAISE EXCEPTION '%: expected the name of a policy, {"kind": "fixed", "delay": ...} or {"kind": "exponential", ...}, '
    'received %', what, left(value::text, 80)
    USING ERRCODE = '22023', HINT = 'As in {"kind": "exponential", "delay": "10s", "maxDelay": "1h"}. null unsets it.';
END
$$;

-- Retry policies by name, as they are given to a settlement, with their times in milliseconds.
CREATE FUNCTION sluice_private.given_policies(policies jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  given record;
  known jsonb := '{}';
BEGIN
  IF jsonb_typeof(policies) <> 'object' THEN
    RAISE EXCEPTION 'policies: expected an object of retry policies by name, received %', left(policies::text, 80)
      USING ERRCODE = '22023', HINT = 'As in {"gentle": {"kind": "exponential", "delay": "1 minute"}}.';
  END IF;
  FOR given IN SELECT p.key AS name, p.value FROM jsonb_each(policies) AS p LOOP
    IF jsonb_typeof(given.value) <> 'object' THEN
      RAISE EXCEPTION 'policies.%: expected {"kind": "fixed", "delay": ...} or {"kind": "exponential", ...}, received %',
        left(given.name, 80), left(given.value::text, 80)
        USING ERRCODE = '22023', HINT = 'As in {"kind": "exponential", "delay": "10s", "maxDelay": "1h"}.';
    END IF;
    known := known || jsonb_build_object(given.name,
      sluice_private.setting_retry(given.value, 'policies.' || left(given.name, 80)));
  END LOOP;
  RETURN known;
END
$$;

-- The columns of a rate: {"limit": 100, "per": "1s", "burst": 10}.
CREATE FUNCTION sluice_private.setting_rate(name text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  unset boolean := jsonb_typeof(value) = 'null';
BEGIN
  IF NOT unset THEN
    PERFORM sluice_private.check_setting_keys(name, value, '{limit,per,burst}');
  END IF;
  RETURN jsonb_build_object(
    name, CASE WHEN NOT unset
               THEN sluice_private.setting_integer(name || '.limit', coalesce(value -> 'limit', '0'), 1000000) END,
    name || '_ms', CASE WHEN value ? 'per' THEN sluice_private.setting_ms(name || '.per', value -> 'per', 1)
                        WHEN NOT unset THEN 1000 END,
    name || '_burst', CASE WHEN value ? 'burst'
      THEN sluice_private.setting_integer(name || '.burst', value -> 'burst', 1000000) END
  );
END
$$;

-- The columns of sluice.queue that settings change. Fails if one of them is not allowed.
CREATE FUNCTION sluice_private.settings_columns(settings jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  given record;
  columns jsonb := '{}';
BEGIN
  PERFORM sluice_private.check_setting_keys('settings', settings,
    '{delay,ttl,on_expiry,max_attempts,retry,payload_limit_bytes,history,dead_letter_retention,rate,tenant_rate,concurrency,'
    'tenant_concurrency}', nulls => true);
  FOR given IN SELECT s.key AS name, s.value FROM jsonb_each(settings) AS s ORDER BY s.key LOOP
    columns := columns || CASE given.name
      WHEN 'delay' THEN jsonb_build_object('delay_ms', sluice_private.setting_ms(given.name, given.value, 0))
      WHEN 'ttl' THEN jsonb_build_object('ttl_ms', sluice_private.setting_ms(given.name, given.value, 1))
      WHEN 'history' THEN jsonb_build_object('history_ms', sluice_private.setting_ms(given.name, given.value, 1))
      WHEN 'dead_letter_retention'
        THEN jsonb_build_object('dead_letter_retention_ms', sluice_private.setting_ms(given.name, given.value, 1))
      WHEN 'max_attempts'
        THEN jsonb_build_object(given.name, sluice_private.setting_integer(given.name, given.value, 1000000))
      WHEN 'payload_limit_bytes'
        THEN jsonb_build_object(given.name, sluice_private.setting_integer(given.name, given.value, 268435456))
      WHEN 'retry' THEN jsonb_build_object(given.name, sluice_private.setting_retry(given.value))
      WHEN 'rate' THEN sluice_private.setting_rate(given.name, given.value)
      WHEN 'tenant_rate' THEN sluice_private.setting_rate(given.name, given.value)
      WHEN 'on_expiry' THEN jsonb_build_object(given.name, given.value)
      ELSE jsonb_build_object(given.name, sluice_private.setting_integer(given.name, given.value, 10000))
    END;
  END LOOP;
  IF columns ->> 'on_expiry' NOT IN ('drop', 'dead_letter') THEN
    RAISE EXCEPTION 'on_expiry: expected drop or dead_letter, received %', left(columns ->> 'on_expiry', 80)
      USING ERRCODE = '22023', HINT = 'null unsets it.';
  END IF;
  RETURN columns;
END
$$;

-- It is a hint: each worker reads what has changed with its poll.
CREATE FUNCTION sluice_private.queue_told() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.notify('!settings!' || coalesce(NEW.queue, OLD.queue));
  RETURN NULL;
END
$$;
CREATE TRIGGER queue_told AFTER INSERT OR UPDATE OR DELETE ON sluice.queue
  FOR EACH ROW EXECUTE FUNCTION sluice_private.queue_told();

-- Writes columns of the row of a queue, which it locks, and removes a row that says nothing any more: enqueueing in a
-- queue without a row is fastest. Returns whether it was paused before. An action that changes something is noted: the
-- last part of its name, as that of a queue or of a group.
CREATE FUNCTION sluice_private.change_queue(queue text, columns jsonb, by text, verb text, details jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  was sluice.queue;
  changed sluice.queue;
  tries integer := 0;
BEGIN
  LOOP
    SELECT q.* INTO was FROM sluice.queue q WHERE q.queue = queue FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO sluice.queue (queue) VALUES (queue) ON CONFLICT DO NOTHING;
    tries := tries + 1;
    PERFORM sluice_private.check_taken('queue', queue, tries);
  END LOOP;
  changed := jsonb_populate_record(was, columns);
  IF changed.paused_at IS NOT NULL THEN
    changed.paused_at := coalesce(was.paused_at, changed.paused_at);
  END IF;
  IF jsonb_strip_nulls(to_jsonb(changed) - '{queue,changed_at,changed_by,paused_by,pause_reason}'::text[]) = '{}' THEN
    DELETE FROM sluice.queue q WHERE q.queue = queue;
  ELSE
    UPDATE sluice.queue q SET
      paused_at = changed.paused_at, paused_by = changed.paused_by, pause_reason = changed.pause_reason, delay_ms = changed.delay_ms,
      ttl_ms = changed.ttl_ms, on_expiry = changed.on_expiry, max_attempts = changed.max_attempts, retry = changed.retry,
      payload_limit_bytes = changed.payload_limit_bytes, history_ms = changed.history_ms,
      dead_letter_retention_ms = changed.dead_letter_retention_ms, rate = changed.rate, rate_ms = changed.rate_ms,
      rate_burst = changed.rate_burst, tenant_rate = changed.tenant_rate, tenant_rate_ms = changed.tenant_rate_ms,
      tenant_rate_burst = changed.tenant_rate_burst, concurrency = changed.concurrency,
      tenant_concurrency = changed.tenant_concurrency, changed_at = clock_timestamp(), changed_by = sluice_private.actor(by)
    WHERE q.queue = queue;
  END IF;
  IF was IS DISTINCT FROM changed THEN
    PERFORM sluice_private.note_action(
      CASE WHEN strpos(queue, ':') > 0 AND sluice_private.is_of_group(queue) THEN 'group.' ELSE 'queue.' END || verb,
      queue, 1, details => details, given => by);
  END IF;
  RETURN was.paused_at IS NOT NULL;
END
$$;

-- Fails if a queue no longer limits its tenants, and one of its endpoints has a limit of its own, which would end with that.
CREATE FUNCTION sluice_private.check_endpoint_limits(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  limited text;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.tenant_concurrency IS NOT NULL) THEN
    SELECT e.name INTO limited FROM sluice.endpoint e WHERE e.queue = queue AND e.concurrency IS NOT NULL
    ORDER BY e.name LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'tenant_concurrency: expected a number, because endpoint "%" has a concurrency, received null', limited
        USING ERRCODE = 'SL081', HINT = 'Set the endpoints of the queue without a concurrency first.';
    END IF;
  END IF;
END
$$;

CREATE FUNCTION sluice.queue_set(queue text, settings jsonb, by text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  PERFORM sluice_private.change_queue(queue, sluice_private.settings_columns(settings), by, 'set', settings);
  IF settings ? 'tenant_concurrency' THEN
    PERFORM sluice_private.check_endpoint_limits(queue);
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.queue_set IS
  'Changes settings of a queue, as in {"ttl": "7 days", "max_attempts": 5}. null unsets one; others stay as they are.';

CREATE FUNCTION sluice.pause(queue text, by text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  -- Who says nothing new does not take another's reason away.
  IF reason IS NULL AND EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.paused_at IS NOT NULL) THEN
    RETURN false;
  END IF;
  RETURN NOT sluice_private.change_queue(queue, jsonb_build_object(
    'paused_at', clock_timestamp(), 'paused_by', sluice_private.actor(by), 'pause_reason', reason
  ), by, 'pause', jsonb_strip_nulls(jsonb_build_object('reason', reason)));
END
$$;
COMMENT ON FUNCTION sluice.pause IS
  'Pauses a queue: nothing is claimed from it until resume. Messages in flight are still handled. Returns false if it '
  'was already paused; then a new reason replaces the old one.';

CREATE FUNCTION sluice.resume(queue text, by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  RETURN sluice_private.change_queue(queue, '{"paused_at": null, "paused_by": null, "pause_reason": null}', by,
    'resume', '{}');
END
$$;
COMMENT ON FUNCTION sluice.resume IS 'Ends the pause of a queue. Returns false if it was not paused.';

-- For sessions that wait for a claim, and may read no table.
CREATE FUNCTION sluice.is_paused(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.paused_at IS NOT NULL);
END
$$;
COMMENT ON FUNCTION sluice.is_paused IS 'Returns whether a queue is paused.';
