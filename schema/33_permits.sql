-- Limits: how many messages of a queue, or of one of its tenants, are in flight at most, and how many begin per interval.
-- Nothing here is read or written for a queue whose row in sluice.queue has no limit.

-- Whether a lease has the permit. Not whether the lease has run out: until that is noted, or the message is taken, it may
-- be renewed.
CREATE FUNCTION sluice_private.permit_taken(queue text, message_id bigint, lease bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN message_id IS NOT NULL AND EXISTS (
    SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = message_id AND m.lease = lease
  );
END
$$;

-- How many messages of a queue (tenant '') or of one of its tenants may be in flight; null: any number. A tenant that is an
-- endpoint may have its own limit, which counts while the queue limits tenants. STABLE: in a statement it sees what that sees.
CREATE FUNCTION sluice_private.most_in_flight(queue text, tenant text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT CASE WHEN tenant = '' THEN q.concurrency WHEN q.tenant_concurrency IS NOT NULL THEN coalesce(
      (SELECT e.concurrency FROM sluice.endpoint e WHERE e.queue = queue AND e.name = tenant LIMIT 1), q.tenant_concurrency
    ) END
    FROM sluice.queue q WHERE q.queue = queue
  );
END
$$;

-- The highest number of a permit, 0 if there is none. Numbers begin at 1: there are no more rows than it says.
CREATE FUNCTION sluice_private.last_permit(queue text, tenant text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN coalesce((SELECT p.n FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant
    ORDER BY p.n DESC LIMIT 1), 0);
END
$$;

-- How many rows there are at most: counted only if the highest number exceeds most_rows.
CREATE FUNCTION sluice_private.count_permits(queue text, tenant text, most_rows integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice_private.last_permit(queue, tenant);
BEGIN
  RETURN CASE WHEN last_n <= most_rows THEN last_n
              ELSE (SELECT count(*) FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant) END;
END
$$;

-- Locks up to so many permits without a lease, and returns how many. The transaction keeps them until it ends.
--
-- There may be more rows than permits, after the limit was lowered: then there is none to take until
-- sluice_private.fit_permits has deleted as many. The limit, the number of rows and the rows to lock are of one snapshot:
-- the rows that are taken at any time are all among those that the newest snapshot has seen, so they are never more than the
-- limit of then. A lease may have been written into a row between that snapshot and the lock: the server asks for message_id
-- once more then. OFFSET 0 has most_in_flight called once, and not once for each l.most.
CREATE FUNCTION sluice_private.lock_permits(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN cardinality(ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL
      AND (SELECT sluice_private.count_permits(queue, tenant, l.most) <= l.most
           FROM (SELECT sluice_private.most_in_flight(queue, tenant) AS most OFFSET 0) l)
    ORDER BY p.lease, p.n
    LIMIT (SELECT most)
    FOR UPDATE OF p SKIP LOCKED
  ));
END
$$;

-- Writes the lease of claimed messages into as many permits. Those that the transaction has locked are among those without
-- a lease, so there are enough.
CREATE FUNCTION sluice_private.lease_permits(queue text, tenant text, ids bigint[], lease bigint) RETURNS void
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

-- One transaction at a time makes rows of a tenant. The others do not wait: a transaction of an application that has
-- claimed and goes on may have the lock. Tenants share 32 locks per queue, so that a claim of many does not fill the lock
-- table.
CREATE FUNCTION sluice_private.lock_growth(queue text, tenant text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN pg_try_advisory_xact_lock(746504, hashtext(queue) # (hashtext(tenant) & 31));
END
$$;

-- How many permits without a lease seem to be unlocked, up to so many.
CREATE FUNCTION sluice_private.count_free(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN cardinality(ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL AND NOT sluice_private.in_progress(p.xmax)
    ORDER BY p.lease, p.n LIMIT (SELECT most)
  ));
END
$$;

-- Makes up to so many permits, while there are fewer rows than the limit allows. With a new snapshot: the session that
-- had the lock before may have made some. Numbers that are missing below the limit come before higher ones.
CREATE FUNCTION sluice_private.make_permits(queue text, tenant text, most_rows integer, wanted integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice_private.last_permit(queue, tenant);
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

-- Locks the free permits that are too many.
CREATE FUNCTION sluice_private.lock_surplus(queue text, tenant text, surplus integer) RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  locked integer[];
BEGIN
  locked := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND NOT sluice_private.permit_taken(p.queue, p.message_id, p.lease)
    ORDER BY p.n DESC
    LIMIT (SELECT surplus)
    FOR UPDATE OF p SKIP LOCKED
  );
  RETURN ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (locked)
      AND NOT sluice_private.permit_taken(p.queue, p.message_id, p.lease)
  );
END
$$;

-- Empties those of the permits whose lease is gone, or has run out and is not being renewed: a renewal locks the message
-- first, and then compares the clock. Returns how many.
CREATE FUNCTION sluice_private.end_run_out(queue text, tenant text, numbers integer[]) RETURNS integer
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
  -- Not one that is locked by a batch that looked before the lease was written: nothing waits for a batch here.
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

-- Empties up to so many permits whose lease has ended, and returns how many. It begins at a number drawn by chance and goes
-- round, by blocks of 100 numbers: where some have ended it soon has as many. all_blocks: it ends when it has been round,
-- and otherwise behind the first block, because permits can be made.
CREATE FUNCTION sluice_private.empty_permits(queue text, tenant text, wanted integer, last_n integer, all_blocks boolean)
RETURNS integer
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
             WHERE m.queue = queue AND m.id = p.message_id AND m.lease = p.lease
               AND m.due_at > clock_timestamp() LIMIT 1) IS NULL
      LIMIT (SELECT wanted - emptied)
    );
    IF ended <> '{}' THEN
      emptied := emptied + sluice_private.end_run_out(queue, tenant, ended);
    END IF;
    EXIT WHEN emptied >= wanted;
  END LOOP;
  RETURN emptied;
END
$$;

-- Makes the rows of permits fit the limit, and empties those whose lease has ended. Run it in a transaction of its
-- own: in that of a batch, others would wait for the batch. free_count: about how many are free; wait_ms: 0 if none is and
-- another transaction makes some. Where there are permits without a lease it reads no others.
CREATE FUNCTION sluice_private.fit_permits(
  queue text, tenant text, most_rows integer, wanted integer, OUT free_count integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice_private.last_permit(queue, tenant);
  row_count integer := sluice_private.count_permits(queue, tenant, most_rows);
  surplus integer[];
BEGIN
  IF row_count > most_rows THEN
    free_count := 0;
    PERFORM sluice_private.empty_permits(queue, tenant, row_count, last_n, true);
    surplus := sluice_private.lock_surplus(queue, tenant, row_count - most_rows);
    DELETE FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (surplus);
    RETURN;
  END IF;
  free_count := sluice_private.count_free(queue, tenant, wanted);
  IF free_count < wanted AND last_n > 0 THEN
    free_count := free_count + sluice_private.empty_permits(queue, tenant, wanted - free_count,
      last_n, row_count >= most_rows);
  END IF;
  IF free_count < wanted AND row_count >= most_rows THEN
    -- Numbers may be missing.
    SELECT count(*) INTO row_count FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant;
  END IF;
  IF free_count < wanted AND row_count < most_rows THEN
    IF sluice_private.lock_growth(queue, tenant) THEN
      free_count := free_count + sluice_private.make_permits(queue, tenant, most_rows, wanted - free_count);
    ELSIF free_count = 0 THEN
      wait_ms := 0;
    END IF;
  END IF;
END
$$;

-- Renews leases of a queue with permits. One that has run out is not renewed, because another lease may have its permit
-- by now: the clock is read with the rows locked. Returns those that are renewed.
CREATE FUNCTION sluice_private.renew_permitted(queue text, ids bigint[], leases bigint[], ms double precision)
RETURNS SETOF bigint
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
  WHERE m.ctid = ANY (sluice_private.ctids_of(queue, locked)) AND m.due_at > now_at
  RETURNING m.id;
END
$$;

-- Takes up to so many tokens; wait_ms: in how long there is one, if there is none. It does not wait for a bucket that is
-- locked, because a transaction of an application may have it, by sluice.claim or sluice.pop: wait_ms is 0 then, and the
-- caller tries again in a moment. The server's clock alone fills it. If that was set back, the bucket fills from then on.
CREATE FUNCTION sluice_private.take_tokens(
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
       AND sluice_private.lock_growth(queue, tenant) THEN
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
  level := least(burst,
    had.tokens + greatest(0, extract(epoch FROM now_at - had.at)::double precision * 1000 * rate / rate_ms));
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

-- Gives back tokens that no message has used, and returns those tenants whose bucket is locked: to be tried again.
CREATE FUNCTION sluice_private.return_tokens(queue text, tenants text[], counts integer[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  ours text[];
BEGIN
  ours := ARRAY(
    SELECT b.tenant FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = ANY (tenants)
    ORDER BY b.tenant FOR UPDATE OF b SKIP LOCKED
  );
  -- The burst bounds them when they are taken.
  UPDATE sluice.bucket b SET tokens = b.tokens + counts[array_position(tenants, b.tenant)]
  WHERE b.queue = queue AND b.tenant = ANY (ours);
  RETURN ARRAY(SELECT given.tenant FROM unnest(tenants) AS given (tenant) WHERE given.tenant <> ALL (ours));
END
$$;

-- Deletes permits of tenants that have no messages, and their buckets once they are full again: a new one begins full.
CREATE FUNCTION sluice_private.prune_limits(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  locked tid[];
  permits integer;
  buckets integer;
BEGIN
  locked := ARRAY(
    SELECT o.ctid FROM sluice.permit o
    WHERE o.tenant <> '' AND NOT sluice_private.permit_taken(o.queue, o.message_id, o.lease) AND NOT EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.tenant IS NOT NULL AND m.tenant = o.tenant
    )
    LIMIT most FOR UPDATE OF o SKIP LOCKED
  );
  -- Once more, with a new snapshot: a lease may have been written into one since.
  DELETE FROM sluice.permit p
  WHERE p.ctid = ANY (locked) AND NOT sluice_private.permit_taken(p.queue, p.message_id, p.lease);
  GET DIAGNOSTICS permits = ROW_COUNT;
  DELETE FROM sluice.bucket b WHERE b.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.bucket o LEFT JOIN sluice.queue q ON q.queue = o.queue
    WHERE o.tenant <> '' AND NOT EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.tenant IS NOT NULL AND m.tenant = o.tenant
    ) AND (q.tenant_rate IS NULL
           OR coalesce(q.tenant_rate_burst, q.tenant_rate)::double precision
              * coalesce(q.tenant_rate_ms, 1000) / q.tenant_rate
              < extract(epoch FROM now_at - o.at)::double precision * 1000)
    LIMIT greatest(most - permits, 0) FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS buckets = ROW_COUNT;
  RETURN permits + buckets;
END
$$;
