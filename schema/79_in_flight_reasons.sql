-- Reasons of a message that somebody has, or had: a session, a worker, a claim.

-- A worker that is stale, as sluice.workers says. The doctor calls it workers.stale.
CREATE FUNCTION sluice_private.say_stale(w sluice.worker) RETURNS sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.say('worker_stale',
    format('Worker %s (process %s on %s) has sent no heartbeat for %s, and its connection is open: the process hangs '
      'or is stopped, or its machine is gone.', sluice_private.quoted(w.name), w.pid, w.host,
      sluice_private.duration_words_to(w.seen_at)),
    since => w.seen_at, details => jsonb_build_object('worker', w.name, 'host', w.host, 'workerPid', w.pid),
    remedy => sluice_private.kill_command(w.host, w.pid))
$$;

-- The worker that has a message is such a one.
CREATE FUNCTION sluice_private.why_owner_stale(worker_id integer) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id CROSS JOIN LATERAL sluice_private.say_stale(w) s
  WHERE v.id = why_owner_stale.worker_id AND v.stale
$$;

-- A command where no worker is alive: any would do.
CREATE FUNCTION sluice_private.start_a_worker() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive)
    THEN 'node worker.ts # or npx sluice work ./worker.ts; any worker will do' END
$$;

-- What workers and claims have in flight of the queue, among the first 1,000 messages of the records of each: a message
-- of a batch is if its row is locked, because a record may be of a batch that has just ended. An event that a group
-- reads for the first time has no row.
CREATE FUNCTION sluice_private.in_flight_of(queue text, locks jsonb)
RETURNS TABLE (holder text, claimed_at timestamptz, count bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'worker ' || sluice_private.quoted(g.name), g.claimed_at, count(*)
  FROM (
    SELECT w.name, b.worker_id, b.id AS batch_id, b.leased, b.claimed_at, given.id
    FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
    CROSS JOIN LATERAL unnest(b.message_ids) AS given (id)
    WHERE b.queue = in_flight_of.queue LIMIT 1000
  ) g
  WHERE g.id < 0 OR (
    SELECT CASE WHEN g.leased THEN m.lease = g.worker_id::bigint << 32 | g.batch_id
      ELSE sluice_private.locker(m.xmax, locks) IS NOT NULL END
    FROM sluice.message m WHERE m.queue = in_flight_of.queue AND m.id = g.id LIMIT 1
  )
  GROUP BY g.worker_id, g.batch_id, g.name, g.claimed_at
  UNION ALL
  SELECT 'claim ' || g.claim_id, g.claimed_at, count(*)
  FROM (
    SELECT c.id AS claim_id, c.claimed_at, given.id FROM (
      SELECT o.id, o.claimed_at, o.message_ids FROM sluice.claim o
      WHERE o.queue = in_flight_of.queue AND o.expires_at > clock_timestamp() ORDER BY o.expires_at LIMIT 1000
    ) c CROSS JOIN LATERAL unnest(c.message_ids) AS given (id) LIMIT 1000
  ) g
  WHERE (SELECT m.lease FROM sluice.message m WHERE m.queue = in_flight_of.queue AND m.id = g.id LIMIT 1) = -g.claim_id
  GROUP BY g.claim_id, g.claimed_at
$$;

-- A session has locked it. Where a live worker has recorded the message, and it is as it was then, that is the worker's
-- batch. A record alone says nothing: it may be of a batch that has just ended.
CREATE FUNCTION sluice_private.why_in_transaction(m sluice.message, holder integer) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  batch record;
  tries integer := sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.claimed_at, cardinality(b.message_ids) AS messages, w.id, w.name, w.host, w.pid INTO batch
  FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND m.due_at <= b.claimed_at
    AND m.attempt <= coalesce(b.attempts[array_position(b.message_ids, m.id)], 0)
  ORDER BY b.claimed_at DESC LIMIT 1;
  IF batch.name IS NOT NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_owner_stale(batch.id);
    RETURN NEXT sluice_private.say('in_flight',
      format('Worker %s (process %s on %s) has it in a transaction for %s: attempt %s, in a batch of %s.',
        sluice_private.quoted(batch.name), batch.pid, batch.host, sluice_private.duration_words_to(batch.claimed_at),
        tries, batch.messages),
      since => batch.claimed_at,
      details => jsonb_build_object('worker', batch.name, 'host', batch.host, 'workerPid', batch.pid,
        'attempt', tries, 'batch', batch.messages),
      remedy => format('npx sluice message cancel %s %s', m.queue, m.id), pid => holder);
  ELSE
    RETURN NEXT sluice_private.say('locked',
      'A session has locked its row, and no live worker has recorded it: claims pass it over'
        || CASE WHEN m.slot IS NULL THEN '.' ELSE ', and the later messages of its ordering key.' END,
      remedy => sluice_private.end_of_session(holder), pid => holder);
  END IF;
END
$$;

-- A worker that is gone has recorded that it had the message. With its session the server ends the transaction, at once
-- where the process has ended, and when TCP gives up where its machine has.
CREATE FUNCTION sluice_private.why_worker_gone(m sluice.message, holder integer) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id
  CROSS JOIN LATERAL sluice_private.say('worker_gone',
    format('Worker %s, which had it, is gone: it was last seen %s ago. %s; the next look of a live worker counts the '
      'attempt.', sluice_private.quoted(w.name), sluice_private.duration_words_to(w.seen_at), CASE WHEN holder IS NULL
        THEN 'The server has freed the message' ELSE 'The message is free when the server ends its session' END),
    since => w.seen_at, details => jsonb_build_object('worker', w.name), remedy => sluice_private.start_a_worker()) s
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
      sluice_private.duration_words_to(r.asked_at)),
    since => r.asked_at) s
  WHERE r.message_id = m.id ORDER BY r.asked_at DESC LIMIT 1
