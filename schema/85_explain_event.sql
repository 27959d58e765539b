-- Explains an event of a group: why the group has not handled it.
--
-- Public functions: sluice.explain_event.

-- The partition and the key of an event; no row: it is not there, or not visible yet. One descent for each partition,
-- in one segment.
CREATE FUNCTION sluice_private.event_at(log sluice.stream, at bigint)
RETURNS TABLE (partition smallint, ordering_key text, appended_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY EXECUTE format($query$
    SELECT e.partition, e.ordering_key::text, e.appended_at FROM generate_series(0, $1 - 1) AS s (partition)
    CROSS JOIN LATERAL (
      SELECT e.partition, e.ordering_key, e.appended_at FROM %s e
      WHERE e.partition = s.partition AND e.position = $2 LIMIT 1
    ) e
  $query$, sluice_private.part_of_log('event_' || log.id, at - 1, at)) USING log.partitions, at;
END
$$;

-- The group reads nothing until it is moved: retention took events that it had not read.
CREATE FUNCTION sluice_private.why_lost(g sluice.stream_group) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF g.lost_from IS NOT NULL THEN
    RETURN NEXT sluice_private.say('lost_events',
      format('Retention removed the events from %s to %s before group "%s" had read them. The group reads nothing '
        'until it is moved.', g.lost_from, g.lost_to, g.name),
      details => jsonb_build_object('lostFrom', g.lost_from, 'lostTo', g.lost_to),
      remedy => format('npx sluice group seek %s %s --to start', g.stream, g.name));
  END IF;
END
$$;

-- The partition waits for its next event, which has failed.
CREATE FUNCTION sluice_private.why_partition_waits(g sluice.stream_group, part record)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF part.held_until > clock_timestamp() THEN
    RETURN NEXT sluice_private.say(
      CASE WHEN isfinite(part.held_until) THEN 'partition_retrying' ELSE 'partition_stopped' END,
      format('Partition %s waits for event %s/%s, whose attempt %s failed%s. %s.', part.partition, g.stream,
        part.next_position, part.attempt, coalesce(': ' || sluice_private.quoted(part.last_error), ''),
        CASE WHEN isfinite(part.held_until) THEN 'It is tried again in ' || sluice_private.duration_words_to(part.held_until)
          ELSE 'It waits until the event is retried or skipped by hand' END),
      until => CASE WHEN isfinite(part.held_until) THEN part.held_until END,
      details => jsonb_build_object('partition', part.partition, 'position', part.next_position,
        'attempt', part.attempt, 'error', left(part.last_error, 2000)),
      remedy => format('npx sluice group retry %s %s --partition %s', g.stream, g.name, part.partition));
  END IF;
END
$$;

-- Behind its stable end a partition is not read: a transaction that has appended to it is open.
CREATE FUNCTION sluice_private.why_open_append(part record, at bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF at > part.stable_end THEN
    RETURN NEXT sluice_private.say('open_append',
      format('A transaction that has appended to partition %s is open: groups read it up to position %s, and no '
        'further before that transaction ends.', part.partition, part.stable_end),
      since => part.open_since,
      details => jsonb_build_object('partition', part.partition, 'stableEnd', part.stable_end),
      -- Where no event waits, the append may be a moment old.
      remedy => CASE WHEN part.next_position IS NOT NULL
        THEN 'SELECT pg_terminate_backend(' || part.open_pid || ');' END, pid => coalesce(part.open_pid, 0));
  END IF;
END
$$;

-- A batch has the partition: the session that has its lock, and the worker that has recorded the event.
CREATE FUNCTION sluice_private.why_partition_busy(g sluice.stream_group, part record, at bigint)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT coalesce(l.pid, 0) FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 746503 AND l.objid = (g.id << 6 | part.partition)::oid
      AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) LIMIT 1);
  batch record;
