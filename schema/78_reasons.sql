-- What reasons are made of, and which sessions they name.
--
-- Each function of the files behind this one returns its reason as one row, or none. All are STABLE and lock nothing. They
-- run with the rights of the owner, who may read what they read, under planner settings by which no plan walks a backlog:
-- see sluice_private.message_reasons. What a session does is not theirs to tell: a row has its pid, and the public function
-- adds what its caller may see of it.

CREATE TYPE sluice_private.reason AS (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text,
  -- The server process that is the reason; 0: a prepared transaction, which has none.
  pid integer
);

CREATE FUNCTION sluice_private.say(
  reason text, explanation text, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
  details jsonb DEFAULT '{}', remedy text DEFAULT NULL, pid integer DEFAULT NULL
) RETURNS sluice_private.reason
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ROW(say.reason, say.explanation, say.since, say.until, jsonb_strip_nulls(say.details), say.remedy, say.pid)
    ::sluice_private.reason
$$;

-- The transactions that run, each with its server process, or 0 for a prepared one. Read once per look.
CREATE FUNCTION sluice_private.row_locks() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(l.transactionid::text, coalesce(l.pid, 0)), '{}') FROM pg_locks l
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
$$;

-- Which of them has locked a row, by its xmax; null: none. A row that several have locked, or one twice, has the number
-- of a MultiXact there, and nothing tells it from that of a transaction: it is one if there is a MultiXact of this number
-- and a member of it runs.
CREATE FUNCTION sluice_private.locker(holder xid, locks jsonb) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF locks ? holder::text THEN
    RETURN (locks ->> holder::text)::integer;
  -- A number that is out of this range would be an error.
  ELSIF locks = '{}' OR holder = '0'::xid OR mxid_age(holder) NOT BETWEEN 1 AND (
    SELECT mxid_age(d.datminmxid) FROM pg_database d WHERE d.datname = current_database()
  ) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT (locks ->> m.xid::text)::integer FROM pg_get_multixact_members(holder) m
    WHERE locks ? m.xid::text ORDER BY m.mode LIMIT 1);
END
$$;

-- What the caller may see of a session. It runs with the rights of its caller: of the sessions of others PostgreSQL
-- shows a login no more than their names.
CREATE FUNCTION sluice_private.session_facts(pid integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'pid', a.pid, 'application', nullif(a.application_name, ''), 'user', a.usename, 'state', a.state,
    'stateSince', a.state_change, 'querySince', a.query_start, 'transactionSince', a.xact_start,
    'hidden', CASE WHEN a.backend_start IS NULL THEN true END
  ))
  FROM pg_stat_activity a WHERE a.pid = session_facts.pid
$$;

