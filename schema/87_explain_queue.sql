-- Explains a queue: why nothing moves in it.
--
-- Public functions: sluice.explain_queue.

CREATE FUNCTION sluice_private.why_in_flight(queue text, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT sum(h.count)::bigint AS count, min(h.claimed_at) AS since,
           (array_agg(h.holder ORDER BY h.claimed_at))[1] AS holder
    FROM sluice_private.in_flight_of(queue, locks) h
  ) t CROSS JOIN LATERAL sluice_private.say('in_flight',
    format('%s in flight: the oldest with %s, for %s.', sluice_private.counted(t.count, 'message')
      || CASE t.count WHEN 1 THEN ' is' ELSE ' are' END, t.holder, sluice_private.duration_words_to(t.since)),
    since => t.since, details => jsonb_build_object('count', t.count, 'holder', t.holder),
    remedy => 'SELECT * FROM sluice.in_flight WHERE queue = ' || quote_literal(queue) || ' ORDER BY claimed_at;') s
  WHERE t.count > 0
$$;

-- Of the first 20 tenants of a queue with limits for them, those that are at one, or are endpoints that get nothing now.
CREATE FUNCTION sluice_private.why_tenants_wait(queue text, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE found (tenant) AS (
    (SELECT m.tenant::text FROM sluice.queue q CROSS JOIN LATERAL (
       SELECT m.tenant FROM sluice.message m WHERE m.queue = why_tenants_wait.queue AND m.tenant IS NOT NULL
       ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1
     ) m
     WHERE q.queue = why_tenants_wait.queue AND (q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL))
    UNION ALL
    SELECT n.tenant::text FROM found f CROSS JOIN LATERAL (
      SELECT m.tenant FROM sluice.message m
      WHERE m.queue = why_tenants_wait.queue AND m.tenant IS NOT NULL AND m.tenant > f.tenant
      ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1
    ) n
  )
  SELECT r.* FROM (SELECT f.tenant FROM found f LIMIT 20) f CROSS JOIN LATERAL (
    SELECT * FROM sluice_private.why_endpoint(queue, f.tenant)
    UNION ALL SELECT * FROM sluice_private.why_no_permit(queue, f.tenant, locks)
    UNION ALL SELECT * FROM sluice_private.why_no_token(queue, f.tenant)
  ) r
$$;

-- Nothing is there. A queue that nothing knows may be a typing mistake, or a stream.
CREATE FUNCTION sluice_private.why_empty(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  known text[] := sluice_private.known_queues();
  is_stream boolean := EXISTS (SELECT FROM sluice.stream s WHERE s.stream = queue);
  nearest text := CASE WHEN is_stream
    THEN (SELECT queue || ':' || g.name FROM sluice.stream_group g WHERE g.stream = queue ORDER BY g.name LIMIT 1)
    ELSE sluice_private.nearest_name(queue, ARRAY(SELECT DISTINCT k FROM unnest(known) AS k)) END;
BEGIN
  IF queue = ANY (known) OR EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue)
    OR EXISTS (SELECT FROM sluice.inboxes i WHERE i.queue = queue) THEN
    RETURN NEXT sluice_private.say('empty', format('Queue "%s" has no message.', queue));
  ELSE
    RETURN NEXT sluice_private.say('unknown_queue',
      format('Queue "%s" has no message, no settings and no worker.', queue)
      || CASE WHEN is_stream THEN ' A stream has this name.' ELSE '' END
      || coalesce(' Did you mean "' || nearest || '"?', ''), details => jsonb_build_object('nearest', nearest),
      remedy => coalesce('npx sluice explain ' || nearest, CASE WHEN is_stream
        THEN 'npx sluice group list ' || queue ELSE 'npx sluice status' END));
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_not_committed();
END
$$;

-- The keys that are held, three at most, each with what waits for it.
CREATE FUNCTION sluice_private.why_keys_held(queue text, heads sluice_private.slot_head[], slots record)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held sluice_private.slot_head[] := ARRAY(
    SELECT h FROM unnest(heads) AS h WHERE h.held > 0 ORDER BY h.first_id);
  head sluice_private.slot_head;
  waiting record;
  words text;
BEGIN
  IF slots.first_id IS NOT NULL THEN
    RETURN NEXT sluice_private.say_held('The queue is handled in order, and', queue, slots.first_id, slots.held_until,
      '{}');
  END IF;
  FOREACH head IN ARRAY held[1:3] LOOP
    waiting := sluice_private.count_waiting(queue, head);
    words := CASE WHEN waiting.more THEN format('At least %s', waiting.count) ELSE waiting.count::text END
      || CASE WHEN waiting.count = 1 AND NOT waiting.more THEN ' due message of the key waits'
         ELSE ' due messages of the key wait' END
      || CASE WHEN head.first_id = held[3].first_id AND cardinality(held) > 3
         THEN format(', and keys in %s are held as well.', sluice_private.counted(cardinality(held) - 3, 'other slot'))
         ELSE '.' END;
    RETURN NEXT sluice_private.say_held('Ordering key ' || sluice_private.quoted(head.key), queue, head.first_id,
      CASE WHEN head.held_until > clock_timestamp() THEN head.held_until END,
      jsonb_build_object('orderingKey', left(head.key, 200), 'count', waiting.count, 'more', waiting.more,
        'slots', cardinality(held)), words);
  END LOOP;
END
$$;

-- Which of the first messages sessions have locked that are no batches.
CREATE FUNCTION sluice_private.why_locked(queue text, unkeyed record, slots record) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  locked bigint := unkeyed.locked + slots.locked;
  id bigint := coalesce(slots.locked_id, unkeyed.locked_id);
  holder integer := CASE WHEN slots.locked > 0 THEN slots.locked_by ELSE unkeyed.pid END;
BEGIN
  IF locked > 0 THEN
    RETURN NEXT sluice_private.say('locked',
      format('%s among the first locked by a session that is no recorded batch: message %s%s.',
        sluice_private.counted(locked, 'message') || CASE locked WHEN 1 THEN ' is' ELSE ' are' END, id,
        CASE WHEN slots.locked > 0 THEN ', for which all later ones of its ordering key wait' ELSE '' END),
      details => jsonb_build_object('locked', locked, 'message', id::text),
      remedy => sluice_private.end_of_session(holder), pid => holder);
  END IF;
END
$$;

-- Which slots batches have locked. Of their sessions it names one that waits itself, if there is one.
CREATE FUNCTION sluice_private.why_slots_busy(slots record) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF slots.busy <> '{}' THEN
    RETURN NEXT sluice_private.say('slot_busy', CASE
        WHEN slots.whole AND slots.first_id IS NULL AND cardinality(slots.busy) = 1
        THEN 'A batch that keeps the order of the whole queue is in flight.'
        ELSE format('Batches have locked %s of ordering keys.', sluice_private.counted(cardinality(slots.busy), 'slot')) END,
      details => jsonb_build_object('slots', cardinality(slots.busy)), pid => (
        SELECT b.pid FROM unnest(slots.busy) AS b (pid)
        ORDER BY EXISTS (SELECT FROM pg_locks l WHERE l.pid = b.pid AND NOT l.granted) DESC, b.pid LIMIT 1));
  END IF;
END
$$;

-- What is due and free among the first. stopped: a reason why no claim takes it.
CREATE FUNCTION sluice_private.say_free(
  queue text, free bigint, due_at timestamptz, stopped sluice_private.reason[], locks jsonb
) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  them text := CASE free WHEN 1 THEN 'it' ELSE 'them' END;
  why text := CASE (stopped[1]).reason
    WHEN 'paused' THEN format('no claim takes %s before the queue is resumed.', them)
    WHEN 'alone' THEN format('no worker takes %s before that message has ended.', them)
    WHEN 'destination_unavailable' THEN format('no relay takes %s before its destination is back.', them)
    WHEN 'queue_limit' THEN format('no claim takes %s before one that is in flight has ended.', them)
    WHEN 'queue_rate' THEN format('no claim takes %s before the rate allows it.', them) END;
  takers record;
BEGIN
  SELECT t.* INTO takers FROM sluice_private.takers_of(queue, due_at, them, locks) t WHERE why IS NULL;
  RETURN NEXT sluice_private.say('due_now',
    format('%s%s among the first due and free, the oldest for %s: %s', sluice_private.counted(free, 'message'),
      CASE free WHEN 1 THEN ' is' ELSE ' are' END, sluice_private.duration_words_to(due_at), coalesce(why, takers.words)),
    since => due_at, details => jsonb_build_object('due', free) || coalesce(takers.details, '{}'),
    remedy => CASE WHEN stopped = '{}' THEN takers.remedy END);
END
$$;

-- What is due and free, but of tenants at a limit.
CREATE FUNCTION sluice_private.say_limited(limited bigint, due_at timestamptz) RETURNS sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.say('due_now',
    format('%s among the first due, the oldest for %s, and %s for the limit of %s.', CASE limited
      WHEN 1 THEN '1 message is' ELSE limited || ' messages are' END, sluice_private.duration_words_to(due_at),
      CASE limited WHEN 1 THEN 'waits' ELSE 'wait' END, CASE limited WHEN 1 THEN 'its tenant' ELSE 'their tenants' END),
    since => due_at, details => jsonb_build_object('limited', limited))
$$;

-- How many messages have failed and wait for their next attempt, and which one is tried next; unless all of them are named:
-- a reason says that keys wait for them, and why they failed.
CREATE FUNCTION sluice_private.why_retrying(queue text, retries record, named bigint[]) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  failed integer := cardinality(retries.ids);
  m sluice.message;
BEGIN
  IF retries.ids <@ named THEN
    RETURN;
  END IF;
  SELECT o.* INTO m FROM sluice.message o WHERE o.queue = queue AND o.id = retries.ids[1];
  RETURN NEXT sluice_private.say_retrying(
    concat(CASE WHEN retries.more THEN 'At least ' END, sluice_private.counted(failed, 'message'), CASE failed
      WHEN 1 THEN ' has failed and waits for its next attempt: message '
      ELSE ' have failed and wait for their next attempt. The next is message ' END, m.id, ', whose attempt'),
    m, jsonb_build_object('count', failed, 'more', retries.more, 'message', m.id::text));
END
$$;

-- Of messages that are there: which could be claimed now, and what keeps the others. tenants: those at a limit.
CREATE FUNCTION sluice_private.flow_reasons(
  queue text, stopped sluice_private.reason[], tenants text[], locks jsonb
) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Before the others: a message that falls due between two looks is then found by both, and not by none.
  retries record := sluice_private.look_at_retries(queue);
  unkeyed record := sluice_private.count_unkeyed(queue, tenants, locks);
  heads sluice_private.slot_head[] := ARRAY(SELECT h FROM sluice_private.look_at_slots(queue, locks) h);
  slots record := sluice_private.count_slots(queue, heads, locks);
  free bigint := slots.free + CASE WHEN slots.whole THEN 0 ELSE unkeyed.free END;
  limited bigint := CASE WHEN slots.whole THEN 0 ELSE unkeyed.limited END;
  next_at timestamptz := least(unkeyed.next_at, slots.next_at);
  expired bigint := unkeyed.expired + retries.expired;
  held sluice_private.reason[] := ARRAY(SELECT r FROM sluice_private.why_keys_held(queue, heads, slots) r);
BEGIN
  RETURN QUERY SELECT * FROM sluice_private.why_not_visible();
  RETURN QUERY SELECT * FROM sluice_private.why_locked(queue, unkeyed, slots);
  IF free > 0 THEN
    RETURN QUERY SELECT * FROM sluice_private.say_free(queue, free,
      least(slots.due_at, CASE WHEN NOT slots.whole THEN unkeyed.due_at END), stopped, locks);
  END IF;
  IF limited > 0 THEN
    RETURN NEXT sluice_private.say_limited(limited, unkeyed.limited_at);
  END IF;
  RETURN QUERY SELECT * FROM unnest(held);
  RETURN QUERY SELECT * FROM sluice_private.why_slots_busy(slots);
  RETURN QUERY SELECT * FROM sluice_private.why_in_flight(queue, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_retrying(queue, retries,
    ARRAY(SELECT (h.details ->> 'message')::bigint FROM unnest(held) AS h));
  IF expired > 0 THEN
    RETURN NEXT sluice_private.say('expired', format('%s among the first expired, and will be removed.',
      sluice_private.counted(expired, 'message')), details => jsonb_build_object('count', expired),
      remedy => 'npx sluice maintain');
  END IF;
  IF free = 0 AND limited = 0 AND next_at IS NOT NULL THEN
    RETURN NEXT sluice_private.say('scheduled', format('The next message %sfalls due in %s.',
      CASE retries.ids WHEN '{}' THEN '' ELSE 'that has not failed ' END, sluice_private.duration_words_to(next_at)),
      until => next_at);
  END IF;
END
$$;

-- Of a group: what keeps its partitions from being read, five and three at most, and what is not read yet. Each
-- partition is three descents, and counts 1,000 index entries at most.
CREATE FUNCTION sluice_private.group_reasons(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  g sluice.stream_group := sluice_private.find_group(split_part(queue, ':', 1), substr(queue, strpos(queue, ':') + 1));
  part record;
  waits sluice_private.reason[] := '{}';
  opened sluice_private.reason[] := '{}';
  unread bigint := 0;
  oldest timestamptz;
BEGIN
  FOR part IN SELECT p.* FROM sluice_private.read_group_partitions(g.stream, g.name, 1000) p LOOP
    unread := unread + part.unread;
    oldest := least(oldest, part.next_appended_at);
    waits := waits || ARRAY(SELECT r FROM sluice_private.why_partition_waits(g, part) r);
    -- What an open append has written is not visible: without other events there is no next one.
    opened := opened || ARRAY(SELECT r FROM sluice_private.why_open_append(part,
      coalesce(part.next_position, CASE WHEN part.open_pid IS NOT NULL OR part.open_since IS NOT NULL
        THEN part.stable_end + 1 END)) r);
  END LOOP;
  RETURN QUERY SELECT * FROM sluice_private.why_lost(g);
  RETURN QUERY SELECT * FROM unnest(waits[1:5]);
  RETURN QUERY SELECT * FROM unnest(opened[1:3]);
  RETURN NEXT CASE WHEN unread > 0
    THEN sluice_private.say('unread', format('Group "%s" has about %s to read, the oldest for %s.', g.name,
      sluice_private.counted(unread, 'event'), sluice_private.duration_words_to(oldest)), since => oldest,
      details => jsonb_build_object('unread', unread))
    ELSE sluice_private.say('empty', format('Group "%s" has read all events of stream "%s"%s.', g.name, g.stream,
      CASE WHEN opened <> '{}' THEN ' that are committed' ELSE '' END)) END;
END
$$;

-- All reasons of a queue, the headline first.
CREATE FUNCTION sluice_private.queue_reasons(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  locks jsonb := sluice_private.row_locks();
  stopped sluice_private.reason[] := ARRAY(SELECT r FROM sluice_private.why_paused(queue) r);
  of_stream sluice_private.reason[];
  limits sluice_private.reason[];
  of_tenants sluice_private.reason[];
  dead bigint;
  of_group boolean := sluice_private.is_of_group(queue);
  has_messages boolean := EXISTS (SELECT FROM (
    SELECT m.id FROM sluice.message m WHERE m.queue = queue ORDER BY m.queue, m.id LIMIT 1) m);
BEGIN
  IF has_messages OR of_group THEN
    stopped := stopped || ARRAY(SELECT r FROM sluice_private.why_no_worker(queue) r)
      || ARRAY(SELECT r FROM sluice_private.why_all_workers_alone(queue) r)
      || ARRAY(SELECT r FROM sluice_private.why_destination_unavailable(queue) r);
    RETURN QUERY SELECT * FROM unnest(stopped);
    RETURN QUERY SELECT * FROM sluice_private.why_workers_stale(queue);
  ELSE
    RETURN QUERY SELECT * FROM unnest(stopped);
  END IF;
  IF of_group THEN
    of_stream := ARRAY(SELECT r FROM sluice_private.group_reasons(queue) r);
    RETURN QUERY SELECT r.* FROM unnest(of_stream) r WHERE r.reason <> 'empty';
  END IF;
  IF has_messages THEN
    limits := ARRAY(SELECT r FROM sluice_private.why_no_permit(queue, '', locks) r)
      || ARRAY(SELECT r FROM sluice_private.why_no_token(queue, '') r);
    RETURN QUERY SELECT * FROM unnest(limits);
    of_tenants := ARRAY(SELECT r FROM sluice_private.why_tenants_wait(queue, locks) r);
    RETURN QUERY SELECT * FROM unnest(of_tenants[1:3]);
    RETURN QUERY SELECT * FROM sluice_private.flow_reasons(queue, stopped || limits,
      ARRAY(SELECT t.details ->> 'tenant' FROM unnest(of_tenants) AS t), locks);
    RETURN QUERY SELECT * FROM sluice_private.why_inbox_unavailable(queue);
  ELSIF NOT of_group THEN
    RETURN QUERY SELECT * FROM sluice_private.why_inbox_unavailable(queue);
    RETURN QUERY SELECT * FROM sluice_private.why_empty(queue);
  END IF;
  -- A group that has read all events has more to do while events that failed wait in its queue.
  RETURN QUERY SELECT r.* FROM unnest(of_stream) r WHERE r.reason = 'empty';
  SELECT count(*) INTO dead FROM (SELECT FROM sluice.dead_letter d WHERE d.queue = queue LIMIT 1001) d;
  IF dead > 0 THEN
    RETURN NEXT sluice_private.say('dead', format('%s not tried again.', CASE WHEN dead > 1000
      THEN 'More than 1,000 dead letters are' WHEN dead = 1 THEN '1 dead letter is'
      ELSE dead || ' dead letters are' END),
      details => jsonb_build_object('count', least(dead, 1000)), remedy => format('npx sluice dead list %s', queue));
  END IF;
END
$$;

CREATE FUNCTION sluice.explain_queue(queue text) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT e.* FROM sluice_private.explained('queue_reasons', ARRAY[explain_queue.queue]) e
$$;
COMMENT ON FUNCTION sluice.explain_queue IS
  'Explains why nothing moves in a queue: one row per reason, the main one first, as sluice.explain does. It reads '
  'the first messages of each priority, slot and tenant, and the first 1,000 that have failed, and counts no backlog.';
