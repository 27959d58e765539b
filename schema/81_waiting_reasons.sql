-- Reasons why a message that is not in flight waits: its due time, its queue, its workers and its key.

CREATE FUNCTION sluice_private.why_expired(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF m.expires_at <= clock_timestamp() THEN
    RETURN NEXT sluice_private.say('expired',
      format('Its time to live ended %s ago. The next claim or pass of maintenance %s.',
        sluice_private.duration_words_to(m.expires_at), CASE (SELECT q.on_expiry FROM sluice.queue q WHERE q.queue = m.queue)
          WHEN 'dead_letter' THEN 'makes it a dead letter' ELSE 'removes it' END),
      since => m.expires_at, remedy => 'npx sluice maintain');
  END IF;
END
$$;

-- A command for a message that has failed. After three attempts it may be one that never succeeds.
CREATE FUNCTION sluice_private.run_or_cancel(queue text, id bigint, attempt integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('npx sluice message run-now %s %s', queue, id) || CASE WHEN attempt >= 3
    THEN format(' # or, if it cannot succeed: npx sluice message cancel %s %s', queue, id) ELSE '' END
$$;

-- A message that has failed waits for its next attempt. begin: 'Attempt'
CREATE FUNCTION sluice_private.say_retrying(begin text, m sluice.message, details jsonb) RETURNS sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most integer := coalesce(m.max_attempts, (SELECT q.max_attempts FROM sluice.queue q WHERE q.queue = m.queue));
BEGIN
  RETURN sluice_private.say('retrying',
    format('%s %s failed %s ago: %s. It is tried again in %s.', begin, concat(m.attempt, ' of ' || most),
      sluice_private.duration_words_to(m.failed_at), coalesce(sluice_private.quoted(m.last_error), 'without an error'),
      sluice_private.duration_words_to(m.due_at)),
    since => m.failed_at, until => m.due_at, remedy => sluice_private.run_or_cancel(m.queue, m.id, m.attempt),
    details => details || jsonb_build_object('attempt', m.attempt, 'maxAttempts', most,
      'error', left(m.last_error, 2000)));
END
$$;

-- It is not due yet.
CREATE FUNCTION sluice_private.why_later(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF m.due_at <= clock_timestamp() THEN
    RETURN;
  ELSIF m.attempt > 0 THEN
    RETURN NEXT sluice_private.say_retrying('Attempt', m, '{}');
  ELSE
    RETURN NEXT sluice_private.say('scheduled', format('%s due in %s.', CASE WHEN m.lease IS NULL
      THEN 'It has not been tried, and is' ELSE 'It was in flight and put off, and is' END,
      sluice_private.duration_words_to(m.due_at)), since => m.enqueued_at, until => m.due_at,
      remedy => sluice_private.run_or_cancel(m.queue, m.id, m.attempt));
  END IF;
END
$$;

-- The queue is paused, and a group with its queue.
CREATE FUNCTION sluice_private.why_paused(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.queue q CROSS JOIN LATERAL sluice_private.say('paused',
    format('%s "%s" was paused %s ago%s',
      CASE WHEN sluice_private.is_of_group(q.queue) THEN 'Group' ELSE 'Queue' END, q.queue,
      sluice_private.duration_words_to(q.paused_at), coalesce(' by ' || sluice_private.quoted(q.paused_by), ''))
      || coalesce(': ' || sluice_private.quoted(q.pause_reason), '') || '.',
    since => q.paused_at, details => jsonb_build_object('pausedBy', q.paused_by, 'pauseReason', q.pause_reason),
    remedy => CASE WHEN sluice_private.is_of_group(q.queue)
      THEN format('npx sluice group resume %s', replace(q.queue, ':', ' '))
      ELSE format('npx sluice queue resume %s', q.queue) END) s
  WHERE q.queue = why_paused.queue AND q.paused_at IS NOT NULL
$$;

-- No live worker consumes the queue. The live ones consume others, perhaps one of nearly the same name.
CREATE FUNCTION sluice_private.why_no_worker(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  consumed text[];
  nearest text;
  gone record;
  claimed_at timestamptz;
BEGIN
  IF EXISTS (SELECT FROM sluice.workers w WHERE queue = ANY (w.queues) AND w.alive) THEN
    RETURN;
  END IF;
  consumed := ARRAY(SELECT DISTINCT c.name FROM sluice.workers w CROSS JOIN LATERAL unnest(w.queues) AS c (name)
    WHERE w.alive ORDER BY c.name LIMIT 50);
  nearest := sluice_private.nearest_name(queue, consumed);
  SELECT w.name, w.seen_at INTO gone FROM sluice.worker w WHERE queue = ANY (w.queues) ORDER BY w.seen_at DESC LIMIT 1;
  SELECT c.claimed_at INTO claimed_at FROM sluice.claim c WHERE c.queue = queue ORDER BY c.expires_at DESC LIMIT 1;
  RETURN NEXT sluice_private.say('no_worker', concat_ws(' ',
    format('No live worker consumes queue "%s".', queue),
    CASE WHEN nearest IS NOT NULL THEN format('Did you mean "%s"? A worker consumes that.', nearest)
         WHEN NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive) THEN 'No worker is alive in this database.'
         WHEN consumed = '{}' THEN 'The live workers consume no queue.'
         ELSE format('Live workers consume %s.', array_to_string(
           consumed[1:5] || CASE WHEN cardinality(consumed) > 5 THEN ARRAY['others'] END, ', ')) END,
    'Worker ' || sluice_private.quoted(gone.name) || ', which did, was last seen '
      || sluice_private.duration_words_to(gone.seen_at) || ' ago.',
    'A claim took messages from it ' || sluice_private.duration_words_to(claimed_at) || ' ago.'),
    since => gone.seen_at,
    -- A queue that somebody has consumed, or set up, was meant.
    remedy => CASE WHEN nearest IS NOT NULL AND gone.name IS NULL AND claimed_at IS NULL
        AND NOT sluice_private.is_of_group(queue) AND NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue)
      THEN format('npx sluice queue move %s %s', queue, nearest)
      ELSE 'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it' END,
    details => jsonb_build_object('nearest', nearest, 'consumed', to_jsonb(nullif(consumed[1:10], '{}')),
      'lastWorker', gone.name, 'lastClaimAt', claimed_at));
END
$$;

-- Live workers of the queue, or of any with null, that are stale, three at most; the doctor calls them workers.stale.
CREATE FUNCTION sluice_private.why_workers_stale(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id CROSS JOIN LATERAL sluice_private.say_stale(w) s
  WHERE v.stale AND coalesce(why_workers_stale.queue = ANY (v.queues), true)
  ORDER BY w.seen_at LIMIT 3
$$;

-- All live workers of the queue, or of any with null, are stale.
CREATE FUNCTION sluice_private.why_all_workers_stale(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.why_workers_stale(queue) s WHERE NOT EXISTS (
    SELECT FROM sluice.workers v
    WHERE v.alive AND NOT v.stale AND coalesce(why_all_workers_stale.queue = ANY (v.queues), true)
  )
$$;

CREATE FUNCTION sluice_private.say_unavailable(p sluice_private.peers) RETURNS sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.say(CASE p.kind WHEN 'relay' THEN 'destination_unavailable' ELSE 'inbox_unavailable' END,
    format('%s. It %s.', sluice_private.peer_words(p, sluice_private.quoted(p.worker), sluice_private.quoted(p.system),
      sluice_private.quoted(p.error)), CASE WHEN p.retry_at > clock_timestamp()
        THEN 'tries again in ' || sluice_private.duration_words_to(p.retry_at) ELSE 'is trying again' END),
    since => p.since, details => jsonb_build_object('worker', p.worker, 'cause', p.cause, 'error', left(p.error, 2000),
        'retryAt', p.retry_at)
      || CASE p.kind WHEN 'relay' THEN jsonb_build_object('destination', left(p.system, 200))
        ELSE jsonb_build_object('receiver', left(p.system, 200), 'side', p.side) END,
    remedy => sluice_private.peer_remedy(p, format(' WHERE queue = %L', p.queue)))
$$;

-- The relay of each live worker of the queue that is not stale cannot publish, three at most; the doctor calls them
-- relays.unavailable. Nothing in NOT EXISTS is of p, so the server looks through the workers once, and not once for each relay.
CREATE FUNCTION sluice_private.why_destination_unavailable(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.peers p CROSS JOIN LATERAL sluice_private.say_unavailable(p) s
  WHERE p.kind = 'relay' AND p.queue = why_destination_unavailable.queue AND p.state = 'unavailable' AND NOT EXISTS (
    SELECT FROM sluice.workers v
    WHERE v.alive AND NOT v.stale AND why_destination_unavailable.queue = ANY (v.queues) AND NOT EXISTS (
      SELECT FROM sluice.relays o
      WHERE o.queue = why_destination_unavailable.queue AND o.worker_id = v.id AND o.state = 'unavailable'
    )
  )
  ORDER BY p.since LIMIT 3
$$;

-- No inbox of the queue can receive, or store, three at most; the doctor calls them inboxes.unavailable.
CREATE FUNCTION sluice_private.why_inbox_unavailable(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.peers p CROSS JOIN LATERAL sluice_private.say_unavailable(p) s
  WHERE p.kind = 'inbox' AND p.queue = why_inbox_unavailable.queue AND NOT EXISTS (
    SELECT FROM sluice.inboxes o WHERE o.queue = why_inbox_unavailable.queue AND o.state = 'available'
  )
  ORDER BY p.since LIMIT 3
$$;

-- Who could take what is due, as the end of a sentence: a worker listens, and has had no more than moments; or the
-- workers of the queue, when the one that was silent for longest was last seen if that is longer ago than a heartbeat of 10 seconds, the
-- default, explains, and what they have in flight of it. No table says how many handlers a worker may run. them: 'it' or
-- 'them'
CREATE FUNCTION sluice_private.takers_of(queue text, since timestamptz, them text, locks jsonb)
RETURNS TABLE (words text, details jsonb, remedy text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  live record;
  in_flight bigint;
  quiet_since timestamptz;
BEGIN
  SELECT count(*) AS count, (array_agg(w.name ORDER BY w.seen_at))[1] AS name, min(w.seen_at) AS seen_at,
         count(*) FILTER (WHERE v.stale) AS stale INTO live
  FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id WHERE v.alive AND queue = ANY (v.queues);
  -- A worker polls once in 1 to 1.2 seconds by default.
  IF live.count > live.stale AND since > clock_timestamp() - interval '5 seconds' THEN
    RETURN QUERY SELECT CASE them WHEN 'it' THEN 'the next claim takes it.' ELSE 'the next claims take them.' END,
      '{}'::jsonb, NULL::text;
    RETURN;
  END IF;
  quiet_since := CASE WHEN live.seen_at < clock_timestamp() - interval '15 seconds' THEN live.seen_at END;
  in_flight := (SELECT coalesce(sum(h.count), 0) FROM sluice_private.in_flight_of(queue, locks) h
    WHERE live.count > 0 AND h.holder LIKE 'worker %');
  RETURN QUERY SELECT CASE live.count WHEN 0 THEN 'no live worker consumes the queue.'
      ELSE format('no claim has taken %s yet. %s %s of it in flight.', them, CASE live.count
        WHEN 1 THEN format('Worker %s consumes the queue%s, and has', sluice_private.quoted(live.name),
          ', was last seen ' || sluice_private.duration_words_to(quiet_since) || ' ago')
        ELSE format('%s workers consume the queue (%s stale), and have', live.count, live.stale) END,
        CASE in_flight WHEN 0 THEN 'nothing' ELSE sluice_private.counted(in_flight, 'message') END)
        || CASE WHEN live.count > 1 AND quiet_since IS NOT NULL THEN format(' Worker %s was last seen %s ago.',
          sluice_private.quoted(live.name), sluice_private.duration_words_to(quiet_since)) ELSE '' END END,
    jsonb_build_object('workers', live.count, 'stale', live.stale, 'inFlight', in_flight, 'lastSeenAt', quiet_since),
    CASE WHEN in_flight > 0 AND quiet_since IS NULL
      THEN 'SELECT * FROM sluice.in_flight WHERE queue = ' || quote_literal(queue) || ' ORDER BY claimed_at;'
      ELSE 'npx sluice doctor' END;
END
$$;

-- What waits for a message: for which its key is held, or which is or was leased. more: another sentence about it.
CREATE FUNCTION sluice_private.say_held(
  what text, queue text, first_id bigint, held_until timestamptz, details jsonb, more text DEFAULT NULL
) RETURNS sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  other sluice.message;
  state text;
BEGIN
  SELECT e.* INTO other FROM sluice.message e WHERE e.queue = queue AND e.id = first_id;
  held_until := coalesce(held_until, CASE WHEN other.due_at > clock_timestamp() THEN other.due_at END);
  state := CASE
    WHEN other.id IS NULL THEN 'which is gone: the next look of a worker frees the key'
    WHEN other.lease <> 0 AND other.due_at > clock_timestamp() THEN 'which is in flight under a lease'
    WHEN other.due_at <= clock_timestamp() THEN 'which is due'
    WHEN other.attempt > 0 THEN format('whose attempt %s failed, and which is tried again in %s', other.attempt,
      sluice_private.duration_words_to(other.due_at))
    ELSE format('which was put off, and is due in %s', sluice_private.duration_words_to(other.due_at)) END;
  RETURN sluice_private.say('held', concat_ws(' ', format('%s waits for message %s, %s.', what, first_id, state),
    'Its error: ' || sluice_private.quoted(other.last_error) || '.', more),
    since => other.failed_at, until => held_until,
    details => details || jsonb_build_object('message', first_id::text, 'attempt', other.attempt,
      'error', left(other.last_error, 2000)),
    remedy => CASE WHEN other.due_at > clock_timestamp() AND coalesce(other.lease, 0) = 0
      THEN sluice_private.run_or_cancel(queue, first_id, other.attempt)
      ELSE format('npx sluice explain %s %s', queue, first_id) END);
END
$$;

-- The message of its key that comes first. In a pipeline that keeps the order of the whole queue, messages without a key
-- have slot 256.
CREATE FUNCTION sluice_private.why_held(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  hold jsonb := sluice_private.hold_of(m);
  held_until timestamptz := timestamptz 'epoch' + (hold ->> 1)::bigint * interval '1 microsecond';
  first_id bigint := CASE WHEN held_until > clock_timestamp() THEN (hold ->> 0)::bigint END;
BEGIN
  IF first_id IS NULL OR first_id = m.id THEN
    held_until := NULL;
    -- By message_lease_idx, from the first of the slot on: the first 10,000 that closed a key of it.
    SELECT e.id INTO first_id FROM (
      SELECT e.id, e.ordering_key FROM sluice.message e
      WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.lease IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot
      ORDER BY e.slot, e.id, e.lease LIMIT 10000
    ) e WHERE e.ordering_key = m.ordering_key LIMIT 1;
  END IF;
  IF first_id <> m.id THEN
    RETURN NEXT sluice_private.say_held(coalesce('Its ordering key ' || sluice_private.quoted(m.ordering_key),
      'The queue is handled in order, and'), m.queue, first_id, held_until, '{}');
  END IF;
END
$$;

-- A session that has not locked the slot has locked an earlier message of the key: one of the first 1,000 of the slot.
-- A claim leaves such a key out.
CREATE FUNCTION sluice_private.why_key_locked(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  slot_holder integer := (SELECT sluice_private.locker(s.xmax, locks) FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = m.slot);
  earlier record;
BEGIN
  SELECT e.id, h.pid INTO earlier FROM (
    SELECT e.id, e.ordering_key, e.xmax FROM sluice.message e
    WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot AND e.id < m.id
    ORDER BY e.slot, e.id LIMIT 1000
  ) e CROSS JOIN LATERAL (SELECT sluice_private.locker(e.xmax, locks) AS pid WHERE e.xmax <> '0'::xid) h
  WHERE e.ordering_key = m.ordering_key AND h.pid IS NOT NULL AND h.pid IS DISTINCT FROM slot_holder LIMIT 1;
  IF earlier.id IS NOT NULL THEN
    RETURN NEXT sluice_private.say('locked',
      format('A session has locked message %s, which its ordering key %s waits for: claims leave the key out.', earlier.id,
        sluice_private.quoted(m.ordering_key)),
      details => jsonb_build_object('message', earlier.id::text), remedy => sluice_private.end_of_session(earlier.pid),
      pid => earlier.pid);
  END IF;
END
$$;

-- A batch has locked the slot of its key. Which message of the slot it has is known as far as the first 200
-- records and 20 messages of each go.
CREATE FUNCTION sluice_private.why_slot_busy(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT sluice_private.locker(s.xmax, locks) FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
  found_one record;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.worker_id, other.id, other.ordering_key IS NOT DISTINCT FROM m.ordering_key AS same_key, w.name, b.claimed_at
  INTO found_one
  FROM (SELECT b.* FROM sluice_private.batch_records() b WHERE b.queue = m.queue AND NOT b.leased LIMIT 200) b
  CROSS JOIN LATERAL unnest(b.message_ids[1:20]) AS given (id)
  CROSS JOIN LATERAL (
    SELECT o.id, o.ordering_key FROM sluice.message o
    WHERE o.queue = m.queue AND o.id = given.id AND o.slot IS NOT DISTINCT FROM m.slot LIMIT 1
  ) other
  JOIN sluice.worker w ON w.id = b.worker_id
  ORDER BY 3 DESC LIMIT 1;
  RETURN NEXT sluice_private.say('slot_busy', CASE WHEN m.slot IS NULL
      THEN 'A batch that keeps the order of the whole queue is in flight'
      ELSE format('A batch has slot %s of 256, to which its ordering key %s belongs', m.slot,
        sluice_private.quoted(m.ordering_key)) END
    || CASE WHEN found_one.id IS NULL THEN '.' ELSE format(': worker %s has message %s of %s.',
      sluice_private.quoted(found_one.name), found_one.id, CASE WHEN m.slot IS NULL THEN 'the queue'
        WHEN found_one.same_key THEN 'the same key' ELSE 'another key there' END) END,
    since => found_one.claimed_at,
    details => jsonb_build_object('slot', coalesce(m.slot, 256), 'message', found_one.id::text,
      'worker', found_one.name, 'sameKey', found_one.same_key),
    remedy => 'npx sluice explain ' || m.queue || ' ' || found_one.id, pid => holder);
END
$$;