-- begin: 'It is'
CREATE FUNCTION sluice_private.session_words(begin text, pid integer, facts jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN pid = 0 THEN format('%s a prepared transaction: pg_prepared_xacts lists it.', begin)
    WHEN facts IS NULL THEN format('Server process %s has ended since.', pid)
    ELSE format('%s server process %s (%s)%s.', begin, pid,
      concat_ws(', ', facts ->> 'application', 'user ' || (facts ->> 'user')),
      CASE WHEN facts ? 'hidden'
        THEN format(': role %s may not see what it does (pg_read_all_stats)', sluice_private.quoted(current_user))
        ELSE concat(
          ', ' || (facts ->> 'state') || ' for ' || sluice_private.duration_words_to((facts ->> 'stateSince')::timestamptz),
          ', in a transaction for ' || sluice_private.duration_words_to((facts ->> 'transactionSince')::timestamptz)
        ) END) END
$$;

-- What ends a session, or shows the prepared transactions, of which nobody knows which one it is.
CREATE FUNCTION sluice_private.end_of_session(pid integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE pid WHEN 0 THEN 'SELECT gid, prepared FROM pg_prepared_xacts;'
    ELSE format('SELECT pg_terminate_backend(%s);', pid) END
$$;

-- The session for which a server process waits, and which waits for no other: it begins with the process, and follows
-- the locks. 0: a prepared transaction; null: the process waits for no lock.
CREATE FUNCTION sluice_private.blocker_of(pid integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  at integer := pid;
BEGIN
  -- pg_blocking_pids stops the server's lock manager for a moment, so it is asked of those that wait alone. Of a deadlock it
  -- would go round.
  FOR step IN 1..10 LOOP
    EXIT WHEN NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = at AND NOT l.granted);
    at := coalesce((pg_blocking_pids(at))[1], at);
    EXIT WHEN at = 0;
  END LOOP;
  RETURN nullif(at, pid);
END
$$;

-- Sessions that have locked a table of Sluice against what claims and settlements do, or wait to: a table that these use, or
-- any. Where one waits, all that come after it wait with it.
CREATE FUNCTION sluice_private.why_table_locked(any_table boolean) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT l.pid, l.mode, l.granted, min('sluice.' || c.relname) AS name, count(*) AS tables
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.mode = ANY ('{ShareLock,ShareRowExclusiveLock,ExclusiveLock,AccessExclusiveLock}')
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r'
      AND (any_table OR c.relname = ANY ('{message,queue,slot,dead_letter,dedupe,kept_key,claim,cancel_request,schedule,'
        'worker,batch_record,crash,permit,bucket,turn,stream,segment,stream_group,group_progress,group_queued}'))
    GROUP BY l.pid, l.mode, l.granted
  ) t CROSS JOIN LATERAL sluice_private.say('table_locked',
    format(CASE WHEN t.granted THEN 'A session has locked table %s%s (%s): %s.'
        ELSE 'A session waits to lock table %s%s (%s), and all that comes after it waits: %s.' END,
      t.name, CASE WHEN t.tables > 1 THEN ' and others' ELSE '' END, t.mode,
      CASE WHEN t.mode = 'AccessExclusiveLock' THEN 'no other session can read or write it'
        ELSE 'no other session can write to it' END),
    details => jsonb_build_object('table', t.name, 'mode', t.mode, 'granted', t.granted),
    remedy => sluice_private.end_of_session(coalesce(t.pid, 0)), pid => coalesce(t.pid, 0)) s
  ORDER BY t.granted DESC, t.mode, t.pid LIMIT 3
$$;

-- Reasons as their reader sees them: with what the reader may know of the sessions, and of the session for which such a
-- one waits. It runs with the rights of its caller. Null: a lock of a table kept them from being read. What is gone no
-- such lock keeps waiting.
CREATE FUNCTION sluice_private.shown_reasons(reasons sluice_private.reason[]) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.reason, concat_ws(' ', r.explanation,
           CASE WHEN r.pid IS NOT NULL THEN sluice_private.session_words('It is', r.pid, f.facts) END,
           CASE WHEN b.pid IS NOT NULL THEN sluice_private.session_words('It waits for a lock of', b.pid, b.facts) END),
         coalesce(r.since, (f.facts ->> 'transactionSince')::timestamptz), r.until,
         r.details || coalesce(f.facts, '{}')
           || CASE WHEN b.pid IS NULL THEN '{}' ELSE jsonb_build_object('blockedBy', b.facts) END,
         CASE WHEN b.pid IS NULL THEN r.remedy ELSE sluice_private.end_of_session(b.pid) END
  FROM unnest(
    CASE WHEN reasons[1].reason = ANY ('{dead,completed,not_found,never_existed,other_queue,not_committed}')
      THEN reasons ELSE coalesce(
        nullif(ARRAY(SELECT t FROM sluice_private.why_table_locked(reasons IS NULL) t) || reasons, '{}'),
        ARRAY[sluice_private.say('table_locked', 'A lock of a table of Sluice kept this explanation waiting for half a '
          'second, and has ended since: ask again.')]) END
  ) WITH ORDINALITY AS r (reason, explanation, since, until, details, remedy, pid, ordinal)
  LEFT JOIN LATERAL (SELECT sluice_private.session_facts(r.pid) AS facts WHERE r.pid > 0) f ON true
  LEFT JOIN LATERAL (
    SELECT w.pid, sluice_private.session_facts(w.pid) AS facts
    FROM (SELECT sluice_private.blocker_of(r.pid) AS pid WHERE r.pid > 0) w
  ) b ON true
  ORDER BY r.ordinal
$$;

-- What an explanation shows: the reasons that a function finds for these arguments, or what keeps it from looking. The call is run
-- as text: one with a row of a table as its argument locks that table when it is planned, and that lock must be waited for here.
CREATE FUNCTION sluice_private.explained(found_by text, args text[]) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE
  literals text := (SELECT string_agg(quote_nullable(a.arg), ', ' ORDER BY a.nth) FROM unnest(args) WITH ORDINALITY AS a (arg, nth));
  reasons sluice_private.reason[];
BEGIN
  BEGIN
    EXECUTE format('SELECT ARRAY(SELECT r FROM sluice_private.%I(%s) r)', found_by, literals) INTO reasons;
  EXCEPTION WHEN lock_not_available THEN
    reasons := NULL;
  END;
  RETURN QUERY SELECT s.* FROM sluice_private.shown_reasons(reasons) s;
END
$$;
