-- What the doctor finds in workers and queues.

-- The command that ends a process. What a process has written about itself must not make another command of it.
CREATE FUNCTION sluice_private.kill_command(host text, pid integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('kill -9 %s # on %s', pid, regexp_replace(host, '[^A-Za-z0-9.:_-]', '?', 'g'))
$$;

-- Worker processes that do nothing, or differ.
CREATE FUNCTION sluice_private.doctor_workers(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH worker AS MATERIALIZED (
    SELECT w.*, sluice_private.clock() - w.seen_at AS unseen, p.pooled, p.listening
    FROM sluice.workers w JOIN sluice.worker p ON p.id = w.id
  )
  SELECT 'workers.stale', 'error', 'worker ' || w.name,
         format('Its connection is open, and it has sent no heartbeat for %s, with %s in flight: the process hangs or is '
           'stopped', sluice_private.duration_words_of(w.unseen), sluice_private.counted(w.in_flight, 'message')),
         sluice_private.kill_command(w.host, w.pid)
  FROM worker w WHERE w.stale
  UNION ALL
  -- Any live worker notices, whatever its queues; and one of the same queues goes on with their messages.
  SELECT 'workers.gone', CASE WHEN g.alone THEN 'error' ELSE 'warning' END, 'worker ' || w.name,
         format('It vanished with %s in flight, last seen %s ago, and %s', sluice_private.counted(w.in_flight, 'message'),
           sluice_private.duration_words_of(w.unseen),
           CASE WHEN g.alone THEN 'no live worker consumes its queues' ELSE 'no other worker has noticed' END),
         'node worker.ts # or npx sluice work ./worker.ts; any worker notices within a minute'
  FROM worker w
  CROSS JOIN LATERAL (SELECT NOT EXISTS (SELECT FROM worker o WHERE o.alive AND o.queues && w.queues) AS alone) g
  WHERE NOT w.alive AND w.in_flight > 0 AND (g.alone OR w.unseen > interval '3 minutes')
  UNION ALL
  SELECT 'workers.versions', 'warning', format('%s workers', count(*)),
         format('They run different versions of the library: %s', (
           SELECT string_agg(format('%s (%s)', v.version, v.workers), ', ' ORDER BY v.version)
           FROM (SELECT o.version, count(*) AS workers FROM worker o WHERE o.alive GROUP BY o.version) v)),
         'npx sluice status --json # names and versions; deploy the newest everywhere'
  FROM worker w WHERE w.alive HAVING count(DISTINCT w.version) > 1
  UNION ALL
  SELECT 'workers.pooled', 'warning', sluice_private.counted(count(*), 'worker'),
         format('Behind a pooler without a direct connection: %s. No notification gets there, and a message that kills its '
           'process is not detected',
           string_agg(w.name, ', ' ORDER BY w.name)),
         'createSluice({ connection, directConnection })'
  FROM worker w WHERE w.alive AND w.pooled HAVING count(*) > 0
  UNION ALL
  -- A listener is up within seconds. What a process has not said, because it has just started, is no finding.
  SELECT 'workers.not_listening', 'warning', 'worker ' || w.name,
         format('No notification reaches it, by its heartbeat %s ago: it finds messages by its poll',
           sluice_private.duration_words_of(w.unseen)),
         'SELECT pid, state FROM pg_stat_activity WHERE application_name = ''sluice listener''; -- its log has the reason, as '
         'listener.unavailable or connection.lost'
  FROM worker w
  WHERE w.alive AND NOT w.pooled AND NOT w.listening AND w.started_at < sluice_private.clock() - interval '1 minute'
  UNION ALL
  -- By the session that holds the worker's lock.
  SELECT 'privileges.worker', 'warning', 'worker ' || w.name,
         format('Its login, %s, may not write what it has done to sluice.worker_activity: charts and "sluice queue '
           'activity" lack it', a.usename),
         format('npx sluice roles # and then: GRANT sluice_worker TO %I;', a.usename)
  FROM worker w
  JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = w.id::oid AND l.objsubid = 2 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE NOT has_table_privilege(a.usesysid, 'sluice.worker_activity', 'INSERT')
$$;

-- The names of queues that have messages, at most so many: from each to the next in one descent of the primary key.
CREATE FUNCTION sluice_private.names_of_queues(most integer) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE named AS (
    (SELECT m.queue FROM sluice.message m ORDER BY m.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT m.queue FROM sluice.message m WHERE m.queue > n.queue ORDER BY m.queue LIMIT 1)
    FROM named n WHERE n.queue IS NOT NULL
  )
  SELECT n.queue FROM named n WHERE n.queue IS NOT NULL LIMIT most
$$;

-- The names of the queues whose messages are looked at: a thousand.
CREATE FUNCTION sluice_private.queues_to_look_at() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT q.name FROM sluice_private.names_of_queues(1000) AS q (name)
$$;

-- Whether there are more queues than are looked at.
CREATE FUNCTION sluice_private.doctor_names(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'queues.many', 'unknown', 'queues',
         format('Of more than 1000 queues the first 1000 by name were looked at for retries that fail alike and for held '
           'keys, up to %s, and the first 10000 for those without a worker', (array_agg(q.name ORDER BY q.name))[1000]),
         'npx sluice explain <queue> # for one of the others'
  FROM sluice_private.names_of_queues(1001) AS q (name) HAVING count(*) > 1000
$$;

-- Since when the oldest message of a queue has been due: of those without an ordering key, the first of each priority
-- by message_due_idx, and of the others the first 200 by message_slot_idx, which is not in the order of due times.
CREATE FUNCTION sluice_private.oldest_due(queue text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := sluice_private.clock();
BEGIN
  RETURN least((
    SELECT min(first.due_at) FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 1
    ) first WHERE first.due_at <= now_at
  ), (
    SELECT min(first.due_at) FROM (
      SELECT m.due_at FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 200
    ) first WHERE first.due_at <= now_at
  ));
END
$$;

-- Queues with messages that have been due for a minute, and no consumer: no live worker has the queue, no claim of it
-- is open, and it is not paused. Only the messages of these are looked at, of ten thousand queues at most. The queues of
-- groups are a matter of their streams.
CREATE FUNCTION sluice_private.doctor_consumers(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH consumed AS MATERIALIZED (
    SELECT unnest(w.queues) AS name FROM sluice.workers w WHERE w.alive
    UNION
    SELECT c.queue FROM sluice.claim c WHERE c.expires_at > sluice_private.clock()
    UNION
    SELECT s.queue FROM sluice.queue s WHERE s.paused_at IS NOT NULL
  ), unconsumed AS MATERIALIZED (
    SELECT q.name FROM sluice_private.names_of_queues(10000) AS q (name)
    WHERE NOT EXISTS (SELECT FROM consumed c WHERE c.name = q.name) AND NOT sluice_private.is_of_group(q.name)
  )
  SELECT 'queues.no_worker', 'error', 'queue ' || q.name,
         format('Its oldest message has been due for %s, and no live worker consumes the queue',
           sluice_private.duration_words_of(sluice_private.clock() - o.since)),
         'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it'
  FROM unconsumed q CROSS JOIN LATERAL (SELECT sluice_private.oldest_due(q.name) AS since OFFSET 0) o
  WHERE o.since < sluice_private.clock() - interval '1 minute'
$$;

-- The first line of an error, without the passwords of URLs. An error may be long, and the expression begins with a fixed
-- text for that reason.
CREATE FUNCTION sluice_private.error_line(error text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(regexp_replace(split_part(left(error, 4000), chr(10), 1),
    '(://[^[:space:]:/?#@"'']*:)[^[:space:]"'']*(?=@)', E'\\1***', 'g'), 200)
$$;

-- The same without its numbers: what failures of one kind have in common.
CREATE FUNCTION sluice_private.kind_of_error(line text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(regexp_replace(line, '[0-9]+', 'N', 'g'), 120)
$$;

-- Queues whose retries, or whose dead letters of the last hour, nearly all fail alike: at least ten, and nine of ten of
-- those that are looked at. An error in the same words everywhere is shown with its numbers. Of each queue the next 100
-- messages per priority to fall due are read by message_due_idx, and 100 with an ordering key by message_slot_idx; of dead
-- letters the latest 1,000 by dead_letter_died_at_idx.
CREATE FUNCTION sluice_private.doctor_failures(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE dead_name AS (
    (SELECT d.queue FROM sluice.dead_letter d ORDER BY d.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT d.queue FROM sluice.dead_letter d WHERE d.queue > n.queue ORDER BY d.queue LIMIT 1)
    FROM dead_name n WHERE n.queue IS NOT NULL
  ), failed AS (
    SELECT q.name AS queue, 'retries' AS kind, sluice_private.error_line(f.last_error) AS line
    FROM sluice_private.queues_to_look_at() AS q (name) CROSS JOIN LATERAL (
      SELECT n.attempt, n.last_error FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
        SELECT m.attempt, m.last_error FROM sluice.message m
        WHERE m.queue = q.name AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 100
      ) n
      UNION ALL
      (SELECT m.attempt, m.last_error FROM sluice.message m WHERE m.queue = q.name AND m.slot IS NOT NULL
       ORDER BY m.slot, m.id LIMIT 100)
    ) f
    WHERE f.attempt > 0 AND f.last_error IS NOT NULL
    UNION ALL
    SELECT n.queue, 'dead letters', sluice_private.error_line(d.error)
    FROM dead_name n CROSS JOIN LATERAL (
      SELECT d.error, d.died_at FROM sluice.dead_letter d WHERE d.queue = n.queue ORDER BY d.died_at DESC,
        d.id DESC LIMIT 1000
    ) d WHERE d.died_at > sluice_private.clock() - interval '1 hour' AND d.error IS NOT NULL
  ), alike AS (
    SELECT f.queue, f.kind,
           CASE WHEN min(f.line) = max(f.line) THEN min(f.line) ELSE sluice_private.kind_of_error(min(f.line)) END AS error,
           count(*) AS same, sum(count(*)) OVER (PARTITION BY f.queue, f.kind) AS looked_at
    FROM failed f GROUP BY f.queue, f.kind, sluice_private.kind_of_error(f.line)
  )
  SELECT CASE a.kind WHEN 'retries' THEN 'queues.alike' ELSE 'dead_letters.alike' END, 'warning', 'queue ' || a.queue,
         format('%s of %s %s that were looked at failed with: %s', a.same, a.looked_at, a.kind, a.error),
         CASE a.kind WHEN 'retries' THEN format('npx sluice queue pause %s # until what it needs works again', a.queue)
           ELSE format('npx sluice dead redrive %s # when the reason has gone', a.queue) END
  FROM alike a WHERE a.same >= 10 AND a.same >= 0.9 * a.looked_at
$$;

-- How long a relay or an inbox may be unavailable before the doctor and status say so: what waits for a change does not pass by
-- itself.
CREATE FUNCTION sluice_private.peer_patience(cause text) RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE cause WHEN 'settings' THEN interval '1 minute' ELSE interval '5 minutes' END
$$;

-- Relays, or inboxes, that have been unavailable for that long: of each queue the one that has waited longest. What a worker has
-- written of itself gets into no command.
CREATE FUNCTION sluice_private.doctor_peers(kind text) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE f.kind WHEN 'relay' THEN 'relays.unavailable' ELSE 'inboxes.unavailable' END, 'error', 'queue ' || f.queue,
         sluice_private.peer_words(f.peer, f.worker || CASE WHEN f.peers > 1
             THEN format(' (and of %s)', sluice_private.counted(f.peers - 1, 'other')) ELSE '' END,
           f.system, sluice_private.error_line(f.error)),
         sluice_private.peer_remedy(f.peer, '')
  FROM (
    SELECT DISTINCT ON (p.queue) p.*, p AS peer, count(*) OVER (PARTITION BY p.queue) AS peers
    FROM sluice_private.peers p
    WHERE p.kind = doctor_peers.kind AND p.state = 'unavailable'
      AND p.since < sluice_private.clock() - sluice_private.peer_patience(p.cause)
    ORDER BY p.queue, p.since, p.worker_id
  ) f
$$;

CREATE FUNCTION sluice_private.doctor_relays(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM sluice_private.doctor_peers('relay') $$;

CREATE FUNCTION sluice_private.doctor_inboxes(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM sluice_private.doctor_peers('inbox') $$;
