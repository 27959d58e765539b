-- Removes what is too old or left behind. Each call is one bounded step of one task, with the rights of the owner, so
-- that a role that may call it needs no right on the tables. None waits for a row that is locked.
--
-- Public functions: sluice.remove_expired, sluice.prune_leftovers.

-- From queue to queue by message_expires_idx, which has the messages of each in the order in which they expire. A message
-- in flight is locked, or, leased or claimed, due later. A message that waits for a retry goes when it is due.
CREATE FUNCTION sluice.remove_expired(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  in_queue text := '';
  ids bigint[];
  total integer := 0;
BEGIN
  PERFORM sluice_private.check_isolation();
  PERFORM sluice_private.check_most(most);
  LOOP
    in_queue := (
      SELECT m.queue FROM sluice.message m WHERE m.expires_at IS NOT NULL AND m.queue > in_queue
      ORDER BY m.queue, m.expires_at LIMIT 1
    );
    EXIT WHEN in_queue IS NULL OR total >= most;
    ids := ARRAY(
      SELECT m.id FROM sluice.message m
      WHERE m.queue = in_queue AND m.expires_at IS NOT NULL AND m.expires_at <= now_at AND m.due_at <= now_at
        -- A claim that has the slot would wait for a row that is locked without it.
        AND (m.slot IS NULL
             OR EXISTS (SELECT FROM sluice.slot s
               WHERE s.queue = in_queue AND s.slot = m.slot FOR NO KEY UPDATE OF s SKIP LOCKED)
             OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = in_queue AND s.slot = m.slot))
      ORDER BY m.queue, m.expires_at LIMIT most - total FOR UPDATE OF m SKIP LOCKED
    );
    CONTINUE WHEN ids = '{}';
    PERFORM sluice_private.expire_locked(in_queue, ids);
    -- Those that waited for their keys, or in a queue in order, may be claimed now.
    PERFORM sluice_private.wake(in_queue);
    total := total + cardinality(ids);
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.remove_expired IS
  'Drops expired messages that are not in flight, or moves them to the dead letters, as their queue''s on_expiry says. '
  'Returns how many.';

-- What is left behind: claims that have been over for an hour, of queues without new claims, evidence about messages that
-- are gone, requests to cancel that are an hour old, permits and buckets of tenants that have no messages, what workers did
-- two days ago, the ids that were noted then, and actions that are older than they are kept.
CREATE FUNCTION sluice.prune_leftovers(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  before timestamptz := clock_timestamp() - interval '1 hour';
  claims integer;
  crashes integer;
  requests integer;
  removed integer;
BEGIN
  PERFORM sluice_private.check_most(most);
  DELETE FROM sluice.claim c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.claim o WHERE o.expires_at <= before LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS claims = ROW_COUNT;
  DELETE FROM sluice.crash c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.crash o
    -- A number below zero is the position of an event.
    WHERE CASE WHEN o.message_id < 0 THEN o.crashed_at < clock_timestamp() - interval '7 days'
               ELSE NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.id = o.message_id) END
    LIMIT most - claims FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS crashes = ROW_COUNT;
  DELETE FROM sluice.cancel_request c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.cancel_request o WHERE o.asked_at <= before
    LIMIT most - claims - crashes FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS requests = ROW_COUNT;
  removed := claims + crashes + requests;
  removed := removed + sluice_private.prune_limits(most - removed);
  removed := removed + sluice_private.prune_activity(most - removed);
  removed := removed + sluice_private.prune_id_marks(most - removed);
  RETURN removed + sluice_private.prune_actions(most - removed);
END
$$;
COMMENT ON FUNCTION sluice.prune_leftovers IS
  'Deletes claims that expired an hour ago, crash counts of messages that are gone, requests to cancel that are an hour '
  'old, limit records of tenants without messages, what workers did two days ago, ids noted two days ago, and actions '
  'older than they are kept. Returns how many.';
