-- Settles messages that a transaction has locked: removes them, keeps them in the history, makes them due later, or moves them
-- to the dead letters.

-- How many tries of a message have failed: those that its row has, and those that the evidence about it shows. crash_pkey
-- is nearly always empty.
CREATE FUNCTION sluice_private.failed_tries(queue text, message_id bigint, attempt integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT least(greatest(attempt + count(*) FILTER (WHERE c.kind <> 'lost'), max(c.attempt)), 2147483646)
    FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id
  );
END
$$;

-- What is recorded as the error of a message whose claim ran out.
CREATE FUNCTION sluice_private.ran_out(lease bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN format('Claim %s ran out before the message was settled', -lease);
END
$$;

-- Where the rows of messages are, looked up one by one in the primary key: by an array of ids, servers before version 17
-- may read the whole queue. The caller has locked the rows, so they stay where they are.
CREATE FUNCTION sluice_private.ctids_of(queue text, ids bigint[]) RETURNS tid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN ARRAY(
    SELECT at.ctid FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.ctid FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) at
  );
END
$$;

-- Whether any of the messages has an ordering key: without them, the next one of the key may be claimed.
CREATE FUNCTION sluice_private.any_keyed(queue text, ids bigint[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (
    SELECT FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.slot FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) m
    WHERE m.slot IS NOT NULL
  );
END
$$;

-- A lease that ran out, of a worker: evidence, as where a leased pipeline claims.
CREATE FUNCTION sluice_private.record_hung(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
  SELECT queue, m.id, (m.lease >> 32)::integer, m.lease & 4294967295, 'hung',
         coalesce((SELECT w.name FROM sluice.worker w WHERE w.id = (m.lease >> 32)::integer), 'unknown'),
         coalesce((SELECT min(cardinality(b.message_ids)) = 1 AND count(*) = 1
                   FROM sluice.batch b WHERE b.worker_id = (m.lease >> 32)::integer), false)
  FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
    SELECT m.id, m.lease FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m
  WHERE m.lease > 0
  ON CONFLICT DO NOTHING;
END
$$;

-- Keeps the dedupe keys of messages that a claim has settled taken.
CREATE FUNCTION sluice_private.keep_keys(queue text, ids bigint[], keys text[], ms bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  taken bigint;
BEGIN
  INSERT INTO sluice.settled (queue, key, message_id, until)
  SELECT queue, k.key, k.id, now_at + least(k.ms, 3155760000000) * interval '1 millisecond'
  FROM unnest(ids, keys, ms) AS k (id, key, ms);
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('settled', queue, cardinality(ids), taken);
END
$$;

-- Removes locked messages. succeeded: their dedupe keys stay taken for as long as they ask for, or for kept_for.
CREATE FUNCTION sluice_private.remove_locked(
  queue text, ids bigint[], succeeded boolean DEFAULT false, kept_for interval DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
  kept_ids bigint[];
  kept_keys text[];
  kept_ms bigint[];
BEGIN
  WITH gone AS (
    DELETE FROM sluice.message m WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id, m.dedupe_key, coalesce(extract(epoch FROM kept_for) * 1000, m.dedupe_ms)::bigint AS for_ms
  )
  SELECT array_agg(g.id), array_agg(g.id) FILTER (WHERE g.dedupe_key IS NOT NULL AND g.for_ms > 0),
         array_agg(g.dedupe_key) FILTER (WHERE g.dedupe_key IS NOT NULL AND g.for_ms > 0),
         array_agg(g.for_ms) FILTER (WHERE g.dedupe_key IS NOT NULL AND g.for_ms > 0)
  INTO touched, kept_ids, kept_keys, kept_ms FROM gone g;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
  IF succeeded AND kept_ids IS NOT NULL THEN
    PERFORM sluice_private.keep_keys(queue, kept_ids, kept_keys, kept_ms);
  END IF;
  DELETE FROM sluice.crash c WHERE c.queue = queue AND c.message_id = ANY (ids);
END
$$;

-- Removes locked messages that have succeeded, and keeps them where the queue keeps its history. claimed_at null: now.
CREATE FUNCTION sluice_private.complete_locked(
  queue text, ids bigint[], claim_id bigint, claimed_at timestamptz, kept_for interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  taken bigint;
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.history_ms IS NOT NULL) THEN
    INSERT INTO sluice.completed_message
      (queue, id, completed_at, claimed_at, claim, priority, ordering_key, type, schema_version, payload, headers, attempt,
       max_attempts, enqueued_at, failed_at, last_error, retry_policy, tenant, dedupe_key)
    SELECT m.queue, m.id, now_at, coalesce(claimed_at, now_at), claim_id, m.priority, m.ordering_key, m.type, m.schema_version,
           m.payload, m.headers, sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1, m.max_attempts, m.enqueued_at, m.failed_at,
           m.last_error, m.retry_policy, m.tenant, m.dedupe_key
    FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.* FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) m;
    GET DIAGNOSTICS taken = ROW_COUNT;
    PERFORM sluice_private.require_kept('completed_message', queue, cardinality(ids), taken);
  END IF;
  PERFORM sluice_private.remove_locked(queue, ids, true, kept_for);
END
$$;

-- Moves locked messages to the dead letters; attempts: how many tries of each have failed.
CREATE FUNCTION sluice_private.bury_locked(queue text, ids bigint[], attempts integer[], reasons text[], errors text[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
BEGIN
  WITH buried AS (
    INSERT INTO sluice.dead_letter
      (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason, error, failures,
       enqueued_at, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position)
    SELECT m.queue, m.id, m.priority, m.ordering_key, m.type, m.schema_version, m.payload, m.headers, d.attempt, m.max_attempts,
           -- One that has expired was in no try: how the last one failed still says why it is here.
           d.reason, coalesce(d.error, CASE WHEN d.reason = 'expired' THEN m.last_error END),
           sluice_private.add_failure(m.failures, d.attempt, coalesce(d.error, d.reason), NULL, clock_timestamp()), m.enqueued_at,
           m.retry_policy, m.lease_ms, m.tenant, m.dedupe_key, m.dedupe_ms, m.event_position
    FROM unnest(ids, attempts, reasons, errors) AS d (id, attempt, reason, error) CROSS JOIN LATERAL (
      SELECT m.* FROM sluice.message m WHERE m.queue = queue AND m.id = d.id LIMIT 1
    ) m
    RETURNING dead_letter.id
  )
  SELECT array_agg(b.id) INTO touched FROM buried b;
  PERFORM sluice_private.require_settled('dead_letter', queue, ids, coalesce(touched, '{}'));
  PERFORM sluice_private.remove_locked(queue, ids);
END
$$;

-- After how long a message that has failed so often is tried again, by a policy of the form of sluice.queue.retry. Null:
-- after 1 s, 2 s, 4 s, ... 1 h, and a fifth of that is random.
CREATE FUNCTION sluice_private.retry_after(policy jsonb, tries integer) RETURNS interval
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  delay double precision := coalesce((policy ->> 'delay')::double precision, 1000);
  longest double precision := coalesce((policy ->> 'maxDelay')::double precision, greatest(3600000, delay));
  factor double precision := coalesce((policy ->> 'factor')::double precision, 2);
  jitter double precision := coalesce((policy ->> 'jitter')::double precision, 0.2);
BEGIN
  IF policy ->> 'kind' = 'fixed' THEN
    RETURN delay * interval '1 millisecond';
  END IF;
  -- A power that overflows would be an error.
  RETURN CASE WHEN delay = 0 THEN 0 WHEN (tries - 1) * ln(factor) > 100 THEN longest ELSE least(longest, delay * factor ^ (tries - 1)) END
         * (1 - jitter * random()) * interval '1 millisecond';
END
$$;

-- Gives locked messages another due time, and ends their lease. A message with an ordering key keeps 0: its key stays
-- closed for the later ones until it is settled. error null: nothing failed.
CREATE FUNCTION sluice_private.postpone_locked(queue text, ids bigint[], dues timestamptz[], error text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
  now_at timestamptz := clock_timestamp();
BEGIN
  WITH postponed AS (
    UPDATE sluice.message m
    -- An expired message that waits for its next try would keep its key from the later ones.
    SET due_at = least(dues[array_position(ids, m.id)], m.expires_at),
        attempt = CASE WHEN error IS NULL THEN m.attempt ELSE sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1 END,
        last_error = coalesce(error, m.last_error),
        failures = CASE WHEN error IS NULL THEN m.failures
                        ELSE sluice_private.add_failure(m.failures, sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1, error, NULL, now_at) END,
        failed_at = CASE WHEN error IS NULL THEN m.failed_at ELSE now_at END,
        lease = CASE WHEN m.slot IS NOT NULL THEN 0 END
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id
  )
  SELECT array_agg(p.id) INTO touched FROM postponed p;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
END
$$;

-- Fails locked messages of a claim: buries those that have no attempt left, and gives the others their next due time.
-- Without a delay the policy of a message decides, of those that are given by name; then the queue's setting. Returns
-- those that are buried.
CREATE FUNCTION sluice_private.fail_locked(
  queue text, ids bigint[], max_attempts integer, delay interval, error text, retry jsonb, policies jsonb
) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  spent bigint[];
  attempts integer[];
  reasons text[];
  others bigint[];
  dues timestamptz[];
BEGIN
  SELECT array_agg(m.id) FILTER (WHERE m.tries >= m.most), array_agg(m.tries) FILTER (WHERE m.tries >= m.most),
         array_agg(format('failed %s of %s attempts', m.tries, m.most)) FILTER (WHERE m.tries >= m.most),
         array_agg(m.id) FILTER (WHERE m.tries < m.most),
         array_agg(now_at + coalesce(delay, sluice_private.retry_after(coalesce(
           policies -> m.retry_policy, CASE jsonb_typeof(retry) WHEN 'string' THEN policies -> (retry #>> '{}') ELSE retry END
         ), m.tries))) FILTER (WHERE m.tries < m.most)
  INTO spent, attempts, reasons, others, dues
  FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
    SELECT m.id, coalesce(m.max_attempts, max_attempts) AS most, sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1 AS tries,
           m.retry_policy
    FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m;
  IF spent IS NOT NULL THEN
    PERFORM sluice_private.bury_locked(queue, spent, attempts, reasons, ARRAY(SELECT error FROM unnest(spent)));
  END IF;
  IF others IS NOT NULL THEN
    PERFORM sluice_private.postpone_locked(queue, others, dues, error);
  END IF;
  RETURN coalesce(spent, '{}');
END
$$;

-- Buries locked messages of a claim, whose try this was.
CREATE FUNCTION sluice_private.bury_claimed(queue text, ids bigint[], reason text, error text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  tries integer[];
BEGIN
  SELECT array_agg(sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1 ORDER BY given.place) INTO tries
  FROM unnest(ids) WITH ORDINALITY AS given (id, place) CROSS JOIN LATERAL (
    SELECT m.queue, m.id, m.attempt FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m;
  PERFORM sluice_private.bury_locked(
    queue, ids, tries, array_fill(reason, ARRAY[cardinality(ids)]), array_fill(error, ARRAY[cardinality(ids)])
  );
END
$$;

-- A lease that has run out is over: what its holder settles after a change finds nothing. It counts as where it is claimed.
CREATE FUNCTION sluice_private.end_lease(m sluice.message) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF m.lease <> 0 THEN
    PERFORM sluice_private.record_hung(m.queue, ARRAY[m.id]);
    UPDATE sluice.message t
    SET lease = CASE WHEN t.slot IS NOT NULL THEN 0 END,
        attempt = CASE WHEN t.lease < 0 THEN t.attempt + 1 ELSE t.attempt END,
        last_error = CASE WHEN t.lease < 0 THEN sluice_private.ran_out(t.lease) ELSE t.last_error END,
        failures = CASE WHEN t.lease < 0 THEN sluice_private.add_failure(t.failures, t.attempt + 1, sluice_private.ran_out(t.lease), NULL, t.due_at)
                        ELSE t.failures END,
        failed_at = CASE WHEN t.lease < 0 THEN t.due_at ELSE t.failed_at END
    WHERE t.queue = m.queue AND t.id = m.id;
  END IF;
END
$$;

-- Removes locked messages whose life has ended, or makes dead letters of them, as the queue's setting says.
CREATE FUNCTION sluice_private.expire_locked(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  attempts integer[];
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.on_expiry = 'dead_letter') THEN
    PERFORM sluice_private.remove_locked(queue, ids);
    RETURN;
  END IF;
  SELECT array_agg(m.attempt ORDER BY given.place) INTO attempts
  FROM unnest(ids) WITH ORDINALITY AS given (id, place) CROSS JOIN LATERAL (
    SELECT m.attempt FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m;
  PERFORM sluice_private.bury_locked(
    queue, ids, attempts, array_fill('expired'::text, ARRAY[cardinality(ids)]), array_fill(NULL::text, ARRAY[cardinality(ids)])
  );
END
$$;

-- Ends messages that a worker has claimed and does not handle, because their life had ended when they were claimed, or
-- because they are cancelled: those of a batch, which its transaction has locked (leases null), and leased ones. Returns
-- those that it has found. Each is looked up in the primary key by itself.
CREATE FUNCTION sluice_private.drop_in_hand(queue text, ids bigint[], leases bigint[], expired boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  ours bigint[];
BEGIN
  ours := ARRAY(
    SELECT m.id
    FROM (SELECT g.id, g.lease FROM unnest(ids, leases) AS g (id, lease) ORDER BY g.id OFFSET 0) given CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND (leases IS NULL OR m.lease = given.lease) LIMIT 1
      FOR UPDATE OF m
    ) m
  );
  IF ours <> '{}' AND expired THEN
    PERFORM sluice_private.expire_locked(queue, ours);
  ELSIF ours <> '{}' THEN
    PERFORM sluice_private.remove_locked(queue, ours);
  END IF;
  RETURN ours;
END
$$;
