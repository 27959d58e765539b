-- Settles messages that a transaction has locked: removes them, keeps them in the history, makes them due later, or moves
-- them to the dead letters.

-- The rows of messages, looked up one by one in the primary key: by an array of ids, servers before version 17 may read the
-- whole queue. Without a search_path, so that it becomes part of the query that calls it.
CREATE FUNCTION sluice_private.rows_of(queue text, ids bigint[]) RETURNS SETOF sluice.message
LANGUAGE sql STABLE AS $$
  SELECT m.* FROM pg_catalog.unnest(ids) AS given (id) CROSS JOIN LATERAL (
    SELECT m.* FROM sluice.message m
    WHERE m.queue OPERATOR(pg_catalog.=) rows_of.queue AND m.id OPERATOR(pg_catalog.=) given.id LIMIT 1
  ) m
$$;

-- The lease of a message that is not in flight any more: 0 where it closes its ordering key for the later messages until it
-- is settled. A claim that took the message behind it as well would lock that one without handling it, and an enqueue with
-- its dedupe key would find it in flight and add another one. 0 also where it may expire: whoever makes it due sooner must not
-- take a part of its life away, as of one that has not been tried. Without a search_path, as rows_of.
CREATE FUNCTION sluice_private.idle_lease(slot smallint, lease bigint, dedupe_key text, expires_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN slot IS NULL AND expires_at IS NOT NULL OR slot IS NOT NULL AND (lease IS NOT NULL OR dedupe_key IS NOT NULL)
    THEN 0::bigint END
$$;

-- Why a message dies that has no attempt left.
CREATE FUNCTION sluice_private.spent_reason(tries integer, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- The limit may have been lowered, and the death of a process counts as well.
  RETURN CASE WHEN tries > most
    THEN format('failed %s attempts, and %s %s allowed', tries, most, CASE WHEN most = 1 THEN 'is' ELSE 'are' END)
    ELSE format('failed %s of %s attempts', tries, most) END;
END
$$;

-- What is recorded as the error of a message whose claim ran out.
CREATE FUNCTION sluice_private.ran_out(lease bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN format('Claim %s ran out before the message was settled', -lease);
END
$$;

-- Where the rows of messages are. The caller has locked them, so they stay there.
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
  RETURN EXISTS (SELECT FROM sluice_private.rows_of(queue, ids) m WHERE m.slot IS NOT NULL);
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
  INSERT INTO sluice.kept_key (queue, key, message_id, until)
  SELECT queue, k.key, k.id, now_at + least(k.ms, 3155760000000) * interval '1 millisecond'
  FROM unnest(ids, keys, ms) AS k (id, key, ms);
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('kept_key', queue, cardinality(ids), taken);
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
    SELECT m.queue, m.id, now_at, coalesce(claimed_at, now_at), claim_id, m.priority, m.ordering_key, m.type,
           m.schema_version, m.payload, m.headers, sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1, m.max_attempts,
           m.enqueued_at, m.failed_at, m.last_error, m.retry_policy, m.tenant, m.dedupe_key
    FROM sluice_private.rows_of(queue, ids) m;
    GET DIAGNOSTICS taken = ROW_COUNT;
    PERFORM sluice_private.require_kept('completed_message', queue, cardinality(ids), taken);
  END IF;
  PERFORM sluice_private.remove_locked(queue, ids, true, kept_for);
END
$$;

-- Makes a dead letter of a row that is, or will be, removed; attempt: how many tries have failed. Returns its id, or no row
-- if the table has not taken it.
CREATE FUNCTION sluice_private.bury_row(m sluice.message, attempt integer, reason text, error text, details jsonb)
RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN QUERY
  INSERT INTO sluice.dead_letter
    (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason, error,
     failures, enqueued_at, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position)
  VALUES (
    m.queue, m.id, m.priority, m.ordering_key, m.type, m.schema_version, m.payload, m.headers, attempt,
    m.max_attempts, reason,
    -- One that has expired was in no try: how the last one failed still says why it is here.
    coalesce(error, CASE WHEN reason = 'expired' THEN m.last_error END),
    sluice_private.add_failure(m.failures, attempt, coalesce(error, reason), details, clock_timestamp()),
    m.enqueued_at, m.retry_policy, m.lease_ms, m.tenant, m.dedupe_key, m.dedupe_ms, m.event_position
  ) RETURNING dead_letter.id;
END
$$;

-- Moves locked messages to the dead letters; attempts: how many tries of each have failed.
CREATE FUNCTION sluice_private.dead_letter_locked(queue text, ids bigint[], attempts integer[], reasons text[], errors text[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  buried bigint[];
BEGIN
  buried := ARRAY(
    SELECT sluice_private.bury_row(m, d.attempt, d.reason, d.error, NULL)
    FROM unnest(ids, attempts, reasons, errors) AS d (id, attempt, reason, error)
    CROSS JOIN LATERAL sluice_private.rows_of(queue, ARRAY[d.id]) m
  );
  PERFORM sluice_private.require_settled('dead_letter', queue, ids, buried);
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
  RETURN CASE WHEN delay = 0 THEN 0 WHEN (tries - 1) * ln(factor) > 100 THEN longest
    ELSE least(longest, delay * factor ^ (tries - 1)) END
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
                        ELSE sluice_private.add_failure(m.failures,
                          sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1, error, NULL, now_at) END,
        failed_at = CASE WHEN error IS NULL THEN m.failed_at ELSE now_at END,
        lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at)
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id
  )
  SELECT array_agg(p.id) INTO touched FROM postponed p;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
END
$$;

-- Fails locked messages of a claim: buries those that have no attempt left, and gives the others their next due time.
-- Without a delay the policy of a message decides, of those that are given by name; then the queue's setting: not sooner than
-- at_least. Returns those that are buried.
CREATE FUNCTION sluice_private.fail_locked(
  queue text, ids bigint[], max_attempts integer, delay interval, at_least interval, error text, retry jsonb, policies jsonb
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
         array_agg(sluice_private.spent_reason(m.tries, m.most)) FILTER (WHERE m.tries >= m.most),
         array_agg(m.id) FILTER (WHERE m.tries < m.most),
         array_agg(now_at + coalesce(delay, greatest(at_least, sluice_private.retry_after(coalesce(
           policies -> m.retry_policy, CASE jsonb_typeof(retry) WHEN 'string' THEN policies -> (retry #>> '{}')
                                                               ELSE retry END
         ), m.tries)))) FILTER (WHERE m.tries < m.most)
  INTO spent, attempts, reasons, others, dues
  FROM (
    SELECT m.id, m.retry_policy, coalesce(m.max_attempts, max_attempts) AS most,
           sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1 AS tries
    FROM sluice_private.rows_of(queue, ids) m OFFSET 0 -- a fence: counted once
  ) m;
  IF spent IS NOT NULL THEN
    PERFORM sluice_private.dead_letter_locked(queue, spent, attempts, reasons, ARRAY(SELECT error FROM unnest(spent)));
  END IF;
  IF others IS NOT NULL THEN
    PERFORM sluice_private.postpone_locked(queue, others, dues, error);
  END IF;
  RETURN coalesce(spent, '{}');
END
$$;

-- Buries locked messages of a claim, whose try this was.
CREATE FUNCTION sluice_private.dead_letter_claimed(queue text, ids bigint[], reason text, error text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.dead_letter_locked(
    queue, array_agg(m.id), array_agg(sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1), array_agg(reason),
    array_agg(error)
  ) FROM sluice_private.rows_of(queue, ids) m;
END
$$;

-- Ends leases of locked messages that have run out: what their holders settle after a change finds nothing. A worker's
-- counts as evidence, and a claim's as a failed attempt.
CREATE FUNCTION sluice_private.end_leases(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  run_out bigint[] := ARRAY(SELECT m.id FROM sluice_private.rows_of(queue, ids) m WHERE m.lease <> 0);
BEGIN
  IF run_out <> '{}' THEN
    PERFORM sluice_private.record_hung(queue, m.id, m.lease, sluice_private.has_one_message((m.lease >> 32)::integer))
    FROM sluice_private.rows_of(queue, run_out) m WHERE m.lease > 0;
    UPDATE sluice.message m
    SET lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at),
        attempt = CASE WHEN m.lease < 0 THEN m.attempt + 1 ELSE m.attempt END,
        last_error = CASE WHEN m.lease < 0 THEN sluice_private.ran_out(m.lease) ELSE m.last_error END,
        failures = CASE WHEN m.lease < 0
                        THEN sluice_private.add_failure(m.failures, m.attempt + 1,
                          sluice_private.ran_out(m.lease), NULL, m.due_at)
                        ELSE m.failures END,
        failed_at = CASE WHEN m.lease < 0 THEN m.due_at ELSE m.failed_at END
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, run_out));
  END IF;
END
$$;

-- Removes locked messages whose life has ended, or makes dead letters of them, as the queue's setting says.
CREATE FUNCTION sluice_private.expire_locked(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.on_expiry = 'dead_letter') THEN
    PERFORM sluice_private.dead_letter_locked(queue, array_agg(m.id), array_agg(m.attempt), array_agg('expired'::text), NULL)
    FROM sluice_private.rows_of(queue, ids) m;
  ELSE
    PERFORM sluice_private.remove_locked(queue, ids);
  END IF;
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
