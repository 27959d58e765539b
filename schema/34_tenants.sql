-- Shares a claim out among the tenants of a queue.

-- How many messages of a tenant are due and seem not to be in flight, up to so many.
CREATE FUNCTION sluice_private.count_of_tenant(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
        SELECT m.id FROM sluice.message m
        WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant = tenant AND m.priority = p.priority
          AND m.due_at <= now_at
          AND NOT sluice_private.in_progress(m.xmax)
        ORDER BY m.due_at, m.id LIMIT (SELECT most)
      ) m
      LIMIT (SELECT most)
    ) counted
  );
END
$$;

-- Locks due messages of a tenant, the lowest priority number first, then by due time: as sluice_private.lock_unkeyed, by
-- message_tenant_idx.
CREATE FUNCTION sluice_private.lock_of_tenant(queue text, tenant text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant = tenant AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id
      LIMIT (SELECT most)
      FOR UPDATE OF m SKIP LOCKED
    ) m
    LIMIT most
  );
END
$$;

-- Which messages without a tenant and without an ordering key are due: of the first 1,000 of each priority.
CREATE FUNCTION sluice_private.untenanted(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.tenant, m.xmax FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id
      LIMIT (SELECT 1000)
    ) m
    WHERE m.tenant IS NULL AND NOT sluice_private.in_progress(m.xmax)
    LIMIT most
  );
END
$$;

-- Locks them.
CREATE FUNCTION sluice_private.lock_untenanted(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id FROM unnest(sluice_private.untenanted(queue, most)) AS given (id) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND m.due_at <= now_at LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) m
  );
END
$$;

