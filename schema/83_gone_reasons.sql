-- Reasons of a message that is not there: it is dead, has succeeded, is gone, or is not committed.

-- A standby sees neither locks nor batches.
CREATE FUNCTION sluice_private.why_not_visible() RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.say('not_visible',
    'This is a standby, which sees no locks and no batches: what is due may be in flight. Ask the primary server.') s
  WHERE pg_is_in_recovery()
$$;

-- By when an id had been drawn: a message with a higher id was enqueued then, or maintenance has noted it. Ids come from a
-- sequence, and a row draws its id before it reads the clock. The next messages and dead letters of up to a hundred queues
-- are looked at; one that was an event has the time of the event. Null: nothing tells.
CREATE FUNCTION sluice_private.drawn_before(id bigint) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT least(min(later.enqueued_at), (
    SELECT m.at FROM sluice.id_mark m WHERE m.id >= drawn_before.id ORDER BY m.id LIMIT 1
  )) FROM sluice_private.names_of_queues(100) AS q (name) CROSS JOIN LATERAL (
    (SELECT m.enqueued_at, m.event_position FROM sluice.message m WHERE m.queue = q.name AND m.id > drawn_before.id
     ORDER BY m.queue, m.id LIMIT 1)
    UNION ALL
    (SELECT d.enqueued_at, d.event_position FROM sluice.dead_letter d WHERE d.queue = q.name AND d.id > drawn_before.id
     ORDER BY d.queue, d.id LIMIT 1)
  ) later
  WHERE later.event_position IS NULL
$$;

-- Open transactions that have written to sluice.message: which message one has enqueued nobody else can see. The oldest
-- five, as far as the owner of the schema may see how old they are. One that began after the id was drawn has not drawn
-- it.
CREATE FUNCTION sluice_private.why_not_committed(drawn_before timestamptz DEFAULT NULL)
RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT DISTINCT l.pid, l.virtualtransaction FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.relation = 'sluice.message'::regclass AND l.mode = 'RowExclusiveLock'
      AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ) w LEFT JOIN pg_stat_activity a ON a.pid = w.pid
  CROSS JOIN LATERAL sluice_private.say('not_committed',
    'A transaction that has written to sluice.message is open. If it enqueued the message, that appears with its '
    'COMMIT.',
    pid => coalesce(w.pid, 0)) s
  WHERE (a.xact_start > why_not_committed.drawn_before) IS NOT TRUE
  ORDER BY a.xact_start, w.pid LIMIT 5
$$;

CREATE FUNCTION sluice_private.why_dead(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.dead_letter d CROSS JOIN LATERAL sluice_private.say('dead',
    format('It became a dead letter %s ago: %s.', sluice_private.duration_words_to(d.died_at), left(d.reason, 200))
      || coalesce(' Its last error: ' || sluice_private.quoted(d.error) || '.', ''),
    since => d.died_at,
    details => jsonb_build_object('attempt', d.attempt, 'diedOf', d.reason, 'error', left(d.error, 2000)),
    remedy => format('npx sluice dead redrive %s --id %s', d.queue, d.id)) s
  WHERE d.queue = why_dead.queue AND d.id = why_dead.id
$$;

CREATE FUNCTION sluice_private.why_completed(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.completed_message c CROSS JOIN LATERAL sluice_private.say('completed',
    format('It succeeded %s ago, in attempt %s, %s.', sluice_private.duration_words_to(c.completed_at), c.attempt, CASE
      WHEN c.worker IS NOT NULL THEN 'on worker ' || sluice_private.quoted(c.worker)
      WHEN c.claim IS NOT NULL THEN 'in claim ' || c.claim ELSE 'by a pop' END),
    since => c.completed_at,
    details => jsonb_build_object('attempt', c.attempt, 'worker', c.worker, 'claim', c.claim::text)) s
  WHERE c.queue = why_completed.queue AND c.id = why_completed.id ORDER BY c.completed_at DESC LIMIT 1
$$;

-- Names that queues have: of messages, settings, workers and groups, 50 of each.
CREATE FUNCTION sluice_private.known_queues() RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT q FROM sluice_private.names_of_queues(50) q)
    || ARRAY(SELECT q.queue FROM sluice.queue q ORDER BY q.queue LIMIT 50)
    || ARRAY(SELECT DISTINCT c.name FROM sluice.worker w CROSS JOIN LATERAL unnest(w.queues) AS c (name) LIMIT 50)
    || ARRAY(SELECT g.stream || ':' || g.name FROM sluice.stream_group g ORDER BY g.stream, g.name LIMIT 50)
$$;

-- A queue that has no message, no settings and no worker may be a typing mistake: the name that was likely meant.
CREATE FUNCTION sluice_private.meant_queue(queue text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.nearest_name(queue, ARRAY(SELECT DISTINCT k FROM unnest(sluice_private.known_queues()) AS k))
  WHERE NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = meant_queue.queue)
    AND NOT EXISTS (SELECT FROM sluice.worker w WHERE meant_queue.queue = ANY (w.queues))
    AND NOT EXISTS (SELECT m.id FROM sluice.message m WHERE m.queue = meant_queue.queue ORDER BY m.queue, m.id LIMIT 1)
    AND NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = meant_queue.queue)
$$;

-- Of an id that is nowhere in its queue: of a message of another one, or of none.
CREATE FUNCTION sluice_private.why_gone(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('sluice.message', 'id')::regclass), 0);
  elsewhere text := (SELECT q.name FROM sluice_private.names_of_queues(100) AS q (name) CROSS JOIN LATERAL (
    SELECT m.id FROM sluice.message m WHERE m.queue = q.name AND m.id = id LIMIT 1) m LIMIT 1);
  kept_ms bigint := (SELECT q.history_ms FROM sluice.queue q WHERE q.queue = queue);
  nearest text;
BEGIN
  IF elsewhere IS NOT NULL THEN
    RETURN NEXT sluice_private.say('other_queue',
      format('Message %s is in queue "%s", and not in "%s".', id, elsewhere, queue),
      details => jsonb_build_object('queue', elsewhere), remedy => format('npx sluice explain %s %s', elsewhere, id));
    RETURN;
  ELSIF id > last_id THEN
    RETURN NEXT sluice_private.say('never_existed',
      format('No message has had the id %s: the highest one so far is %s.', id, last_id),
      details => jsonb_build_object('lastId', last_id::text));
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_not_committed(sluice_private.drawn_before(id));
  nearest := sluice_private.meant_queue(queue);
  RETURN NEXT sluice_private.say('not_found',
    format('Queue "%s" has no message %s, dead or alive. It was handled, cancelled, cleared or deleted, or its enqueue '
      'was rolled back. ', queue, id) || CASE
    WHEN nearest IS NOT NULL THEN format('It has no other message, no settings and no worker. Did you mean "%s"?',
      nearest)
    WHEN kept_ms IS NULL THEN 'The queue keeps no history that could tell.'
    ELSE 'Its history does not have it.' END,
    details => jsonb_build_object('nearest', nearest),
    remedy => CASE WHEN nearest IS NOT NULL THEN format('npx sluice explain %s %s', nearest, id)
      WHEN kept_ms IS NULL THEN format('npx sluice queue set %s --history 7d', queue) END);
END
$$;
