-- Steps of claims as objects: messages that a client claims under a time limit, and settles later by the claim's number.

-- Fails unless an outcome has what it needs, and nothing else.
CREATE FUNCTION sluice_private.check_outcome(
  outcome text, delay interval, at_least interval, reason text, error text, dedupe_for interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF outcome IS NULL OR outcome NOT IN ('ack', 'retry', 'snooze', 'dead_letter') THEN
    RAISE EXCEPTION 'outcome: expected ack, retry, snooze or dead_letter, received %', quote_nullable(left(outcome, 80))
      USING ERRCODE = '22023', HINT = 'Leave it out for ack.';
  END IF;
  IF outcome = 'snooze' AND delay IS NULL OR outcome IN ('ack', 'dead_letter') AND delay IS NOT NULL THEN
    RAISE EXCEPTION 'delay: expected with snooze, or with retry, received % with %', coalesce(delay::text, 'NULL'), outcome
      USING ERRCODE = '22023', HINT = 'As in outcome => ''snooze'', delay => interval ''5 minutes''.';
  END IF;
  PERFORM sluice_private.check_time('delay', delay, 'Zero delivers at once.');
  IF at_least IS NOT NULL AND (outcome <> 'retry' OR delay IS NOT NULL) THEN
    RAISE EXCEPTION 'at_least: expected with retry and without a delay, received % with %',
      at_least, concat_ws(' and delay ', outcome, delay)
      USING ERRCODE = '22023', HINT = 'A delay replaces the retry policy, and at_least does not.';
  END IF;
  PERFORM sluice_private.check_time('at_least', at_least, 'Zero leaves the time to the retry policy.');
  IF (outcome = 'dead_letter') <> (reason IS NOT NULL) THEN
    RAISE EXCEPTION 'reason: expected with dead_letter, received % with %', quote_nullable(left(reason, 80)), outcome
      USING ERRCODE = '22023', HINT = 'As in outcome => ''dead_letter'', reason => ''card expired''.';
  END IF;
  IF outcome <> 'ack' AND dedupe_for IS NOT NULL THEN
    RAISE EXCEPTION 'dedupe_for: expected with ack, received % with %', dedupe_for, outcome
      USING ERRCODE = '22023', HINT = 'Only the key of a message that has succeeded is kept.';
  END IF;
  PERFORM sluice_private.check_time('dedupe_for', dedupe_for, 'Zero frees the key at once.');
  IF outcome IN ('ack', 'snooze') AND error IS NOT NULL THEN
    RAISE EXCEPTION 'error: expected with retry or dead_letter, received % with %', quote_nullable(left(error, 80)), outcome
      USING ERRCODE = '22023', HINT = 'As in outcome => ''retry'', error => ''the shop is closed''.';
  END IF;
END
$$;

-- Fails once a claim has expired: from then on others may have its messages.
CREATE FUNCTION sluice_private.require_unexpired(held sluice.claim) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF clock_timestamp() >= held.expires_at THEN
    RAISE EXCEPTION 'Claim % of queue "%": expected one that has not expired, received one that expired at %',
      held.id, held.queue, to_char(held.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      USING ERRCODE = 'SL011', HINT = 'Its messages are free for others. Claim with a longer lease, or renew in time.';
  END IF;
END
$$;

-- Locks messages for a claim or a pop. Those among them that are not to be handed out are removed: they use no tokens. One
-- that comes upon more than about 100,000 expired messages returns none although there may be others: what it has done so
-- far is to last.
CREATE FUNCTION sluice_private.lock_claimable(queue text, most integer, max_attempts integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  taken bigint[];
  met boolean;
BEGIN
  FOR round IN 1..100 LOOP
    SELECT l.ids, l.met INTO taken, met FROM sluice_private.lock_allowed(queue, most, max_attempts) l;
    EXIT WHEN taken <> '{}' OR NOT met;
    PERFORM sluice_private.expire_due(queue);
  END LOOP;
  RETURN taken;
END
$$;

-- The due times of locked messages, in their order.
CREATE FUNCTION sluice_private.due_ats_of(queue text, ids bigint[]) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN ARRAY(
    SELECT m.due_at FROM unnest(ids) WITH ORDINALITY AS given (id, ordinal) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) m
    ORDER BY given.ordinal
  );
END
$$;

-- Leases locked messages to a claim, which moves their due time to its end. A message whose life would end before
-- lives_until lives until then.
CREATE FUNCTION sluice_private.lease_locked(
  queue text, ids bigint[], claim_id bigint, expires_at timestamptz, lives_until timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
BEGIN
  WITH leased AS (
    UPDATE sluice.message m
    SET due_at = expires_at, lease = -claim_id,
        expires_at = CASE WHEN m.expires_at < lives_until THEN lives_until ELSE m.expires_at END
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id
  )
  SELECT array_agg(l.id) INTO touched FROM leased l;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
END
$$;

-- What the claimer of messages sees of them; claim_id null: the session that has locked them.
CREATE FUNCTION sluice_private.claimed_rows(queue text, claim_id bigint, ids bigint[]) RETURNS TABLE (
  id bigint, attempt integer, payload jsonb, headers jsonb, type text, schema_version integer, ordering_key text,
  priority smallint, enqueued_at timestamptz, due_at timestamptz, own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN QUERY
  -- A claim that has run out is a failed try, which a new claim has counted by now, and pop has not.
  SELECT m.id,
         sluice_private.failed_tries(m.queue, m.id, m.attempt)
           + CASE WHEN claim_id IS NULL AND m.lease < 0 THEN 2 ELSE 1 END,
         -- RETURN QUERY takes no value of a domain for one of its base type.
         m.payload, m.headers, m.type::text, m.schema_version::integer, m.ordering_key::text, m.priority::smallint,
         m.enqueued_at, m.due_at::timestamptz, m.max_attempts::integer, m.tenant::text, m.dedupe_key::text,
         m.expires_at::timestamptz
  FROM unnest(ids) WITH ORDINALITY AS given (id, ordinal) CROSS JOIN LATERAL (
    SELECT m.* FROM sluice.message m
    WHERE m.queue = queue AND m.id = given.id AND (m.lease = -claim_id OR claim_id IS NULL) LIMIT 1
  ) m
  ORDER BY given.ordinal;
END
$$;

-- Deletes claims of the queue that have been over for an hour, a few at a time and none that is locked. Until then a call
-- with their number fails because they are over.
CREATE FUNCTION sluice_private.prune_claims(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  before timestamptz := clock_timestamp() - interval '1 hour';
BEGIN
  DELETE FROM sluice.claim c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.claim o WHERE o.queue = queue AND o.expires_at <= before
    ORDER BY o.expires_at LIMIT 10 FOR UPDATE OF o SKIP LOCKED
  ));
END
$$;

-- Locks a claim until the transaction ends, so that settling, renewing and releasing come one after another.
CREATE FUNCTION sluice_private.hold_claim(queue text, claim_id bigint) RETURNS sluice.claim
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
BEGIN
  SELECT c.* INTO held FROM sluice.claim c WHERE c.queue = queue AND c.id = claim_id FOR UPDATE;
  IF held.id IS NULL THEN
    RAISE EXCEPTION 'Claim % of queue "%": expected one that has messages, received one that is unknown, settled or '
      'released',
      coalesce(claim_id::text, 'NULL'), queue USING ERRCODE = 'SL010', HINT = 'Claim again.';
  END IF;
  PERFORM sluice_private.require_unexpired(held);
  RETURN held;
END
$$;

-- Locks those of the messages that are the claim's. It waits: a batch of a transactional pipeline that looked before the
-- claim was committed keeps a row locked that it found to be leased, until it ends.
CREATE FUNCTION sluice_private.lock_claimed(held sluice.claim, ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(
    SELECT m.id FROM (SELECT DISTINCT given.id FROM unnest(ids) AS given (id) ORDER BY given.id) given CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m WHERE m.queue = held.queue AND m.id = given.id AND m.lease = -held.id LIMIT 1
      FOR UPDATE OF m
    ) m
  );
END
$$;

-- Deletes a claim that has no message left. The last ones first: they are settled last.
CREATE FUNCTION sluice_private.close_claim(held sluice.claim) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  FOR ordinal IN REVERSE cardinality(held.message_ids)..1 LOOP
    IF EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = held.queue AND m.id = held.message_ids[ordinal] AND m.lease = -held.id
    ) THEN
      RETURN;
    END IF;
  END LOOP;
  DELETE FROM sluice.claim c WHERE c.queue = held.queue AND c.id = held.id;
END
$$;