BEGIN
  SELECT w.id, w.name, w.host, w.pid, b.claimed_at, cardinality(b.message_ids) AS events INTO batch
  FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE b.queue = g.stream || ':' || g.name AND -at = ANY (b.message_ids) ORDER BY b.claimed_at DESC LIMIT 1;
  IF batch.name IS NOT NULL AND holder IS NOT NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_owner_stale(batch.id);
    RETURN NEXT sluice_private.say('in_flight',
      format('Worker %s (process %s on %s) has it in a transaction for %s, in a batch of %s.',
        sluice_private.quoted(batch.name), batch.pid, batch.host, sluice_private.duration_words_to(batch.claimed_at),
        sluice_private.counted(batch.events, 'event')),
      since => batch.claimed_at,
      details => jsonb_build_object('worker', batch.name, 'host', batch.host, 'workerPid', batch.pid,
        'batch', batch.events),
      pid => holder);
  ELSIF holder IS NOT NULL THEN
    RETURN NEXT sluice_private.say('partition_busy',
      format('A batch of the group has locked partition %s.', part.partition),
      details => jsonb_build_object('partition', part.partition), pid => holder);
  END IF;
END
$$;

-- How many unread events of its partition go before one, up to 1,001: a range of (partition, position).
CREATE FUNCTION sluice_private.count_events_before(log sluice.stream, part record, at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_count bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM (
      SELECT FROM %s e WHERE e.partition = $1 AND e.position > $2 AND e.position < $3 ORDER BY e.position LIMIT 1001
    ) e', sluice_private.part_of_log('event_' || log.id, part.position, at - 1))
  INTO found_count USING part.partition, part.position, at;
  RETURN found_count;
END
$$;

-- Of an event that is not there: it is gone, or no event, or not committed.
CREATE FUNCTION sluice_private.why_no_event(log sluice.stream, g sluice.stream_group, at bigint, head bigint)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF at > head THEN
    RETURN NEXT sluice_private.say('never_existed',
      format('Stream "%s" has no event %s: the last position so far is %s.', log.stream, at, head),
      details => jsonb_build_object('head', head));
  ELSIF at <= log.trimmed_to THEN
    RETURN NEXT sluice_private.say('trimmed',
      format('Retention has removed the events of stream "%s" up to %s%s.', log.stream, log.trimmed_to,
        CASE WHEN at BETWEEN g.lost_from AND g.lost_to
        THEN format('; group "%s" may not have read it', g.name) ELSE '' END),
      details => jsonb_build_object('trimmedTo', log.trimmed_to));
  ELSE
    RETURN QUERY SELECT s.* FROM sluice_private.open_appends_of(log.id) o
    CROSS JOIN LATERAL sluice_private.say('not_committed',
      format('A transaction that has appended to partition %s is open. If it appended the event, that appears with '
        'its COMMIT.', o.partition), since => o.since, pid => coalesce(o.pid, 0)) s
    ORDER BY o.since, o.partition LIMIT 5;
    RETURN NEXT sluice_private.say('not_found',
      format('Stream "%s" has no event %s: the append that drew this position was rolled back, or is not committed.',
        log.stream, at));
  END IF;
END
$$;

-- The message or dead letter that an event has become. There is no index on positions: of the group's queue at most
-- 10,000 messages are looked at, those of the event's slot or those without a key, and of its dead letters the latest
-- 10,000.
CREATE FUNCTION sluice_private.message_of_event(queue text, at bigint, ordering_key text) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  slot smallint := (hashtextextended(ordering_key COLLATE "C", 0) & 255)::smallint;
  message_id bigint;
BEGIN
  IF slot IS NULL THEN
    SELECT m.id INTO message_id FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.event_position FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 10000
    ) m WHERE m.event_position = at LIMIT 1;
  ELSE
    SELECT m.id INTO message_id FROM (
      SELECT m.id, m.event_position FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NOT NULL AND m.slot >= slot AND m.slot <= slot
      ORDER BY m.slot, m.id LIMIT 10000
    ) m WHERE m.event_position = at LIMIT 1;
  END IF;
  RETURN coalesce(message_id, (
    SELECT d.id FROM (
      SELECT d.id, d.event_position FROM sluice.dead_letter d WHERE d.queue = queue
      ORDER BY d.died_at DESC, d.id DESC LIMIT 10000
    ) d WHERE d.event_position = at LIMIT 1
  ));
END
$$;

-- Of an event that the group has not read.
CREATE FUNCTION sluice_private.unread_event_reasons(log sluice.stream, g sluice.stream_group, part record, at bigint)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  queue text := g.stream || ':' || g.name;
  reasons sluice_private.reason[] := ARRAY(SELECT r FROM sluice_private.why_lost(g) r);
  before bigint := sluice_private.count_events_before(log, part, at);