-- Locks due messages, of tenants too or only those without one. In a queue that has both kinds, those with a key and those
-- without come first in turn, by chance, so that neither kind waits for all of the other.
CREATE FUNCTION sluice_private.lock_due(queue text, most integer, of_tenants boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  keyed_first boolean := random() < 0.5;
  taken bigint[] := '{}';
BEGIN
  IF keyed_first THEN
    taken := sluice_private.lock_keyed(queue, most);
  END IF;
  IF cardinality(taken) < most AND of_tenants THEN
    taken := taken || sluice_private.lock_unkeyed(queue, most - cardinality(taken));
  ELSIF cardinality(taken) < most THEN
    taken := taken || sluice_private.lock_untenanted(queue, most - cardinality(taken));
  END IF;
  IF NOT keyed_first AND cardinality(taken) < most THEN
    taken := taken || sluice_private.lock_keyed(queue, most - cardinality(taken));
  END IF;
  RETURN taken;
END
$$;

-- In how many milliseconds a tenant has a token; null: it has one, or needs none, or the clock was set back: then
-- sluice_private.take_tokens has its bucket fill from now on. It looks, and locks nothing.
CREATE FUNCTION sluice_private.wait_of_tenant(queue text, tenant text, settings sluice.queue) RETURNS double precision
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  rate double precision := settings.tenant_rate::double precision / coalesce(settings.tenant_rate_ms, 1000);
  level double precision;
BEGIN
  IF settings.tenant_rate IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT b.tokens + greatest(0, extract(epoch FROM clock_timestamp() - b.at)::double precision * 1000 * rate) INTO level
  FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant AND b.at <= clock_timestamp();
  RETURN CASE WHEN level < 1 THEN (1 - level) / rate END;
END
$$;

-- How many messages of a tenant may be claimed now: due, not in flight, and with permits that seem to be free.
CREATE FUNCTION sluice_private.room_of_tenant(
  queue text, tenant text, most integer, settings sluice.queue, OUT room integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  room := sluice_private.count_of_tenant(queue, tenant, most);
  IF room > 0 AND settings.tenant_concurrency IS NOT NULL THEN
    SELECT least(room, f.free_count), f.wait_ms INTO room, wait_ms
    FROM sluice_private.fit_permits(queue, tenant, sluice_private.most_in_flight(queue, tenant), room) f;
  END IF;
END
$$;

-- Which tenants a claim takes from, and how many messages of each at most. It goes in rotation, beginning behind `turn`:
-- from each tenant to the next by one descent of message_tenant_idx, which the loop reads one by one, so that it costs as
-- much as the tenants that it visits. Tenants that have nothing due, or are endpoints that nothing may be sent to now, cost
-- little, and those that wait for their limit more: after 200 of these it ends, and the next claim goes on there. wait_ms is
-- of the tenants that it has visited. round_from: where the claims began that have found nothing since; null: with this one.
-- It returns null once all tenants have been visited from there: only then is it known how long all of them wait. If the
-- tenants could take more than the claim asks for, each gets the same share. What is left over goes to the first tenants,
-- one each, and the next claim begins behind them. others: how many messages without a tenant may be claimed. They have a
-- share like that of a tenant, rounded by chance, if there are so many.
CREATE FUNCTION sluice_private.pick_tenants(
  queue text, most integer, settings sluice.queue, others integer, INOUT turn text, INOUT round_from text,
  OUT tenants text[], OUT shares integer[], OUT wait_ms double precision, OUT wrapped boolean, OUT of_others integer
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  began text := turn;
  most_tenants integer := most - (others > 0)::integer;
  candidate text;
  room integer;
  extra integer;
  waiting integer := 0;
  given integer;
  token_wait double precision;
  permit_wait double precision;
BEGIN
  tenants := '{}';
  shares := '{}';
  FOR pass IN 0..1 LOOP
    wrapped := pass = 1;
    FOR candidate IN
      WITH RECURSIVE found (tenant, due_at) AS (
        (SELECT m.tenant, m.due_at FROM sluice.message m
         WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant > CASE pass WHEN 0 THEN began ELSE '' END
         ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1)
        UNION ALL
        SELECT n.tenant, n.due_at FROM found f CROSS JOIN LATERAL (
          SELECT m.tenant, m.due_at FROM sluice.message m
          WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant > f.tenant
          ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1
        ) n
        WHERE pass = 0 OR f.tenant < began
      )
      SELECT f.tenant FROM found f
      WHERE (pass = 0 OR f.tenant <= began)
        AND (f.due_at <= clock_timestamp() OR sluice_private.count_of_tenant(queue, f.tenant, 1) > 0)
        -- Not by NOT EXISTS: the planner would read all endpoints of the queue.
        AND (SELECT e.name FROM sluice.endpoint e
             WHERE e.queue = queue AND e.name = f.tenant
               AND (e.state = 'disabled' OR e.closed_until > clock_timestamp()) LIMIT 1) IS NULL
    LOOP
      token_wait := sluice_private.wait_of_tenant(queue, candidate, settings);
      room := 0;
      permit_wait := NULL;
      IF token_wait IS NULL THEN
        SELECT r.room, r.wait_ms INTO room, permit_wait
        FROM sluice_private.room_of_tenant(queue, candidate, most, settings) r;
      END IF;
      wait_ms := least(wait_ms, token_wait, permit_wait);
      IF room > 0 THEN
        tenants := tenants || candidate;
        shares := shares || room;
      ELSE
        waiting := waiting + 1;
      END IF;
      turn := candidate;
      EXIT WHEN cardinality(tenants) = most_tenants OR waiting = 200;
    END LOOP;
    EXIT WHEN cardinality(tenants) = most_tenants OR waiting = 200;
  END LOOP;
  round_from := coalesce(round_from, began);
  IF cardinality(tenants) < most_tenants AND waiting < 200
     OR round_from > began AND (wrapped OR round_from <= turn) OR wrapped AND round_from <= turn THEN
    round_from := NULL;
  END IF;
  of_others := least(others, greatest(1, floor(most / (cardinality(tenants) + 1.0) + random())));
  extra := (most - of_others) % greatest(1, cardinality(tenants));
  FOR at IN 1..cardinality(tenants) LOOP
    given := least(shares[at], (most - of_others) / cardinality(tenants) + (at <= extra)::integer);
    turn := CASE WHEN at = extra AND waiting < 200 THEN tenants[at] ELSE turn END;
    IF settings.tenant_rate IS NOT NULL AND given > 0 THEN
      SELECT t.granted, t.wait_ms INTO given, token_wait FROM sluice_private.take_tokens(
        queue, tenants[at], given, settings.tenant_rate, coalesce(settings.tenant_rate_ms, 1000),
        coalesce(settings.tenant_rate_burst, settings.tenant_rate)
      ) t;
      wait_ms := least(wait_ms, token_wait);
    END IF;
    shares[at] := given;
  END LOOP;
END
$$;

-- Notes where a claim has ended among the tenants. It does not wait: a transaction of an application that has claimed and
-- goes on may have the lock.
CREATE FUNCTION sluice_private.note_turn(queue text, turn text, apart boolean, by_worker boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  last timestamptz;
BEGIN
  SELECT t.noted_at INTO last FROM sluice.turn t WHERE t.queue = queue;
  IF by_worker AND last > now_at - interval '1 second' THEN
    RETURN;
  END IF;
  IF last IS NOT NULL THEN
    PERFORM FROM sluice.turn t WHERE t.queue = queue AND (t.tenant <> turn OR t.apart <> apart) FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE sluice.turn t SET tenant = turn, apart = apart, noted_at = now_at WHERE t.queue = queue;
    END IF;
  ELSIF sluice_private.lock_growth(queue, '') THEN
    INSERT INTO sluice.turn (queue, tenant, apart, noted_at)
    SELECT queue, turn, apart, now_at WHERE NOT EXISTS (SELECT FROM sluice.turn t WHERE t.queue = queue);
  END IF;
END
$$;

-- How many messages without a tenant may be claimed beside those of tenants. keyed: some have an ordering key; how many of
-- those are free only their claim finds out.
CREATE FUNCTION sluice_private.room_beside_tenants(queue text, most integer, keyed boolean) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN keyed THEN most ELSE cardinality(sluice_private.untenanted(queue, most)) END;
END
$$;

-- Shares a claim out among tenants, and messages without one. A worker claims messages with ordering keys by statements of its
-- own, which remember the rows behind a closed key, where a function would walk them each time. So it gives keyed_share: how
-- many of them a claim may take instead of others when messages without a tenant have their turn; 0: they have just had it.
-- keyed: the claim is of them alone: 'turn', or 'only' because nothing else may be claimed now. round_from: see
-- sluice_private.pick_tenants.
CREATE FUNCTION sluice_private.share_out(
  queue text, most integer, INOUT turn text, apart boolean, keyed_share integer, INOUT round_from text, settings sluice.queue,
  OUT granted integer, OUT wait_ms double precision, OUT tenants text[], OUT shares integer[], OUT wrapped boolean, OUT keyed text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  by_worker boolean := turn IS NOT NULL;
  -- How many messages without a tenant take part.
  others integer := 0;
  of_others integer;
  any_keyed boolean := EXISTS (
    SELECT FROM (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL
      ORDER BY m.slot, m.id LIMIT 1) k
  );
BEGIN
  IF turn IS NULL THEN
    SELECT t.tenant, t.apart INTO turn, apart FROM sluice.turn t WHERE t.queue = queue;
  END IF;
  turn := coalesce(turn, '');
  -- Who claims once and goes does not note this turn: by chance, so that the others have theirs as well.
  IF apart AND any_keyed AND keyed_share > 0 AND (by_worker OR random() < 0.5) THEN
    keyed := 'turn';
    granted := least(most, keyed_share);
    wrapped := true;
    RETURN;
  END IF;
  IF apart THEN
    others := sluice_private.room_beside_tenants(queue, most, any_keyed AND keyed_share IS NULL);
  END IF;
  -- A claim of one message has no room for a tenant beside others, whose turn would pass all the same, time and again.
  IF others > 0 AND most = 1 THEN
    tenants := '{}';
    shares := '{}';
    wrapped := false;
  ELSE
    SELECT p.tenants, p.shares, p.turn, p.round_from, p.wait_ms, p.wrapped, p.of_others
    INTO tenants, shares, turn, round_from, wait_ms, wrapped, of_others
    FROM sluice_private.pick_tenants(queue, most, settings, others, turn, round_from) p;
  END IF;
  PERFORM sluice_private.note_turn(queue, turn, wrapped, by_worker);
  IF apart IS NOT TRUE AND cardinality(tenants) = 0 THEN
    others := sluice_private.room_beside_tenants(queue, most, any_keyed AND keyed_share IS NULL);
  END IF;
  IF others > 0 THEN
    shares := CASE WHEN cardinality(tenants) = 0 THEN others ELSE of_others END || shares;
    tenants := ''::text || tenants;
  END IF;
  granted := least(most, (SELECT coalesce(sum(s), 0) FROM unnest(shares) AS s));
  IF granted > 0 THEN
    wait_ms := NULL;
  ELSIF any_keyed AND keyed_share IS NOT NULL THEN
    keyed := 'only';
    granted := most;
  END IF;
END
$$;
