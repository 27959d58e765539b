-- Reasons of a message that somebody has, or had: a session, a worker, a claim.

-- A session has locked it. Where a live worker has recorded the message, and it is as it was then, that is the worker's
-- batch. A record alone says nothing: it may be of a batch that has just ended.
CREATE FUNCTION sluice_private.why_in_transaction(m sluice.message, holder integer) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  batch record;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.claimed_at, cardinality(b.message_ids) AS messages, w.name, w.host, w.pid INTO batch
  FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND m.due_at <= b.claimed_at
    AND m.attempt <= coalesce(b.attempts[array_position(b.message_ids, m.id)], 0)
  ORDER BY b.claimed_at DESC LIMIT 1;
  IF batch.name IS NOT NULL THEN
    RETURN NEXT sluice_private.say('in_flight',
      format('Worker %s (process %s on %s) has it in a transaction for %s: attempt %s, in a batch of %s.',
        sluice_private.quoted(batch.name), batch.pid, batch.host, sluice_private.span_words(batch.claimed_at),
        m.attempt + 1, batch.messages),
      since => batch.claimed_at,
      details => jsonb_build_object('worker', batch.name, 'host', batch.host, 'workerPid', batch.pid,
        'attempt', m.attempt + 1, 'batch', batch.messages),
      remedy => format('npx sluice message cancel %s %s', m.queue, m.id), pid => holder);
  ELSE
    RETURN NEXT sluice_private.say('locked',
      'A session has locked its row, and no live worker has recorded it: claims pass it over.',
      remedy => CASE holder WHEN 0 THEN 'SELECT gid, prepared FROM pg_prepared_xacts;'
        ELSE format('SELECT pg_terminate_backend(%s);', holder) END, pid => holder);
  END IF;
END
$$;

-- A worker that is gone has recorded that it had the message.
CREATE FUNCTION sluice_private.why_worker_gone(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id
  CROSS JOIN LATERAL sluice_private.say('worker_gone',
    format('Worker %s, which had it, is gone: it was last seen %s ago. The next look of a live worker counts that.',
      sluice_private.quoted(w.name), sluice_private.span_words(w.seen_at)),
    since => w.seen_at, details => jsonb_build_object('worker', w.name)) s
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND NOT w.alive LIMIT 1
$$;

-- It is in flight, and a cancel has been asked for. Requests are kept for an hour, so there are few.
CREATE FUNCTION sluice_private.why_cancel_asked(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT r.message_id, r.asked_at FROM sluice.cancel_request r WHERE r.queue = m.queue
    ORDER BY r.queue DESC, r.id DESC LIMIT 1000
  ) r CROSS JOIN LATERAL sluice_private.say('cancel_asked',
    format('A cancel was asked for %s ago: it is removed when its handler has ended.',
      sluice_private.span_words(r.asked_at)),
    since => r.asked_at) s
  WHERE r.message_id = m.id ORDER BY r.asked_at DESC LIMIT 1
$$;

-- A worker or a claim has it under a lease that has not ended.
CREATE FUNCTION sluice_private.why_leased(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner record;
  left_words text := sluice_private.span_words(m.due_at);
BEGIN
  IF m.lease < 0 THEN
    SELECT c.claimed_at, cardinality(c.message_ids) AS messages INTO owner FROM sluice.claim c
    WHERE c.queue = m.queue AND c.id = -m.lease;
    RETURN NEXT sluice_private.say('claimed',
      format('Claim %s has it for another %s: attempt %s, with %s in the claim.', -m.lease, left_words, m.attempt + 1,
        sluice_private.counted(coalesce(owner.messages, 1), 'message')),
      since => owner.claimed_at, until => m.due_at,
      details => jsonb_build_object('claim', (-m.lease)::text, 'attempt', m.attempt + 1),
      remedy => format('npx sluice claims release %s %s', m.queue, -m.lease));
    RETURN;
  END IF;
  SELECT w.name, w.host, w.pid, w.alive, w.seen_at,
         (SELECT b.claimed_at FROM sluice_private.batch_records() b
          WHERE b.worker_id = w.id AND b.id = (m.lease & 4294967295)) AS claimed_at
  INTO owner FROM sluice.workers w WHERE w.id = (m.lease >> 32)::integer;
  RETURN NEXT sluice_private.say('leased', CASE WHEN owner.alive
    THEN format('Worker %s (process %s on %s) has it under a lease for another %s: attempt %s.',
      sluice_private.quoted(owner.name), owner.pid, owner.host, left_words, m.attempt + 1)
    ELSE format('Worker %s is gone. Its lease lasts for another %s; then the message is tried again.',
      coalesce(sluice_private.quoted(owner.name), (m.lease >> 32)::text), left_words) END,
    since => owner.claimed_at, until => m.due_at,
    details => jsonb_build_object('worker', owner.name, 'host', owner.host, 'workerPid', owner.pid,
      'workerAlive', coalesce(owner.alive, false), 'attempt', m.attempt + 1),
    -- Else its lease gives it back, and a cancel would remove it.
    remedy => CASE WHEN owner.alive THEN format('npx sluice message cancel %s %s', m.queue, m.id) END);
END
$$;

-- Its process died with it, or hung, or its transaction was lost.
CREATE FUNCTION sluice_private.why_evidence(queue text, message_id bigint, attempt integer)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  seen record;
BEGIN
  SELECT count(*) AS count, max(c.crashed_at) AS last_at, (array_agg(c.worker ORDER BY c.crashed_at DESC))[1] AS worker,
         (array_agg(c.kind ORDER BY c.crashed_at DESC))[1] AS kind, bool_or(c.alone) AS alone
  INTO seen FROM (
    SELECT * FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id LIMIT 1000
  ) c;
  IF seen.count > 0 THEN
    RETURN NEXT sluice_private.say('crash_evidence',
      format('%s left unsettled: %s ago %s. %s failed so far%s.',
      sluice_private.counted(seen.count, 'attempt') || CASE seen.count WHEN 1 THEN ' was' ELSE ' were' END,
      sluice_private.span_words(seen.last_at),
      format(CASE seen.kind WHEN 'vanished' THEN 'worker %s vanished' WHEN 'hung' THEN 'worker %s hung'
        ELSE 'a transaction of worker %s was lost' END, sluice_private.quoted(seen.worker)),
      sluice_private.counted(sluice_private.failed_tries(queue, message_id, attempt), 'attempt')
        || CASE sluice_private.failed_tries(queue, message_id, attempt) WHEN 1 THEN ' has' ELSE ' have' END,
      CASE WHEN seen.alone THEN '; it was alone in flight, so it is the reason' ELSE '; it runs alone next' END),
      since => seen.last_at,
      details => jsonb_build_object('count', seen.count, 'worker', seen.worker, 'kind', seen.kind,
        'alone', seen.alone));
  END IF;
END
$$;
