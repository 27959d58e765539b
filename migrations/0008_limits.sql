-- Limits: how many messages of a queue, or of one of its tenants, are in flight at most, and how many begin per interval.
-- Nothing here is read or written for a queue whose row in sluice.queue has no limit.

-- One row per message that may be in flight at a time: of a queue, or of a tenant of it (the queue's own: tenant '').
-- Whoever claims takes as many of them as messages. A transaction that handles messages keeps theirs locked, so its end,
-- however it comes, gives them back. A lease is written into the row, and the permit is taken for as long as its message
-- has that lease: whatever ends the lease frees the permit, and nobody has to write that down. A claim that needs the
-- permit looks for it, and empties the row.
CREATE TABLE sluice.permit (
  queue      text    NOT NULL,
  tenant     text    NOT NULL,
  n          integer NOT NULL,
  message_id bigint,
  lease      bigint,
  CONSTRAINT permit_pkey PRIMARY KEY (queue, tenant, n)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

-- The permits without a lease: a claim finds one behind any number of leases. They are read in its order, in which the
-- null of lease stands first, so that no plan reads them by the primary key, among all the others.
CREATE INDEX permit_free_idx ON sluice.permit (queue, tenant, lease, n) WHERE message_id IS NULL;

-- A token bucket of a queue, or of a tenant of it (the queue's own: tenant ''). It had so many tokens at that time.
CREATE TABLE sluice.bucket (
  queue  text             NOT NULL,
  tenant text             NOT NULL,
  tokens double precision NOT NULL,
  at     timestamptz      NOT NULL,
  CONSTRAINT bucket_pkey PRIMARY KEY (queue, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

-- With which tenant a claim of a queue ended, and whether it had been round, so that messages without a tenant are next.
-- A process that runs for one claim, and a session of a pooler, go on there. UNLOGGED: a claim waits for no disk to note
-- it, and after a crash the first tenants are next.
CREATE UNLOGGED TABLE sluice.turn (
  queue    text        NOT NULL,
  tenant   text        NOT NULL,
  apart    boolean     NOT NULL,
  noted_at timestamptz NOT NULL,
  CONSTRAINT turn_pkey PRIMARY KEY (queue)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- In which order a tenant's messages go, and which tenants there are: from each to the next in one descent. Messages
-- without a tenant are not in it. Those with one are in message_due_idx as well, so that a queue without limits for
-- tenants is claimed from as ever.
CREATE INDEX message_tenant_idx ON sluice.message (queue, tenant, priority, due_at, id) WHERE tenant IS NOT NULL;

-- Permits
-- Whether a lease has the permit. Not whether the lease has run out: until somebody notes that, or takes the message, it
-- may be renewed.
CREATE FUNCTION sluice.permit_taken(queue text, message_id bigint, lease bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN message_id IS NOT NULL AND EXISTS (
    SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = message_id AND m.lease = lease
  );
END
$$;

-- The highest number of a permit, 0 if there is none. Numbers begin at 1: there are no more rows than it says.
CREATE FUNCTION sluice.last_permit(queue text, tenant text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN coalesce((SELECT p.n FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant ORDER BY p.n DESC LIMIT 1), 0);
END
$$;

-- How many rows there are at most. They are counted only where their numbers leave open whether there are more than so many.
CREATE FUNCTION sluice.count_permits(queue text, tenant text, most_rows integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice.last_permit(queue, tenant);
BEGIN
  RETURN CASE WHEN last_n <= most_rows THEN last_n
              ELSE (SELECT count(*) FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant) END;
END
$$;

-- Locks up to so many permits without a lease, and returns how many. The transaction keeps them until it ends.
--
-- There may be more rows than permits, after the limit was lowered: then there is none to take until sluice.fit_permits
-- has deleted as many. The limit, the number of rows and the rows to lock are of one snapshot: the rows that are taken at
-- any time are all among those that the newest snapshot has seen, so they are never more than the limit of then. A
-- lease may have been written into a row between that snapshot and the lock: the server asks for message_id once more then.
CREATE FUNCTION sluice.lock_permits(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN cardinality(ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL
      AND (SELECT sluice.count_permits(queue, tenant, l.most) <= l.most
           FROM (SELECT CASE WHEN tenant = '' THEN q.concurrency ELSE q.tenant_concurrency END AS most
                 FROM sluice.queue q WHERE q.queue = queue) l)
    ORDER BY p.lease, p.n
    LIMIT (SELECT most)
    FOR UPDATE OF p SKIP LOCKED
  ));
END
$$;

-- Writes the lease of claimed messages into as many permits. Those that the transaction has locked are among those without
-- a lease, so there are enough.
CREATE FUNCTION sluice.lease_permits(queue text, tenant text, ids bigint[], lease bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
DECLARE
  free integer[];
BEGIN
  free := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL
    ORDER BY p.lease, p.n
    LIMIT (SELECT cardinality(ids))
    FOR UPDATE OF p SKIP LOCKED
  );
  UPDATE sluice.permit p SET message_id = ids[array_position(free, p.n)], lease = lease
  WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (free);
END
$$;

-- Before a claim
-- One transaction at a time makes rows of a tenant. Nobody waits: a transaction of an application that has claimed and
-- goes on may have the lock. Tenants share 32 locks per queue, so that a claim of many does not fill the lock table.
CREATE FUNCTION sluice.lock_growth(queue text, tenant text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN pg_try_advisory_xact_lock(746504, hashtext(queue) # (hashtext(tenant) & 31));
END
$$;

-- Makes the rows of permits fit the limit, and empties those whose lease has ended. Run it in a transaction of its
-- own: in that of a batch, others would wait for the batch. free_count: about how many are free; wait_ms: 0 if none is and
-- another transaction makes some. Where there are permits without a lease it reads no others.
CREATE FUNCTION sluice.fit_permits(
  queue text, tenant text, most_rows integer, wanted integer, OUT free_count integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice.last_permit(queue, tenant);
  row_count integer := sluice.count_permits(queue, tenant, most_rows);
  surplus integer[];
BEGIN
  IF row_count > most_rows THEN
    free_count := 0;
    PERFORM sluice.empty_permits(queue, tenant, row_count, last_n, true);
    surplus := sluice.lock_surplus(queue, tenant, row_count - most_rows);
    DELETE FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (surplus);
    RETURN;
  END IF;
  free_count := sluice.count_free(queue, tenant, wanted);
  IF free_count < wanted AND last_n > 0 THEN
    free_count := free_count + sluice.empty_permits(queue, tenant, wanted - free_count, last_n, row_count >= most_rows);
  END IF;
  IF free_count < wanted AND row_count >= most_rows THEN
    -- Numbers may be missing.
    SELECT count(*) INTO row_count FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant;
  END IF;
  IF free_count < wanted AND row_count < most_rows THEN
    IF sluice.lock_growth(queue, tenant) THEN
      free_count := free_count + sluice.make_permits(queue, tenant, most_rows, wanted - free_count);
    ELSIF free_count = 0 THEN
      wait_ms := 0;
    END IF;
  END IF;
END
$$;

-- How many permits without a lease seem to be locked by nobody, up to so many.
CREATE FUNCTION sluice.count_free(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN cardinality(ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL AND NOT sluice.in_progress(p.xmax)
    ORDER BY p.lease, p.n LIMIT (SELECT most)
  ));
END
$$;

-- Makes up to so many permits, while there are fewer rows than the limit allows. With a new snapshot: whoever had the lock
-- before may have made some. Numbers that are missing below the limit come before higher ones.
CREATE FUNCTION sluice.make_permits(queue text, tenant text, most_rows integer, wanted integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice.last_permit(queue, tenant);
  end_n integer := last_n + wanted;
  made integer;
BEGIN
  IF end_n > most_rows THEN
    wanted := least(wanted, most_rows - (SELECT count(*) FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant));
    last_n := 0;
    end_n := most_rows;
  END IF;
  INSERT INTO sluice.permit (queue, tenant, n)
  SELECT queue, tenant, s.n FROM generate_series(last_n + 1, end_n) AS s (n)
  WHERE (SELECT p.n FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant AND p.n = s.n) IS NULL
  LIMIT greatest(wanted, 0);
  GET DIAGNOSTICS made = ROW_COUNT;
  RETURN made;
END
$$;

-- Locks free permits, of which there are too many.
CREATE FUNCTION sluice.lock_surplus(queue text, tenant text, surplus integer) RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  locked integer[];
BEGIN
  locked := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND NOT sluice.permit_taken(p.queue, p.message_id, p.lease)
    ORDER BY p.n DESC
    LIMIT (SELECT surplus)
    FOR UPDATE OF p SKIP LOCKED
  );
  RETURN ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (locked)
      AND NOT sluice.permit_taken(p.queue, p.message_id, p.lease)
  );
END
$$;

-- Empties up to so many permits whose lease has ended, and returns how many. It begins at a number drawn by chance and goes
-- round, by blocks of 100 numbers: where some have ended it soon has as many. all_blocks: it ends when it has been round, and
-- otherwise behind the first block, because permits can be made.
CREATE FUNCTION sluice.empty_permits(queue text, tenant text, wanted integer, last_n integer, all_blocks boolean) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  blocks integer := (last_n + 99) / 100;
  start integer := floor(random() * blocks);
  first_n integer;
  ended integer[];
  emptied integer := 0;
BEGIN
  FOR step IN 0..CASE WHEN all_blocks THEN blocks ELSE 1 END - 1 LOOP
    first_n := (start + step) % blocks * 100 + 1;
    ended := ARRAY(
      SELECT p.n FROM sluice.permit p
      WHERE p.queue = queue AND p.tenant = tenant AND p.n >= first_n AND p.n < first_n + 100 AND p.message_id IS NOT NULL
        -- Not by NOT EXISTS: the planner would join all messages of the queue.
        AND (SELECT m.id FROM sluice.message m
             WHERE m.queue = queue AND m.id = p.message_id AND m.lease = p.lease AND m.due_at > clock_timestamp() LIMIT 1) IS NULL
      LIMIT (SELECT wanted - emptied)
    );
    IF ended <> '{}' THEN
      emptied := emptied + sluice.end_run_out(queue, tenant, ended);
    END IF;
    EXIT WHEN emptied >= wanted;
  END LOOP;
  RETURN emptied;
END
$$;

-- Empties those of the permits whose lease is gone, or has run out and nobody renews it at this moment: a renewal locks the
-- message first, and then compares the clock. Returns how many.
CREATE FUNCTION sluice.end_run_out(queue text, tenant text, numbers integer[]) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  run_out bigint[];
  ours integer[];
  emptied integer;
BEGIN
  run_out := ARRAY(
    SELECT m.id
    FROM (SELECT p.message_id, p.lease FROM sluice.permit p
          WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (numbers) OFFSET 0) held
    CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = held.message_id AND m.lease = held.lease AND m.due_at <= clock_timestamp()
      LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) m
  );
  -- Not one that a batch has locked which looked before the lease was written: nobody waits for a batch here.
  ours := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (numbers)
    ORDER BY p.n FOR UPDATE OF p SKIP LOCKED
  );
  -- Once more, with a new snapshot: a lease may have been written into one since.
  UPDATE sluice.permit p SET message_id = NULL, lease = NULL
  WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (ours) AND p.message_id IS NOT NULL
    AND (SELECT m.id FROM sluice.message m
         WHERE m.queue = queue AND m.id = p.message_id AND m.lease = p.lease
           AND (m.id <> ALL (run_out) OR m.due_at > clock_timestamp()) LIMIT 1) IS NULL;
  GET DIAGNOSTICS emptied = ROW_COUNT;
  RETURN emptied;
END
$$;

-- Renews leases of a queue with permits. One that has run out is not renewed, because its permit may be somebody else's by
-- now: the clock is read with the rows locked. Returns those that are renewed.
CREATE FUNCTION sluice.renew_permitted(queue text, ids bigint[], leases bigint[], ms double precision) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  locked bigint[];
  now_at timestamptz;
BEGIN
  locked := ARRAY(
    SELECT m.id FROM unnest(ids, leases) AS given (id, lease) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = given.id AND m.lease = given.lease LIMIT 1
      FOR UPDATE OF m
    ) m
  );
  now_at := clock_timestamp();
  RETURN QUERY
  UPDATE sluice.message m SET due_at = now_at + coalesce(m.lease_ms::double precision, ms) * interval '1 millisecond'
  WHERE m.ctid = ANY (sluice.ctids_of(queue, locked)) AND m.due_at > now_at
  RETURNING m.id;
END
$$;

-- Takes up to so many tokens; wait_ms: in how long there is one, if there is none. A bucket that somebody has locked is
-- not waited for, because a transaction of an application may have it, by sluice.claim or sluice.pop: wait_ms is 0 then,
-- and whoever asks tries again in a moment.
-- The server's clock alone fills it. If that was set back, the bucket fills from then on.
CREATE FUNCTION sluice.take_tokens(
  queue text, tenant text, most integer, rate integer, rate_ms bigint, burst integer,
  OUT granted integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  had record;
  now_at timestamptz;
  level double precision;
BEGIN
  SELECT b.tokens, b.at INTO had FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    IF NOT EXISTS (SELECT FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant)
       AND sluice.lock_growth(queue, tenant) THEN
      INSERT INTO sluice.bucket (queue, tenant, tokens, at)
      SELECT queue, tenant, burst, clock_timestamp()
      WHERE NOT EXISTS (SELECT FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant);
      SELECT b.tokens, b.at INTO had FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant FOR UPDATE SKIP LOCKED;
    END IF;
    IF had.at IS NULL THEN
      granted := 0;
      wait_ms := 0;
      RETURN;
    END IF;
  END IF;
  now_at := clock_timestamp();
  level := least(burst, had.tokens + greatest(0, extract(epoch FROM now_at - had.at)::double precision * 1000 * rate / rate_ms));
  granted := least(most, floor(level));
  IF granted < 1 THEN
    granted := 0;
    wait_ms := (1 - level) * rate_ms / rate;
  END IF;
  IF granted > 0 OR had.at > now_at THEN
    UPDATE sluice.bucket b SET tokens = level - granted, at = now_at WHERE b.queue = queue AND b.tenant = tenant;
  END IF;
END
$$;

-- Gives back tokens that no message has used, and returns those tenants whose bucket somebody has locked: to be tried again.
CREATE FUNCTION sluice.return_tokens(queue text, tenants text[], counts integer[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  ours text[];
BEGIN
  ours := ARRAY(
    SELECT b.tenant FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = ANY (tenants)
    ORDER BY b.tenant FOR UPDATE OF b SKIP LOCKED
  );
  -- The burst bounds them when somebody takes some.
  UPDATE sluice.bucket b SET tokens = b.tokens + counts[array_position(tenants, b.tenant)]
  WHERE b.queue = queue AND b.tenant = ANY (ours);
  RETURN ARRAY(SELECT given.tenant FROM unnest(tenants) AS given (tenant) WHERE given.tenant <> ALL (ours));
END
$$;

-- How many messages there are to claim now, up to so many. Of messages with ordering keys it is not looked whether they are
-- due or held.
CREATE FUNCTION sluice.count_claimable(queue text, most integer) RETURNS integer
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

-- Tenants
-- How many messages of a tenant are due and seem to be in nobody's hands, up to so many.
CREATE FUNCTION sluice.count_of_tenant(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
        SELECT m.id FROM sluice.message m
        WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant = tenant AND m.priority = p.priority AND m.due_at <= now_at
          AND NOT sluice.in_progress(m.xmax)
        ORDER BY m.due_at, m.id LIMIT (SELECT most)
      ) m
      LIMIT (SELECT most)
    ) counted
  );
END
$$;

-- Locks due messages of a tenant, the lowest priority number first, then by due time: as sluice.lock_unkeyed, by
-- message_tenant_idx.
CREATE FUNCTION sluice.lock_of_tenant(queue text, tenant text, most integer) RETURNS bigint[]
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
CREATE FUNCTION sluice.untenanted(queue text, most integer) RETURNS bigint[]
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
    WHERE m.tenant IS NULL AND NOT sluice.in_progress(m.xmax)
    LIMIT most
  );
END
$$;

-- Locks messages without a tenant. Those with an ordering key and those without come first in turn, by chance.
CREATE FUNCTION sluice.lock_untenanted(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  keyed_first boolean := random() < 0.5;
  taken bigint[] := '{}';
  now_at timestamptz;
BEGIN
  IF keyed_first THEN
    taken := sluice.lock_keyed(queue, most);
  END IF;
  IF cardinality(taken) < most THEN
    now_at := clock_timestamp();
    taken := taken || ARRAY(
      SELECT m.id FROM unnest(sluice.untenanted(queue, most - cardinality(taken))) AS given (id) CROSS JOIN LATERAL (
        SELECT m.id FROM sluice.message m
        WHERE m.queue = queue AND m.id = given.id AND m.due_at <= now_at LIMIT 1
        FOR UPDATE OF m SKIP LOCKED
      ) m
    );
  END IF;
  IF NOT keyed_first AND cardinality(taken) < most THEN
    taken := taken || sluice.lock_keyed(queue, most - cardinality(taken));
  END IF;
  RETURN taken;
END
$$;

-- Which tenants a claim takes from, and how many messages of each at most. It goes in rotation, beginning behind `turn`:
-- from each tenant to the next by one descent of message_tenant_idx, which the loop reads one by one, so that it costs as
-- much as the tenants that it visits. Tenants that have nothing due cost little, and those that wait for their limit
-- more: after 200 of these it ends, and the next claim goes on there. One that asks for less than each could have gives
-- each the same share.
CREATE FUNCTION sluice.pick_tenants(
  queue text, most integer, settings sluice.queue, INOUT turn text, OUT tenants text[], OUT shares integer[],
  OUT wait_ms double precision, OUT wrapped boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  began text := turn;
  candidate text;
  room integer;
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
        AND (f.due_at <= clock_timestamp() OR sluice.count_of_tenant(queue, f.tenant, 1) > 0)
    LOOP
      token_wait := sluice.wait_of_tenant(queue, candidate, settings);
      room := 0;
      permit_wait := NULL;
      IF token_wait IS NULL THEN
        SELECT r.room, r.wait_ms INTO room, permit_wait FROM sluice.room_of_tenant(queue, candidate, most, settings) r;
      END IF;
      wait_ms := least(wait_ms, token_wait, permit_wait);
      IF room > 0 THEN
        tenants := tenants || candidate;
        shares := shares || room;
      ELSE
        waiting := waiting + 1;
      END IF;
      turn := candidate;
      EXIT WHEN cardinality(tenants) = most OR waiting = 200;
    END LOOP;
    EXIT WHEN cardinality(tenants) = most OR waiting = 200;
  END LOOP;
  IF waiting = 200 THEN
    wait_ms := least(wait_ms, 100);
  END IF;
  FOR at IN 1..cardinality(tenants) LOOP
    given := least(shares[at], (most + cardinality(tenants) - 1) / cardinality(tenants));
    IF settings.tenant_rate IS NOT NULL AND given > 0 THEN
      SELECT t.granted, t.wait_ms INTO given, token_wait FROM sluice.take_tokens(
        queue, tenants[at], given, settings.tenant_rate, coalesce(settings.tenant_rate_ms, 1000),
        coalesce(settings.tenant_rate_burst, settings.tenant_rate)
      ) t;
      wait_ms := least(wait_ms, token_wait);
    END IF;
    shares[at] := given;
  END LOOP;
END
$$;

-- In how many milliseconds a tenant has a token; null: it has one, or needs none. It looks, and locks nothing.
CREATE FUNCTION sluice.wait_of_tenant(queue text, tenant text, settings sluice.queue) RETURNS double precision
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
  FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant;
  RETURN CASE WHEN level < 1 THEN (1 - level) / rate END;
END
$$;

-- How many messages of a tenant may be claimed now: due, in nobody's hands, and with permits that seem to be free.
CREATE FUNCTION sluice.room_of_tenant(
  queue text, tenant text, most integer, settings sluice.queue, OUT room integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  room := sluice.count_of_tenant(queue, tenant, most);
  IF room > 0 AND settings.tenant_concurrency IS NOT NULL THEN
    SELECT least(room, f.free_count), f.wait_ms INTO room, wait_ms
    FROM sluice.fit_permits(queue, tenant, settings.tenant_concurrency, room) f;
  END IF;
END
$$;

-- What a claim may take, in a queue with limits; granted null: the queue has none. It takes the tokens, and makes rows of
-- permits, so it is run in a transaction of its own before that of the batch. Permits are taken by the claim itself.
-- tenants, shares: where tenants have limits, how many messages of each; the tenant '': of those without one, which have
-- their turn when `apart` is given. turn: where to begin; null: where the last claim of the queue ended; then where the
-- next one begins. wrapped: it has been round. wait_ms: nothing may begin
-- before that time is over; 0: somebody has locked what it needs. The settings are those without which a plan could read or sort a backlog.
CREATE FUNCTION sluice.prepare_claim(
  queue text, most integer, INOUT turn text, apart boolean, OUT granted integer, OUT wait_ms double precision,
  OUT permits boolean, OUT tokens boolean, OUT tenants text[], OUT shares integer[], OUT wrapped boolean
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
  granted := sluice.count_claimable(queue, least(most, settings.concurrency));
  IF granted > 0 AND settings.concurrency IS NOT NULL THEN
    SELECT f.wait_ms INTO wait_ms FROM sluice.fit_permits(queue, '', settings.concurrency, granted) f;
    IF wait_ms IS NOT NULL THEN
      granted := 0;
    END IF;
  END IF;
  IF granted > 0 AND settings.rate IS NOT NULL THEN
    SELECT t.granted, t.wait_ms INTO granted, wait_ms FROM sluice.take_tokens(
      queue, '', granted, settings.rate, coalesce(settings.rate_ms, 1000), coalesce(settings.rate_burst, settings.rate)
    ) t;
  END IF;
  IF granted = 0 OR settings.tenant_concurrency IS NULL AND settings.tenant_rate IS NULL THEN
    RETURN;
  END IF;
  taken := granted;
  SELECT p.granted, p.wait_ms, p.tenants, p.shares, p.turn, p.wrapped INTO granted, wait_ms, tenants, shares, turn, wrapped
  FROM sluice.share_out(queue, taken, turn, apart, settings) p;
  IF settings.rate IS NOT NULL AND granted < taken THEN
    PERFORM sluice.return_tokens(queue, ARRAY[''], ARRAY[taken - granted]);
  END IF;
END
$$;

-- Notes where a claim has ended among the tenants. Nobody waits: a transaction of an application that has claimed and goes on may
-- have the row. A worker, which goes on from its own last claim, notes it once a second, so that its claims write nothing.
CREATE FUNCTION sluice.note_turn(queue text, turn text, apart boolean, by_worker boolean) RETURNS void
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
  ELSIF sluice.lock_growth(queue, '') THEN
    INSERT INTO sluice.turn (queue, tenant, apart, noted_at)
    SELECT queue, turn, apart, now_at WHERE NOT EXISTS (SELECT FROM sluice.turn t WHERE t.queue = queue);
  END IF;
END
$$;

-- Shares a claim out among tenants, and messages without one.
CREATE FUNCTION sluice.share_out(
  queue text, most integer, INOUT turn text, apart boolean, settings sluice.queue, OUT granted integer,
  OUT wait_ms double precision, OUT tenants text[], OUT shares integer[], OUT wrapped boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  others boolean;
  by_worker boolean := turn IS NOT NULL;
BEGIN
  IF turn IS NULL THEN
    SELECT t.tenant, t.apart INTO turn, apart FROM sluice.turn t WHERE t.queue = queue;
  END IF;
  SELECT p.tenants, p.shares, p.turn, p.wait_ms, p.wrapped INTO tenants, shares, turn, wait_ms, wrapped
  FROM sluice.pick_tenants(queue, most, settings, coalesce(turn, '')) p;
  PERFORM sluice.note_turn(queue, turn, wrapped, by_worker);
  IF apart OR cardinality(tenants) = 0 THEN
    others := EXISTS (
      SELECT FROM (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 1) keyed
    ) OR sluice.untenanted(queue, 1) <> '{}';
    IF others THEN
      tenants := ''::text || tenants;
      shares := greatest(1, most / cardinality(tenants)) || shares;
    END IF;
  END IF;
  granted := least(most, (SELECT coalesce(sum(s), 0) FROM unnest(shares) AS s));
  IF granted > 0 THEN
    wait_ms := NULL;
  END IF;
END
$$;

-- Locks messages of tenants, and the permits that they need. surplus: more permits than messages.
CREATE FUNCTION sluice.lock_shares(
  queue text, most integer, tenants text[], shares integer[], OUT ids bigint[], OUT surplus boolean
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
    had := sluice.lock_permits(queue, '', most);
  END IF;
  ids := '{}';
  surplus := false;
  FOR at IN 1..cardinality(tenants) LOOP
    allowed := least(shares[at], had - cardinality(ids));
    CONTINUE WHEN allowed < 1;
    IF tenants[at] = '' THEN
      taken := sluice.lock_untenanted(queue, allowed);
    ELSE
      IF settings.tenant_concurrency IS NOT NULL THEN
        allowed := sluice.lock_permits(queue, tenants[at], allowed);
      END IF;
      taken := CASE WHEN allowed > 0 THEN sluice.lock_of_tenant(queue, tenants[at], allowed) ELSE '{}' END;
      surplus := surplus OR settings.tenant_concurrency IS NOT NULL AND cardinality(taken) < allowed;
    END IF;
    ids := ids || taken;
  END LOOP;
  surplus := surplus OR settings.concurrency IS NOT NULL AND cardinality(ids) < had;
END
$$;

-- Claims as objects
-- Whether a claim has to ask for permits or tokens.
CREATE FUNCTION sluice.is_limited(queue text) RETURNS boolean
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

-- Locks due messages for a claim or a pop, and the permits that they need. What else it locks is free at the end of its
-- transaction, which is short. Of what it meets, it removes what is not to be handed out.
CREATE FUNCTION sluice.lock_allowed(queue text, most integer, max_attempts integer, OUT ids bigint[], OUT met boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  prepared record;
  allowed integer;
BEGIN
  IF NOT sluice.is_limited(queue) THEN
    ids := sluice.lock_due(queue, most);
    met := ids <> '{}';
    ids := sluice.sift_locked(queue, ids, max_attempts);
    RETURN;
  END IF;
  ids := '{}';
  SELECT p.* INTO prepared FROM sluice.prepare_claim(queue, most, NULL, false) p;
  IF prepared.granted > 0 AND prepared.tenants IS NOT NULL THEN
    SELECT l.ids INTO ids FROM sluice.lock_shares(queue, prepared.granted, prepared.tenants, prepared.shares) l;
  ELSIF prepared.granted > 0 THEN
    allowed := CASE WHEN prepared.permits THEN sluice.lock_permits(queue, '', prepared.granted) ELSE prepared.granted END;
    ids := CASE WHEN allowed > 0 THEN sluice.lock_due(queue, allowed) ELSE '{}' END;
  END IF;
  met := ids <> '{}';
  ids := sluice.sift_locked(queue, ids, max_attempts);
  IF prepared.tokens AND cardinality(ids) < prepared.granted THEN
    PERFORM sluice.return_unused(queue, prepared.granted, prepared.tenants, prepared.shares, ids);
  END IF;
END
$$;

-- Gives back the tokens of a claim that has taken fewer messages.
CREATE FUNCTION sluice.return_unused(queue text, granted integer, tenants text[], shares integer[], taken bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice.return_tokens(queue, array_agg(unused.tenant), array_agg(unused.count))
  FROM (
    SELECT '' AS tenant, granted - cardinality(taken) AS count
    UNION ALL
    SELECT t.tenant, t.share - (
      SELECT count(*)::integer FROM unnest(taken) AS given (id) CROSS JOIN LATERAL (
        SELECT m.tenant FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
      ) m WHERE m.tenant = t.tenant
    )
    FROM unnest(tenants, shares) AS t (tenant, share) WHERE t.tenant <> ''
  ) unused
  WHERE unused.count > 0;
END
$$;

-- Gives the permits that a claim has locked to the messages that it has leased.
CREATE FUNCTION sluice.lease_allowed(queue text, ids bigint[], lease bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  owned record;
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.concurrency IS NOT NULL THEN
    PERFORM sluice.lease_permits(queue, '', ids, lease);
  END IF;
  IF settings.tenant_concurrency IS NOT NULL THEN
    FOR owned IN
      SELECT m.tenant, array_agg(given.id) AS ids FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
        SELECT m.tenant FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
      ) m
      WHERE m.tenant IS NOT NULL GROUP BY m.tenant
    LOOP
      PERFORM sluice.lease_permits(queue, owned.tenant, owned.ids, lease);
    END LOOP;
  END IF;
END
$$;

-- Maintenance
-- Deletes permits of tenants that have no messages, and their buckets once they are full again: a new one begins full.
CREATE FUNCTION sluice.prune_limits(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  locked tid[];
  permits integer;
  buckets integer;
BEGIN
  locked := ARRAY(
    SELECT o.ctid FROM sluice.permit o
    WHERE o.tenant <> '' AND NOT sluice.permit_taken(o.queue, o.message_id, o.lease) AND NOT EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.tenant IS NOT NULL AND m.tenant = o.tenant
    )
    LIMIT most FOR UPDATE OF o SKIP LOCKED
  );
  -- Once more, with a new snapshot: a lease may have been written into one since.
  DELETE FROM sluice.permit p
  WHERE p.ctid = ANY (locked) AND NOT sluice.permit_taken(p.queue, p.message_id, p.lease);
  GET DIAGNOSTICS permits = ROW_COUNT;
  DELETE FROM sluice.bucket b WHERE b.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.bucket o LEFT JOIN sluice.queue q ON q.queue = o.queue
    WHERE o.tenant <> '' AND NOT EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.tenant IS NOT NULL AND m.tenant = o.tenant
    ) AND (q.tenant_rate IS NULL
           OR coalesce(q.tenant_rate_burst, q.tenant_rate)::double precision * coalesce(q.tenant_rate_ms, 1000) / q.tenant_rate
              < extract(epoch FROM now_at - o.at)::double precision * 1000)
    LIMIT greatest(most - permits, 0) FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS buckets = ROW_COUNT;
  RETURN permits + buckets;
END
$$;

-- Views
CREATE VIEW sluice.limits AS
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), told AS (
  SELECT q.* FROM sluice.queue q
  WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL
), held AS (
  SELECT DISTINCT f.queue, f.id FROM sluice.in_flight f WHERE f.worker_alive IS NOT FALSE
), counted AS (
  SELECT m.queue, CASE WHEN grouping(m.tenant) = 1 THEN '' ELSE m.tenant END AS tenant,
         count(*) FILTER (WHERE held.id IS NOT NULL) AS in_flight,
         count(*) FILTER (WHERE held.id IS NULL AND m.due_at <= c.now AND coalesce(m.expires_at > c.now, true)) AS ready
  FROM told t CROSS JOIN clock c
  JOIN sluice.message m ON m.queue = t.queue
  LEFT JOIN held ON held.queue = m.queue AND held.id = m.id
  GROUP BY GROUPING SETS ((m.queue), (m.queue, m.tenant))
  HAVING grouping(m.tenant) = 1 OR m.tenant IS NOT NULL
), limited AS (
  SELECT t.queue, '' AS tenant, t.concurrency, t.rate, coalesce(t.rate_ms, 1000) AS rate_ms, coalesce(t.rate_burst, t.rate) AS burst
  FROM told t
  UNION ALL
  SELECT t.queue, c.tenant, t.tenant_concurrency, t.tenant_rate, coalesce(t.tenant_rate_ms, 1000), coalesce(t.tenant_rate_burst, t.tenant_rate)
  FROM told t JOIN counted c ON c.queue = t.queue AND c.tenant <> ''
  WHERE t.tenant_concurrency IS NOT NULL OR t.tenant_rate IS NOT NULL
)
SELECT l.queue, nullif(l.tenant, '') AS tenant, l.concurrency, coalesce(c.in_flight, 0) AS in_flight, l.rate,
       l.rate_ms * interval '1 millisecond' AS rate_interval, l.burst,
       CASE WHEN l.rate IS NOT NULL THEN coalesce(
         least(l.burst, b.tokens + greatest(0, extract(epoch FROM clock.now - b.at)::double precision * 1000 * l.rate / l.rate_ms)), l.burst
       ) END AS tokens,
       coalesce(c.ready, 0) AS ready
FROM limited l CROSS JOIN clock
LEFT JOIN counted c ON c.queue = l.queue AND c.tenant = l.tenant
LEFT JOIN sluice.bucket b ON b.queue = l.queue AND b.tenant = l.tenant;
COMMENT ON VIEW sluice.limits IS 'One row per queue with limits, and per tenant of it that has messages: what is allowed, and what is used of it.';
COMMENT ON COLUMN sluice.limits.queue IS 'The queue.';
COMMENT ON COLUMN sluice.limits.tenant IS 'The tenant. Null: the queue as a whole.';
COMMENT ON COLUMN sluice.limits.concurrency IS 'How many messages may be in flight. Null: no limit.';
COMMENT ON COLUMN sluice.limits.in_flight IS 'How many are, by the records of workers and claims.';
COMMENT ON COLUMN sluice.limits.rate IS 'How many messages may begin per interval. Null: no limit.';
COMMENT ON COLUMN sluice.limits.rate_interval IS 'The interval.';
COMMENT ON COLUMN sluice.limits.burst IS 'How many may begin at once after a pause.';
COMMENT ON COLUMN sluice.limits.tokens IS 'How many may begin now. Null: no limit.';
COMMENT ON COLUMN sluice.limits.ready IS 'Messages that are due and in nobody''s hands: with a limit that is used up, they wait for it.';

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 8, 1';