BEGIN
  reasons := reasons || ARRAY(SELECT r FROM sluice_private.why_paused(queue) r)
    || ARRAY(SELECT r FROM sluice_private.why_partition_waits(g, part) r)
    || ARRAY(SELECT r FROM sluice_private.why_open_append(part, at) r)
    || ARRAY(SELECT r FROM sluice_private.why_no_worker(queue) r)
    || ARRAY(SELECT r FROM sluice_private.why_all_workers_stale(queue) r)
    || ARRAY(SELECT r FROM sluice_private.why_all_workers_alone(queue) r
      WHERE r.details ->> 'position' IS DISTINCT FROM at::text)
    || ARRAY(SELECT r FROM sluice_private.why_partition_busy(g, part, at) r)
    || ARRAY(SELECT r FROM sluice_private.why_not_visible() r);
  IF before > 0 THEN
    reasons := reasons || sluice_private.say('behind', format('%s of its partition %s before it.',
        CASE WHEN before > 1000 THEN 'More than 1,000 unread events'
          ELSE sluice_private.counted(before, 'unread event') END,
        CASE before WHEN 1 THEN 'goes' ELSE 'go' END),
      since => part.next_appended_at,
      details => jsonb_build_object('count', least(before, 1000), 'partition', part.partition));
  ELSIF reasons = '{}' THEN
    reasons := reasons || ARRAY(
      SELECT s FROM sluice_private.takers_of(queue, part.next_appended_at, 'it', sluice_private.row_locks()) t
      CROSS JOIN LATERAL sluice_private.say('due_now',
        'It is the next event of its partition, and nothing is in its way: ' || t.words, since => part.next_appended_at,
        details => t.details || jsonb_build_object('partition', part.partition), remedy => t.remedy) s);
  END IF;
  RETURN QUERY SELECT * FROM unnest(reasons);
  RETURN QUERY SELECT * FROM sluice_private.why_evidence(queue, -at, part.attempt);
END
$$;

CREATE FUNCTION sluice_private.event_reasons(stream text, name text, at bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on AS $$
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
  queue text := log.stream || ':' || this_group.name;
  event record;
  part record;
  message_id bigint;
BEGIN
  SELECT e.* INTO event FROM sluice_private.event_at(log, at) e;
  SELECT p.* INTO part FROM sluice_private.read_group_partitions(event_reasons.stream, event_reasons.name, 1) p
  WHERE p.partition = event.partition;
  IF event.partition IS NOT NULL AND at > greatest(part.position, log.trimmed_to) THEN
    RETURN QUERY SELECT * FROM sluice_private.unread_event_reasons(log, this_group, part, at);
    RETURN;
  END IF;
  message_id := CASE WHEN event.partition IS NOT NULL OR at <= log.trimmed_to
    THEN sluice_private.message_of_event(queue, at, event.ordering_key) END;
  IF message_id IS NOT NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.message_reasons(queue, message_id);
    RETURN NEXT sluice_private.say('deferred',
      format('The event is message %s of queue "%s".', message_id, queue),
      details => jsonb_build_object('message', message_id::text),
      remedy => format('npx sluice explain %s %s', queue, message_id));
  ELSIF event.partition IS NULL OR at <= log.trimmed_to THEN
    RETURN QUERY SELECT * FROM sluice_private.why_no_event(log, this_group, at,
      sluice_private.stream_head(log.positions));
  ELSE
    RETURN NEXT sluice_private.say('handled',
      'The group has read past the event, and neither a message nor a dead letter of its queue is left of it: it was '
      'handled.', details => jsonb_build_object('partitionReadAt', part.moved_at));
  END IF;
END
$$;

CREATE FUNCTION sluice.explain_event(stream text, name text, "position" bigint) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT e.* FROM sluice_private.explained(
    'event_reasons',
    ARRAY[explain_event.stream, explain_event.name, explain_event.position::text]) e
$$;
COMMENT ON FUNCTION sluice.explain_event IS
  'Explains why a group has not handled an event: one row per reason, the main one first, as sluice.explain does.';
