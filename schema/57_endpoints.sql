-- Makes endpoints, changes them, and sends events to them.
--
-- Public functions: sluice.endpoint_set, sluice.endpoint_enable, sluice.endpoint_disable, sluice.endpoint_rotate,
-- sluice.endpoint_delete, sluice.send_webhook.

CREATE FUNCTION sluice_private.endpoint_unknown(queue text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'Endpoint "%" of queue "%": expected one that exists, received one that is unknown', name, queue
    USING ERRCODE = 'SL080', HINT = 'The view sluice.endpoints has all of them.';
END
$$;

-- Notes what was done to an endpoint, and wakes the workers of its queue: messages of the endpoint may go on now.
CREATE FUNCTION sluice_private.note_endpoint(action text, queue text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.note_action(action, queue, 1, name);
  PERFORM sluice_private.wake(queue);
END
$$;

-- A secret of 32 bytes, of which 244 bits are random: two UUIDs, each of the server's strong random bytes.
CREATE FUNCTION sluice_private.new_secret() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'whsec_' || encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'base64')
$$;

-- Fails unless it is whsec_ and the base64 of 24 to 64 bytes. It is not quoted.
CREATE FUNCTION sluice_private.check_secret(secret text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bytes integer := 0;
BEGIN
  IF secret ~ '^whsec_[A-Za-z0-9+/]+={0,2}$' AND length(secret) % 4 = 2 THEN
    BEGIN
      bytes := octet_length(decode(substr(secret, 7), 'base64'));
    EXCEPTION WHEN invalid_parameter_value THEN
      bytes := 0;
    END;
  END IF;
  IF bytes NOT BETWEEN 24 AND 64 THEN
    RAISE EXCEPTION 'secret: expected whsec_ and the base64 of 24 to 64 bytes, received something else'
      USING ERRCODE = '22023', HINT = 'Leave it out for one that is made.';
  END IF;
END
$$;

-- Fails unless an endpoint fits its table: the error of a constraint would quote the whole row, with the secret. The library checks
-- the names of headers as well, before it sends them.
CREATE FUNCTION sluice_private.check_endpoint(
  queue text, name text, url text, owner text, types text[], headers jsonb, ordered boolean, concurrency integer
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  is_name constant text := '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$';
BEGIN
  IF (queue ~ is_name) IS NOT TRUE THEN
    RAISE EXCEPTION 'queue: expected 1 to 100 letters, digits and _ . : - (no . : - first), received something else'
      USING ERRCODE = '22023';
  END IF;
  IF (name ~ is_name) IS NOT TRUE THEN
    RAISE EXCEPTION 'name: expected 1 to 100 letters, digits and _ . : - (no . : - first), received something else'
      USING ERRCODE = '22023';
  END IF;
  IF octet_length(owner) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'owner: expected 1 to 255 bytes, received %', octet_length(owner) USING ERRCODE = '22023';
  END IF;
  IF (url ~ '^https?://[^/?#@[:space:]]+([/?][^#[:space:]]*)?$' AND octet_length(url) <= 2000) IS NOT TRUE THEN
    RAISE EXCEPTION 'url: expected an address as https://example.com/path of at most 2,000 bytes, without a user name, a fragment '
      'and spaces, received something else' USING ERRCODE = '22023';
  END IF;
  IF types IS NOT NULL AND cardinality(types) NOT BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'types: expected 1 to 1,000, received %', cardinality(types)
      USING ERRCODE = '22023', HINT = 'NULL is all types.';
  END IF;
  IF array_position(types, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'types: expected types, received NULL among them' USING ERRCODE = '22004';
  END IF;
  PERFORM sluice_private.check_type(t.type) FROM unnest(types) AS t (type);
  PERFORM sluice_private.check_bytes('headers', headers);
  IF jsonb_typeof(headers) <> 'object' THEN
    RAISE EXCEPTION 'headers: expected a JSON object, received another value' USING ERRCODE = '22023';
  END IF;
  IF EXISTS (
    SELECT FROM jsonb_each(headers) AS h (name, value) WHERE jsonb_typeof(h.value) <> 'string'
  ) THEN
    RAISE EXCEPTION 'headers: expected strings as values, received others' USING ERRCODE = '22023';
  END IF;
  IF concurrency NOT BETWEEN 1 AND 10000 THEN
    RAISE EXCEPTION 'concurrency: expected 1 to 10,000, received %', concurrency USING ERRCODE = '22023';
  END IF;
  IF ordered AND concurrency IS NOT NULL THEN
    RAISE EXCEPTION 'concurrency: expected none with ordered, received %', concurrency
      USING ERRCODE = '22023', HINT = 'An ordered endpoint has one message in flight.';
  END IF;
END
$$;

-- Of messages with tenants only a queue that limits them gives each its turn, and a limit in flight: 5, unless the queue has one.
-- Only with the first endpoint, so that a limit that was taken away stays away.
CREATE FUNCTION sluice_private.limit_endpoints(queue text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.tenant_concurrency IS NOT NULL)
    AND NOT EXISTS (SELECT FROM sluice.endpoint e WHERE e.queue = queue AND e.name <> name)
  THEN
    PERFORM sluice.queue_set(queue, '{"tenant_concurrency": 5}');
  END IF;
END
$$;

-- Only while a queue limits its tenants do claims go by tenant, which an endpoint's limit needs. The lock keeps the queue's
-- limit until sluice.queue_set can see the endpoint.
CREATE FUNCTION sluice_private.require_limited_tenants(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM FROM sluice.queue q WHERE q.queue = queue AND q.tenant_concurrency IS NOT NULL FOR SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'concurrency: expected a queue with tenant_concurrency, received queue "%" without it', queue
      USING ERRCODE = 'SL081', HINT = 'Give the queue a tenant_concurrency first.';
  END IF;
END
$$;

-- What an old URL has answered says nothing about a new one. One that was disabled by hand or by failures stays so.
CREATE FUNCTION sluice_private.forget_failures(queue text, name text, state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.endpoint e SET closed_until = NULL, failing_since = NULL, warned_at = NULL
  WHERE e.queue = queue AND e.name = name;
  IF state = 'gone' THEN
    UPDATE sluice.endpoint e SET state = 'enabled', disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL
    WHERE e.queue = queue AND e.name = name;
    PERFORM sluice_private.wake(queue);
  END IF;
END
$$;

CREATE FUNCTION sluice.endpoint_set(
  queue   text,
  name    text,
  url     text,
  owner   text    DEFAULT NULL,
  types   text[]  DEFAULT NULL,
  headers jsonb   DEFAULT '{}',
  ordered boolean DEFAULT false,
  secret  text    DEFAULT NULL,
  concurrency integer DEFAULT NULL
) RETURNS TABLE (outcome text, new_secret text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.endpoint;
BEGIN
  PERFORM sluice_private.check_endpoint(queue, name, url, owner, types, headers, ordered, concurrency);
  IF secret IS NOT NULL THEN
    PERFORM sluice_private.check_secret(secret);
  END IF;
  headers := coalesce(headers, '{}');
  ordered := coalesce(ordered, false);
  new_secret := coalesce(secret, sluice_private.new_secret());
  INSERT INTO sluice.endpoint (queue, name, url, owner, types, headers, ordered, concurrency, secret, changed_by)
  VALUES (queue, name, url, owner, types, headers, ordered, concurrency, new_secret, sluice_private.actor())
  ON CONFLICT ON CONSTRAINT endpoint_pkey DO NOTHING;
  IF FOUND THEN
    outcome := 'created';
    PERFORM sluice_private.limit_endpoints(queue, name);
  ELSE
    new_secret := NULL;
    SELECT e.* INTO had FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name FOR UPDATE;
    outcome := CASE WHEN (had.url, had.owner, had.types, had.headers, had.ordered, had.concurrency, had.secret)
      IS NOT DISTINCT FROM (url, owner, types, headers, ordered, concurrency, coalesce(secret, had.secret))
      THEN 'unchanged' ELSE 'changed' END;
  END IF;
  IF concurrency IS NOT NULL THEN
    PERFORM sluice_private.require_limited_tenants(queue);
  END IF;
  IF outcome = 'changed' THEN
    UPDATE sluice.endpoint e SET url = url, owner = owner, types = types, headers = headers, ordered = ordered,
      concurrency = concurrency, secret = coalesce(secret, e.secret), changed_at = clock_timestamp(), changed_by = sluice_private.actor()
    WHERE e.queue = queue AND e.name = name;
    IF url <> had.url THEN
      PERFORM sluice_private.forget_failures(queue, name, had.state);
    END IF;
    IF concurrency IS DISTINCT FROM had.concurrency THEN
      PERFORM sluice_private.wake(queue);
    END IF;
  END IF;
  IF outcome <> 'unchanged' THEN
    PERFORM sluice_private.note_action('endpoint.set', queue, 1, name, details => jsonb_build_object('outcome', outcome));
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_set IS
  'Makes an endpoint, or changes it to what is given. outcome: created, changed or unchanged. new_secret: of one that is '
  'created. Without secret a new endpoint gets one, and any other keeps its own. concurrency: how many of its messages '
  'may be in flight; NULL: as many as the queue allows a tenant.';

CREATE FUNCTION sluice.endpoint_enable(queue text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  was_open boolean;
BEGIN
  SELECT e.state = 'enabled' AND (e.closed_until > clock_timestamp()) IS NOT TRUE INTO was_open FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice_private.endpoint_unknown(queue, name);
  END IF;
  UPDATE sluice.endpoint e SET state = 'enabled', disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL,
    closed_until = NULL, failing_since = NULL, warned_at = NULL
  WHERE e.queue = queue AND e.name = name;
  IF was_open THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_endpoint('endpoint.enable', queue, name);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_enable IS
  'Enables an endpoint, and forgets its failures and its Retry-After. Its messages go on. Returns false if it was enabled and waited '
  'for no Retry-After.';

CREATE FUNCTION sluice.endpoint_disable(queue text, name text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  was text;
BEGIN
  SELECT e.state INTO was FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice_private.endpoint_unknown(queue, name);
  END IF;
  IF was <> 'enabled' THEN
    RETURN false;
  END IF;
  UPDATE sluice.endpoint e SET state = 'disabled', disabled_at = clock_timestamp(), disabled_by = sluice_private.actor(),
    disabled_reason = left(reason, 4000)
  WHERE e.queue = queue AND e.name = name;
  PERFORM sluice_private.note_action('endpoint.disable', queue, 1, name,
    details => jsonb_strip_nulls(jsonb_build_object('reason', reason)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_disable IS
  'Disables an endpoint: its messages wait, and it gets no new ones. Returns false if it was not enabled.';

CREATE FUNCTION sluice.endpoint_rotate(
  queue text, name text, keep interval DEFAULT '1 day', secret text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  chosen text := coalesce(secret, sluice_private.new_secret());
BEGIN
  PERFORM sluice_private.check_secret(chosen);
  PERFORM sluice_private.check_time('keep', keep, 'Zero ends the old secret at once.', 'zero', '30 days');
  UPDATE sluice.endpoint e SET old_secret = CASE WHEN keep > interval '0' THEN e.secret END,
    old_secret_until = CASE WHEN keep > interval '0' THEN clock_timestamp() + keep END,
    secret = chosen, changed_at = clock_timestamp(), changed_by = sluice_private.actor()
  WHERE e.queue = queue AND e.name = name;
  IF NOT FOUND THEN
    PERFORM sluice_private.endpoint_unknown(queue, name);
  END IF;
  PERFORM sluice_private.note_action('endpoint.rotate', queue, 1, name);
  RETURN chosen;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_rotate IS
  'Gives an endpoint a new secret, and returns it. The one that it had signs as well for keep, up to 30 days.';

CREATE FUNCTION sluice.endpoint_delete(queue text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_endpoint('endpoint.delete', queue, name);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_delete IS
  'Deletes an endpoint. Messages that wait for it become dead letters. Returns false if there is none with this name.';

-- The enabled endpoints that get an event. Two statements, because an index serves neither OR nor IS NOT DISTINCT FROM.
CREATE FUNCTION sluice_private.endpoints_for(queue text, type text, owner text, endpoint text)
RETURNS TABLE (name text, ordered boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF endpoint IS NOT NULL THEN
    RETURN QUERY SELECT e.name, e.ordered FROM sluice.endpoint e
    WHERE e.queue = queue AND e.name = endpoint AND e.state = 'enabled';
    IF NOT FOUND AND NOT EXISTS (SELECT FROM sluice.endpoint e WHERE e.queue = queue AND e.name = endpoint) THEN
      PERFORM sluice_private.endpoint_unknown(queue, endpoint);
    END IF;
  ELSIF owner IS NULL THEN
    RETURN QUERY SELECT e.name, e.ordered FROM sluice.endpoint e
    WHERE e.queue = queue AND e.owner IS NULL AND e.state = 'enabled' AND (e.types IS NULL OR type = ANY (e.types))
    ORDER BY e.name;
  ELSE
    RETURN QUERY SELECT e.name, e.ordered FROM sluice.endpoint e
    WHERE e.queue = queue AND e.owner = owner AND e.state = 'enabled' AND (e.types IS NULL OR type = ANY (e.types))
    ORDER BY e.name;
  END IF;
END
$$;

CREATE FUNCTION sluice.send_webhook(
  queue          text,
  type           text,
  payload        jsonb,
  owner          text    DEFAULT NULL,
  endpoint       text    DEFAULT NULL,
  headers        jsonb   DEFAULT '{}',
  schema_version integer DEFAULT 1
) RETURNS TABLE (name text, id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  receiver record;
BEGIN
  IF type IS NULL THEN
    RAISE EXCEPTION 'type: expected the type of the event, received NULL'
      USING ERRCODE = '22004', HINT = 'For example ''order.paid''.';
  END IF;
  IF owner IS NOT NULL AND endpoint IS NOT NULL THEN
    RAISE EXCEPTION 'owner, endpoint: expected one of the two, received both'
      USING ERRCODE = '22023', HINT = 'Leave one of them out.';
  END IF;
  PERFORM sluice_private.check_enqueue(payload, headers, type, NULL, NULL, NULL, NULL);
  FOR receiver IN SELECT f.name, f.ordered FROM sluice_private.endpoints_for(queue, type, owner, endpoint) f LOOP
    name := receiver.name;
    id := sluice_private.insert_message(
      queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1),
      CASE WHEN receiver.ordered THEN receiver.name END, 5::smallint, NULL, NULL, NULL, NULL, NULL, NULL,
      CASE WHEN NOT receiver.ordered THEN receiver.name END, NULL, NULL
    );
    IF id IS NULL THEN
      PERFORM sluice_private.require_kept('message', queue, 1, 0);
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.send_webhook IS
  'Sends an event to the enabled endpoints of the queue that have the owner and want its type, or to one endpoint, in the '
  'current transaction. Returns a row with name and id for each message.';
