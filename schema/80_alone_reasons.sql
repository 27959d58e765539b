-- Reasons of what waits because a message has a worker process to itself, after processes died with it.

-- Live workers whose only batch is one message that runs alone.
CREATE FUNCTION sluice_private.alone_batches()
RETURNS TABLE (worker_id integer, name text, queue text, message_id bigint, claimed_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT w.id, w.name, b.queue, b.message_id, b.claimed_at
  FROM (
    SELECT b.worker_id, min(b.queue) AS queue, min(b.message_ids[1]) AS message_id, min(b.claimed_at) AS claimed_at
    FROM sluice_private.batch_records() b
    GROUP BY b.worker_id HAVING count(*) = 1 AND min(cardinality(b.message_ids)) = 1
  ) b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE sluice_private.runs_alone(b.queue, b.message_id)
$$;

-- Each live worker of the queue that is not stale runs a message alone, three at most.
CREATE FUNCTION sluice_private.why_all_workers_alone(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH alone AS (SELECT a.* FROM sluice_private.alone_batches() a)
  SELECT s.* FROM alone a CROSS JOIN LATERAL (
    SELECT a.message_id < 0 AS is_event, CASE WHEN a.message_id < 0
      THEN split_part(a.queue, ':', 1) || '/' || -a.message_id ELSE a.queue || '/' || a.message_id END AS path
  ) n CROSS JOIN LATERAL sluice_private.say('alone',
    format('Worker %s handles %s %s alone, for %s, because processes died with it: it takes nothing else until that has '
      'ended.', sluice_private.quoted(a.name), CASE WHEN n.is_event THEN 'event' ELSE 'message' END, n.path,
      sluice_private.duration_words_to(a.claimed_at)),
    since => a.claimed_at, details => jsonb_build_object('worker', a.name, 'queue', a.queue,
      'message', CASE WHEN NOT n.is_event THEN a.message_id::text END,
      'position', CASE WHEN n.is_event THEN -a.message_id END),
    remedy => CASE WHEN n.is_event THEN format('npx sluice explain %s %s', a.queue, n.path)
      ELSE format('npx sluice message cancel %s %s', a.queue, a.message_id) END) s
  WHERE EXISTS (SELECT FROM sluice.worker w WHERE w.id = a.worker_id AND why_all_workers_alone.queue = ANY (w.queues))
    AND NOT EXISTS (
      SELECT FROM sluice.workers v
      WHERE v.alive AND why_all_workers_alone.queue = ANY (v.queues) AND NOT v.stale
        AND NOT EXISTS (SELECT FROM alone o WHERE o.worker_id = v.id)
    )
  ORDER BY a.claimed_at LIMIT 3
$$;

-- It is due, and has to run alone itself: its workers have other messages in flight, or have just come to have none.
CREATE FUNCTION sluice_private.why_waits_to_run_alone(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF m.due_at <= clock_timestamp() AND sluice_private.runs_alone(m.queue, m.id) AND EXISTS (
    SELECT FROM sluice.workers w WHERE w.alive AND m.queue = ANY (w.queues)
  ) THEN
    RETURN NEXT sluice_private.say('alone',
      'It waits for a worker process to be free, to run alone: processes died with it, and the next one must tell '
      'whether it was the reason. After 30s of waiting for other messages of a process it runs beside them.',
      since => m.due_at, remedy => format('npx sluice message cancel %s %s', m.queue, m.id));
  END IF;
END
$$;
