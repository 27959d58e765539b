-- What a claim may take, in a queue with limits.

-- How many messages there are to claim now, up to so many. Of messages with ordering keys it is not looked whether they are
-- due or held.
CREATE FUNCTION sluice_private.count_claimable(queue text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM (
        SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
          SELECT m.id FROM sluice.message m
          WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
          ORDER BY m.due_at, m.id LIMIT (SELECT most)
        ) m
        UNION ALL
        SELECT FROM (
          SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL
          ORDER BY m.slot, m.id LIMIT (SELECT most)
        ) k
      ) every LIMIT (SELECT most)
    ) counted
  );
END
$$;

-- What a claim may take, in a queue with limits; granted null: the queue has none. It takes the tokens, and makes rows of
-- permits, so it is run in a transaction of its own before that of the batch. Permits are taken by the claim itself.
-- tenants, shares: where tenants have limits, how many messages of each; the tenant '': of those without one, which have
-- their turn when `apart` is given. turn: where to begin; null: where the last claim of the queue ended; then where the next
-- one begins. wrapped: it has been round. wait_ms: nothing may begin before that time is over; 0: somebody has locked what
-- it needs. With keyed 'only' it is how long the tenants wait. While round_from is not null, tenants that it has not visited may
-- wait for less: see sluice_private.pick_tenants. keyed_share, keyed: see sluice_private.share_out. The settings are those
-- without which a plan could read or sort a backlog.
CREATE FUNCTION sluice_private.prepare_claim(
  queue text, most integer, INOUT turn text, apart boolean, OUT granted integer, OUT wait_ms double precision,
  OUT permits boolean, OUT tokens boolean, OUT tenants text[], OUT shares integer[], OUT wrapped boolean, OUT keyed text,
  keyed_share integer DEFAULT NULL, INOUT round_from text DEFAULT NULL
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  taken integer;
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  permits := settings.concurrency IS NOT NULL OR settings.tenant_concurrency IS NOT NULL;
  tokens := settings.rate IS NOT NULL OR settings.tenant_rate IS NOT NULL;
  IF NOT permits AND NOT tokens THEN
    RETURN;
  END IF;
  granted := sluice_private.count_claimable(queue, least(most, settings.concurrency));
  IF granted > 0 AND settings.concurrency IS NOT NULL THEN
    SELECT f.wait_ms INTO wait_ms FROM sluice_private.fit_permits(queue, '', settings.concurrency, granted) f;
    IF wait_ms IS NOT NULL THEN
      granted := 0;
    END IF;
  END IF;
  IF granted > 0 AND settings.rate IS NOT NULL THEN
    SELECT t.granted, t.wait_ms INTO granted, wait_ms FROM sluice_private.take_tokens(
      queue, '', granted, settings.rate, coalesce(settings.rate_ms, 1000), coalesce(settings.rate_burst, settings.rate)
    ) t;
  END IF;
  IF granted = 0 OR settings.tenant_concurrency IS NULL AND settings.tenant_rate IS NULL THEN
    RETURN;
  END IF;
  taken := granted;
  SELECT p.granted, p.wait_ms, p.tenants, p.shares, p.turn, p.round_from, p.wrapped, p.keyed
  INTO granted, wait_ms, tenants, shares, turn, round_from, wrapped, keyed
  FROM sluice_private.share_out(queue, taken, turn, apart, keyed_share, round_from, settings) p;
  IF keyed IS NOT NULL THEN
    tenants := NULL;
    shares := NULL;
    permits := settings.concurrency IS NOT NULL;
    tokens := settings.rate IS NOT NULL;
  END IF;
  IF settings.rate IS NOT NULL AND granted < taken THEN
    PERFORM sluice_private.return_tokens(queue, ARRAY[''], ARRAY[taken - granted]);
  END IF;
END
$$;

-- Locks messages of tenants, and the permits that they need. ids: null if others have all permits of the queue. surplus: more
-- permits than messages. keyed: of messages without a tenant those with an ordering key too.
CREATE FUNCTION sluice_private.lock_shares(
  queue text, most integer, tenants text[], shares integer[], OUT ids bigint[], OUT surplus boolean, keyed boolean DEFAULT true
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  had integer := most;
  allowed integer;
  taken bigint[];
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.concurrency IS NOT NULL THEN
    had := sluice_private.lock_permits(queue, '', most);
  END IF;
  IF had = 0 THEN
    surplus := false;
    RETURN;
  END IF;
  ids := '{}';
  surplus := false;
  FOR at IN 1..cardinality(tenants) LOOP
    allowed := least(shares[at], had - cardinality(ids));
    CONTINUE WHEN allowed < 1;
    IF tenants[at] = '' THEN
      taken := CASE WHEN keyed THEN sluice_private.lock_due(queue, allowed, false)
                    ELSE sluice_private.lock_untenanted(queue, allowed) END;
    ELSE
      IF settings.tenant_concurrency IS NOT NULL THEN
        allowed := sluice_private.lock_permits(queue, tenants[at], allowed);
      END IF;
      taken := CASE WHEN allowed > 0 THEN sluice_private.lock_of_tenant(queue, tenants[at], allowed) ELSE '{}' END;
      surplus := surplus OR settings.tenant_concurrency IS NOT NULL AND cardinality(taken) < allowed;
    END IF;
    ids := ids || taken;
  END LOOP;
  surplus := surplus OR settings.concurrency IS NOT NULL AND cardinality(ids) < had;
END
$$;

-- Whether a claim has to ask for permits or tokens.
CREATE FUNCTION sluice_private.is_limited(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (
    SELECT FROM sluice.queue q
    WHERE q.queue = queue
      AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL)
  );
END
$$;

-- Gives back the tokens of a claim that has taken fewer messages.
CREATE FUNCTION sluice_private.return_unused(queue text, granted integer, tenants text[], shares integer[], taken bigint[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.return_tokens(queue, array_agg(unused.tenant), array_agg(unused.count))
  FROM (
    SELECT '' AS tenant, granted - cardinality(taken) AS count
    UNION ALL
    SELECT t.tenant, t.share - (
      SELECT count(*)::integer FROM sluice_private.rows_of(queue, taken) m WHERE m.tenant = t.tenant
    )
    FROM unnest(tenants, shares) AS t (tenant, share) WHERE t.tenant <> ''
  ) unused
  WHERE unused.count > 0;
END
$$;

-- Locks due messages for a claim or a pop, and the permits that they need. What else it locks is free at the end of its
-- transaction, which is short. Of what it meets, it removes what is not to be handed out.
CREATE FUNCTION sluice_private.lock_allowed(queue text, most integer, max_attempts integer,
  OUT ids bigint[], OUT met boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  prepared record;
  allowed integer;
BEGIN
  IF NOT sluice_private.is_limited(queue) THEN
    ids := sluice_private.lock_due(queue, most, true);
    met := ids <> '{}';
    ids := sluice_private.sift_locked(queue, ids, max_attempts);
    RETURN;
  END IF;
  ids := '{}';
  SELECT p.* INTO prepared FROM sluice_private.prepare_claim(queue, most, NULL, false) p;
  IF prepared.granted > 0 AND prepared.tenants IS NOT NULL THEN
    SELECT coalesce(l.ids, '{}') INTO ids
    FROM sluice_private.lock_shares(queue, prepared.granted, prepared.tenants, prepared.shares) l;
  ELSIF prepared.granted > 0 THEN
    allowed := CASE WHEN prepared.permits THEN sluice_private.lock_permits(queue, '', prepared.granted)
      ELSE prepared.granted END;
    ids := CASE WHEN allowed > 0 THEN sluice_private.lock_due(queue, allowed, true) ELSE '{}' END;
  END IF;
  met := ids <> '{}';
  ids := sluice_private.sift_locked(queue, ids, max_attempts);
  IF prepared.tokens AND cardinality(ids) < prepared.granted THEN
    PERFORM sluice_private.return_unused(queue, prepared.granted, prepared.tenants, prepared.shares, ids);
  END IF;
END
$$;

-- Gives the permits that a claim has locked to the messages that it has leased.
CREATE FUNCTION sluice_private.lease_allowed(queue text, ids bigint[], lease bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  owned record;
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.concurrency IS NOT NULL THEN
    PERFORM sluice_private.lease_permits(queue, '', ids, lease);
  END IF;
  IF settings.tenant_concurrency IS NOT NULL THEN
    FOR owned IN
      SELECT m.tenant, array_agg(m.id) AS ids FROM sluice_private.rows_of(queue, ids) m
      WHERE m.tenant IS NOT NULL GROUP BY m.tenant
    LOOP
      PERFORM sluice_private.lease_permits(queue, owned.tenant, owned.ids, lease);
    END LOOP;
  END IF;
END
$$;
