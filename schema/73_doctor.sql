-- What the doctor finds in keys, limits, schedules and streams, and the doctor itself.
--
-- Public functions: sluice.doctor.

-- Ordering keys that have waited for a failed message for an hour at least, as its last five failures tell. By the
-- slots, and in leased mode by message_lease_idx, of each queue at most 200; the three that have waited longest, and how many
-- more there are. How many wait behind it: of the next thousand messages of its slot.
CREATE FUNCTION sluice_private.doctor_keys(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH closed AS (
    SELECT q.name, k.id FROM sluice_private.queues_to_look_at() AS q (name) CROSS JOIN LATERAL (
      SELECT (k.value ->> 0)::bigint AS id
      FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
      WHERE s.queue = q.name AND (k.value ->> 1)::bigint > extract(epoch FROM sluice_private.clock()) * 1000000
      LIMIT 200
    ) k
    UNION
    SELECT q.name, m.id FROM sluice_private.queues_to_look_at() AS q (name) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m WHERE m.queue = q.name AND m.slot IS NOT NULL AND m.lease IS NOT NULL
      ORDER BY m.slot, m.id, m.lease LIMIT 200
    ) m
  )
  SELECT 'keys.held', 'warning', format('queue %s, key %s', m.queue, coalesce(m.ordering_key, '(all)')),
         format('Message %s has failed %s, the first known time %s ago, and its key waits for it%s; the last '
           'error: %s', m.id, sluice_private.counted(m.attempt, 'time'), sluice_private.duration_words_of(sluice_private.clock() - m.since), coalesce((
             SELECT format(', with %s behind it', sluice_private.counted(count(*), 'message')) FROM (
               SELECT b.ordering_key FROM sluice.message b WHERE b.queue = m.queue AND b.slot = m.slot AND b.id > m.id
               ORDER BY b.id LIMIT 1000
             ) b WHERE b.ordering_key = m.ordering_key HAVING m.slot IS NOT NULL), ''),
           coalesce(sluice_private.error_line(m.last_error), 'none'))
           || CASE WHEN m.place = 3 AND m.keys > 3 THEN format('. %s of the queue %s as long', sluice_private.counted(m.keys - 3, 'more key'),
             CASE m.keys - 3 WHEN 1 THEN 'waits' ELSE 'wait' END) ELSE '' END,
         format('npx sluice message run-now %s %s # or: npx sluice message cancel %s %s', m.queue, m.id, m.queue, m.id)
  FROM (
    -- Of each queue those that have waited longest.
    SELECT m.*, f.since, row_number() OVER (PARTITION BY m.queue ORDER BY f.since, m.id) AS place,
           count(*) OVER (PARTITION BY m.queue) AS keys
    FROM closed c (queue, id)
    CROSS JOIN LATERAL (SELECT m.* FROM sluice.message m WHERE m.queue = c.queue AND m.id = c.id OFFSET 0) m
    CROSS JOIN LATERAL (SELECT coalesce((m.failures -> 0 ->> 'at')::timestamptz, m.failed_at) AS since) f
    WHERE m.attempt > 0 AND f.since < sluice_private.clock() - interval '1 hour'
  ) m
  WHERE m.place <= 3
$$;

-- Queues that have as many messages in flight as they may, all of them for longer than open_for, while others are due.
CREATE FUNCTION sluice_private.doctor_limits(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT f.queue, f.id, min(f.claimed_at) AS since, min(coalesce(f.worker, 'claim ' || f.claim)) AS holder
    FROM sluice.in_flight f JOIN sluice.queue q ON q.queue = f.queue AND q.concurrency IS NOT NULL
    WHERE f.worker_alive IS NOT FALSE GROUP BY f.queue, f.id
  )
  SELECT 'limits.stuck', 'warning', 'queue ' || q.queue,
         format('Its limit of %s in flight has been used up for %s, by message %s in %s; others are due',
           sluice_private.counted(q.concurrency, 'message'), sluice_private.duration_words_of(sluice_private.clock() - h.since), h.id, h.holder),
         format('npx sluice message cancel %s %s # or: npx sluice queue set %s --concurrency %s', q.queue, h.id,
           q.queue, q.concurrency * 2)
  FROM sluice.queue q CROSS JOIN LATERAL (
    SELECT count(*) AS messages, max(o.since) AS since, (array_agg(o.id ORDER BY o.since))[1] AS id,
           (array_agg(o.holder ORDER BY o.since))[1] AS holder
    FROM held o WHERE o.queue = q.queue AND o.since < sluice_private.clock() - open_for
  ) h
  WHERE CASE WHEN h.messages >= q.concurrency THEN EXISTS (
    SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM sluice.message m WHERE m.queue = q.queue AND m.slot IS NULL AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT q.concurrency + 1
    ) m
    WHERE m.due_at <= sluice_private.clock() AND NOT EXISTS (SELECT FROM held o WHERE o.queue = q.queue AND o.id = m.id)
    UNION ALL
    SELECT FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM sluice.message m WHERE m.queue = q.queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 10
    ) m
    WHERE m.due_at <= sluice_private.clock() AND NOT EXISTS (SELECT FROM held o WHERE o.queue = q.queue AND o.id = m.id)
  ) END