$$;

-- A worker or a claim has it under a lease that has not ended.
CREATE FUNCTION sluice_private.why_leased(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner record;
  tries integer := sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1;
  left_words text := sluice_private.duration_words_to(m.due_at);
BEGIN
  IF m.lease < 0 THEN
    SELECT c.claimed_at, cardinality(c.message_ids) AS messages INTO owner FROM sluice.claim c
    WHERE c.queue = m.queue AND c.id = -m.lease;
    RETURN NEXT sluice_private.say('claimed',
      format('Claim %s has it for another %s: attempt %s, with %s in the claim.', -m.lease, left_words, tries,
        sluice_private.counted(coalesce(owner.messages, 1), 'message')),
      since => owner.claimed_at, until => m.due_at,
      details => jsonb_build_object('claim', (-m.lease)::text, 'attempt', tries),
      remedy => format('npx sluice claims release %s %s', m.queue, -m.lease));
    RETURN;
  END IF;
  SELECT w.id, w.name, w.host, w.pid, w.alive, w.seen_at,
         (SELECT b.claimed_at FROM sluice_private.batch_records() b
          WHERE b.worker_id = w.id AND b.id = (m.lease & 4294967295)) AS claimed_at
  INTO owner FROM sluice.workers w WHERE w.id = (m.lease >> 32)::integer;
  IF owner.alive THEN
    RETURN QUERY SELECT * FROM sluice_private.why_owner_stale(owner.id);
  END IF;
  RETURN NEXT sluice_private.say('leased', CASE WHEN owner.alive
    THEN format('Worker %s (process %s on %s) has it under a lease for another %s: attempt %s.',
      sluice_private.quoted(owner.name), owner.pid, owner.host, left_words, tries)
    ELSE format('Worker %s is gone. Any live worker frees the message within about a second; without one its lease '
      'lasts for another %s.',
      coalesce(sluice_private.quoted(owner.name), (m.lease >> 32)::text), left_words) END,
    since => owner.claimed_at, until => m.due_at,
    details => jsonb_build_object('worker', owner.name, 'host', owner.host, 'workerPid', owner.pid,
      'workerAlive', coalesce(owner.alive, false), 'attempt', tries),
    -- Of a worker that is gone a cancel would remove the message.
    remedy => CASE WHEN owner.alive THEN format('npx sluice message cancel %s %s', m.queue, m.id)
      ELSE sluice_private.start_a_worker() END);
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
      sluice_private.duration_words_to(seen.last_at),
      format(CASE seen.kind WHEN 'vanished' THEN 'worker %s vanished' WHEN 'hung' THEN 'worker %s hung'
        ELSE 'a transaction of worker %s was lost' END, sluice_private.quoted(seen.worker)),
      sluice_private.counted(sluice_private.failed_tries(queue, message_id, attempt), 'attempt')
        || CASE sluice_private.failed_tries(queue, message_id, attempt) WHEN 1 THEN ' has' ELSE ' have' END,
      CASE WHEN seen.alone THEN '; it was alone in flight, so it may be the reason'
        WHEN sluice_private.runs_alone(queue, message_id) THEN '; it runs alone' ELSE '' END),
      since => seen.last_at,
      details => jsonb_build_object('count', seen.count, 'worker', seen.worker, 'kind', seen.kind,
        'alone', seen.alone));
  END IF;
END
$$;