$$;

-- Tenants that have as many messages in flight as they may, all of them for longer than open_for, while others are due, by
-- message_tenant_idx.
CREATE FUNCTION sluice_private.doctor_tenants(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT DISTINCT ON (f.queue, f.id) f.queue, f.id, m.tenant, f.claimed_at AS since,
           coalesce(e.concurrency, q.tenant_concurrency) AS most, e.name AS endpoint,
           coalesce(f.worker, 'claim ' || f.claim) AS holder
    FROM sluice.in_flight f
    JOIN sluice.queue q ON q.queue = f.queue AND q.tenant_concurrency IS NOT NULL
    JOIN sluice.message m ON m.queue = f.queue AND m.id = f.id AND m.tenant IS NOT NULL
    LEFT JOIN sluice.endpoint e ON e.queue = m.queue AND e.name = m.tenant AND e.concurrency IS NOT NULL
    WHERE f.worker_alive IS NOT FALSE ORDER BY f.queue, f.id, f.claimed_at
  ), full_up AS MATERIALIZED (
    SELECT h.queue, h.tenant, h.most, h.endpoint, max(h.since) AS since, (array_agg(h.id ORDER BY h.since))[1] AS id,
           (array_agg(h.holder ORDER BY h.since))[1] AS holder
    FROM held h WHERE h.since < sluice_private.clock() - open_for
    GROUP BY h.queue, h.tenant, h.most, h.endpoint HAVING count(*) >= h.most
  )
  SELECT 'limits.tenant_stuck', 'warning', format('queue %s, tenant %s', t.queue, t.tenant),
         format('The tenant''s limit of %s in flight has been used up for %s, by message %s in %s; others of it are due',
           sluice_private.counted(t.most, 'message'), sluice_private.duration_words_of(sluice_private.clock() - t.since), t.id, t.holder),
         format('npx sluice message cancel %s %s # or: %s', t.queue, t.id, sluice_private.raise_limit(t.queue, t.endpoint, t.most))
  FROM full_up t
  WHERE EXISTS (
    SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM sluice.message m
      WHERE m.queue = t.queue AND m.tenant IS NOT NULL AND m.tenant = t.tenant AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT t.most + 1
    ) m
    WHERE m.due_at <= sluice_private.clock() AND NOT EXISTS (SELECT FROM held h WHERE h.queue = t.queue AND h.id = m.id)
  )
$$;

-- Messages whose workers died or hung with them more than once: nothing else need be wrong with those workers.
CREATE FUNCTION sluice_private.doctor_crashes(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'messages.crashing', 'warning', format('queue %s, message %s', c.queue, c.message_id),
         format('%s workers died or hung while they had it, the last one, %s, %s ago', count(*),
           (array_agg(c.worker ORDER BY c.crashed_at DESC))[1],
           sluice_private.duration_words_of(sluice_private.clock() - max(c.crashed_at))),
         format('npx sluice message cancel %s %s # if it is to blame', c.queue, c.message_id)
  FROM sluice.crash c WHERE c.kind <> 'lost' GROUP BY c.queue, c.message_id HAVING count(*) > 1
  ORDER BY count(*) DESC
$$;

-- Schedules whose time has passed, or that no worker can compute; and maintenance that no worker makes. A worker looks
-- at least once a minute for schedules, and makes a pass of maintenance every five by default.
CREATE FUNCTION sluice_private.doctor_schedules(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'schedules.failed', 'error', 'schedule ' || s.name,
         format('No worker can enqueue its next message: %s', left(s.error, 500)),
         format('npx sluice schedule get %s # and define it again as the error says', s.name)
  FROM sluice.schedule s WHERE s.error IS NOT NULL AND s.paused_at IS NULL
  UNION ALL
  SELECT 'schedules.overdue', 'error', 'schedule ' || s.name,
         format('Its next message should have been enqueued %s ago, and no worker has done it',
           sluice_private.duration_words_of(sluice_private.clock() - s.next_at)),
         'node worker.ts # or npx sluice work ./worker.ts; any running worker enqueues what is due'
  FROM sluice.schedule s
  WHERE s.next_at < sluice_private.clock() - interval '90 seconds' AND s.paused_at IS NULL AND s.error IS NULL
  UNION ALL
  SELECT 'maintenance.late', 'warning', 'maintenance',
         format('Workers run, and the last pass began %s: expired messages, history and segments of streams stay',
           CASE WHEN isfinite(m.begun_at) THEN sluice_private.duration_words_of(sluice_private.clock() - m.begun_at) || ' ago'
             ELSE 'never' END),
         'npx sluice maintain # and see maintenanceInterval of the workers'
  FROM sluice.maintenance m
  WHERE m.begun_at < sluice_private.clock() - interval '1 hour'
    AND EXISTS (
      SELECT FROM sluice.workers w WHERE w.alive AND w.started_at < sluice_private.clock() - interval '1 hour'
    )
$$;

-- Groups that do not read, and why; streams whose open appends hold groups back; and segments that groups keep although
-- they are old enough, or the stream large enough, for them to go.
CREATE FUNCTION sluice_private.doctor_streams(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH part AS MATERIALIZED (
    SELECT r.stream, r.name, r.partition, r.next_position, r.next_appended_at, r.held_until, r.last_error
    FROM sluice_private.read_group_partitions(NULL, NULL, 1) r
  ), unread AS (
    SELECT p.stream, p.name, count(*) AS partitions, min(p.next_appended_at) AS since FROM part p
    WHERE p.next_position IS NOT NULL GROUP BY p.stream, p.name
  ), kept AS (
    SELECT s.stream, g.closed_at, (
      SELECT string_agg(o.name, ', ' ORDER BY o.name) FROM sluice.stream_group o
      WHERE o.stream = s.stream AND sluice_private.pins(s, o)
        AND (sluice_private.unread_in('event_' || s.id, o.id, s.trimmed_to, g.first + 999999999)).first IS NOT NULL
    ) AS groups
    FROM sluice.stream s CROSS JOIN LATERAL (
      SELECT o.first, o.closed_at FROM sluice.segment o
      WHERE o.stream_id = s.id AND o.closed_at IS NOT NULL AND o.dropping_at IS NULL ORDER BY o.first LIMIT 1
    ) g
    WHERE g.closed_at < sluice_private.clock() - s.retain_ms * interval '1 millisecond' OR s.retain_bytes < (
      SELECT sum(sluice_private.segment_bytes(b.stream_id, b.first)) FROM sluice.segment b
      WHERE b.stream_id = s.id AND b.dropping_at IS NULL
    )
  )
  SELECT 'groups.stopped', 'error', format('group %s of stream %s, partition %s', p.name, p.stream, p.partition),
         format('It waits for event %s, which has failed for good: %s', p.next_position,
           coalesce(sluice_private.error_line(p.last_error), 'without an error')),
         format('npx sluice group retry %s %s --partition %s # or: npx sluice group skip %s %s %s', p.stream, p.name,
           p.partition, p.stream, p.name, p.next_position)
  FROM part p WHERE p.held_until = 'infinity'
  UNION ALL
  SELECT 'groups.no_members', 'error', format('group %s of stream %s', u.name, u.stream),
         format('It has unread events in %s, the oldest for %s, and no live worker reads them',
           sluice_private.counted(u.partitions, 'partition'),
           sluice_private.duration_words_of(sluice_private.clock() - u.since)),
         'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it'
  FROM unread u
  WHERE u.since < sluice_private.clock() - interval '1 minute'
    AND NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive AND u.stream || ':' || u.name = ANY (w.queues))
    AND NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = u.stream || ':' || u.name AND q.paused_at IS NOT NULL)
  UNION ALL
  SELECT 'groups.lost', 'error', format('group %s of stream %s', g.name, g.stream),
         format('Retention has removed the events %s to %s, which it had not read: it reads nothing until it is moved',
           g.lost_from, g.lost_to),
         format('npx sluice group seek %s %s --to start', g.stream, g.name)
  FROM sluice.stream_group g WHERE g.lost_from IS NOT NULL
  UNION ALL
  SELECT 'streams.open_append', 'warning', 'stream ' || s.stream,
         format('A transaction that has appended has been open for %s, %s: groups do not read the events after it',
           sluice_private.duration_words_of(sluice_private.clock() - r.open_since),
           CASE WHEN r.open_pid > 0 THEN 'in process ' || r.open_pid ELSE 'and is prepared' END),
         CASE WHEN r.open_pid > 0 THEN format('SELECT pg_terminate_backend(%s);', r.open_pid)
           ELSE 'SELECT gid, prepared FROM pg_prepared_xacts;' END
  FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_stream(s.id) r
  WHERE r.open_since < sluice_private.clock() - open_for
  UNION ALL
  SELECT 'streams.retention_blocked', 'warning', 'stream ' || k.stream,
         format('Its oldest segment, closed %s ago, is to go, and is kept for what these groups have not read: %s',
           sluice_private.duration_words_of(sluice_private.clock() - k.closed_at), k.groups),
         format('npx sluice group list %s # start its workers, seek it, or delete it', k.stream)
  FROM kept k WHERE k.groups IS NOT NULL
$$;

-- The findings of one part: of each check the first 20, and how many more there are.
CREATE FUNCTION sluice_private.doctor_part(part text, open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY EXECUTE format($part$
    WITH found AS MATERIALIZED (
      SELECT f.*, row_number() OVER (PARTITION BY f.kind ORDER BY f.ordinality) AS nth,
             count(*) OVER (PARTITION BY f.kind) AS found
      FROM sluice_private.doctor_%s($1) WITH ORDINALITY f
    )
    SELECT f.kind, f.severity, f.subject, f.finding, f.remedy FROM found f WHERE f.nth <= 20
    UNION ALL
    SELECT f.kind, f.severity, format('%%s more', f.found - 20),
           format('This check has %%s findings, and the first 20 are listed', f.found),
           'SELECT * FROM sluice_private.doctor_%s(''5 minutes''); -- as the owner of the schema: all of them'
    FROM found f WHERE f.nth = 21$part$, part, part) USING open_for;
END
$$;

CREATE FUNCTION sluice.doctor(open_for interval DEFAULT '5 minutes')
RETURNS TABLE (kind text, severity text, subject text, finding text, remedy text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET lock_timeout = '1s' SET jit = off AS $$
DECLARE
  of_catalog text[] := '{locks,schema,owner,settings,connections}';
  of_rows text[] := '{vacuum,bloat,horizon,notify,workers,relays,inboxes,names,consumers,failures,keys,limits,tenants,crashes,schedules,streams}';
  -- Once it has ended a part, the server's limit of time ends no other: what is left may not run without one.
  most interval := current_setting('statement_timeout')::interval;
  over boolean := false;
  -- Parts that a lock of a table kept from looking.
  locked text[] := '{}';
  part text;
BEGIN
  IF open_for IS NULL THEN
    RAISE EXCEPTION 'open_for: expected a time, received NULL' USING ERRCODE = '22023',
      HINT = 'For example interval ''5 minutes''.';
  END IF;
  PERFORM sluice_private.check_time('open_for', open_for, 'For example interval ''5 minutes''.');
  IF pg_is_in_recovery() THEN
    of_rows := '{}';
    RETURN QUERY SELECT 'server.standby', 'unknown', 'server',
      'This is a standby, which does not see the locks and the statistics of its primary: workers, queues, vacuum and '
      'the horizon were not looked at',
      'npx sluice doctor --database-url <the primary>';
  END IF;
  FOREACH part IN ARRAY of_catalog || of_rows LOOP
    -- One part that cannot look, because a table is gone or locked, keeps no other from looking.
    BEGIN
      IF NOT over THEN
        RETURN QUERY SELECT * FROM sluice_private.doctor_part(part, open_for);
      END IF;
    EXCEPTION
      WHEN query_canceled THEN
        over := most > interval '0' AND clock_timestamp() - statement_timestamp() >= most;
        IF NOT over THEN
          RAISE;
        END IF;
      WHEN lock_not_available THEN
        locked := locked || ('doctor_' || part);
        -- The parts behind it mostly wait for the same lock.
        PERFORM set_config('lock_timeout', '50ms', true);
      WHEN OTHERS THEN
        RETURN QUERY SELECT 'doctor.failed', 'unknown', 'doctor_' || part,
          format('It could not look: %s (%s)', SQLERRM, SQLSTATE),
          format('SELECT * FROM sluice_private.doctor_%s(''5 minutes'');', part);
    END;
    IF over THEN
      RETURN QUERY SELECT 'doctor.failed', 'unknown', 'doctor_' || part,
        format('It could not look: the time of statement_timeout, %s, is over', current_setting('statement_timeout')),
        'PGOPTIONS=''-c statement_timeout=60s'' npx sluice doctor';
    END IF;
  END LOOP;
  IF locked <> '{}' THEN
    RETURN QUERY SELECT 'doctor.failed', 'unknown', array_to_string(locked, ', '),
      'They could not look, because a session has locked a table'::text,
      'npx sluice doctor # again, when the lock of locks.table has ended'::text;
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.doctor IS
  'Looks for what is wrong with this installation, and changes nothing. One row per finding: kind, a stable name; '
  'severity, error, warning or unknown; subject; finding, what was seen; remedy, a command or statement to copy. '
  'open_for: how long a transaction, or all messages in flight under a limit, may last before that is a finding.';
