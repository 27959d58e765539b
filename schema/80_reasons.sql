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

-- Who has locked a row, by its xmax: the transactions that run, each with its server process. Read once per look.
CREATE FUNCTION sluice_private.row_locks() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(l.transactionid::text, coalesce(l.pid, 0)), '{}') FROM pg_locks l
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
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

CREATE FUNCTION sluice_private.session_words(pid integer, facts jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN pid = 0 THEN 'It is a prepared transaction: pg_prepared_xacts lists it.'
    WHEN facts IS NULL THEN format('Server process %s has ended since.', pid)
    ELSE format('It is server process %s (%s)%s.', pid,
      concat_ws(', ', facts ->> 'application', 'user ' || (facts ->> 'user')),
      CASE WHEN facts ? 'hidden'
        THEN format(': role %s may not see what it does (pg_read_all_stats)', sluice_private.quoted(current_user))
        ELSE concat(
          ', ' || (facts ->> 'state') || ' for ' || sluice_private.span_words((facts ->> 'stateSince')::timestamptz),
          ', in a transaction for ' || sluice_private.span_words((facts ->> 'transactionSince')::timestamptz)
        ) END) END
$$;

-- Reasons as their reader sees them: with what the reader may know of the sessions. It runs with the rights of its
-- caller.
CREATE FUNCTION sluice_private.shown_reasons(reasons sluice_private.reason[]) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.reason, concat_ws(' ', r.explanation,
           CASE WHEN r.pid IS NOT NULL THEN sluice_private.session_words(r.pid, f.facts) END),
         coalesce(r.since, (f.facts ->> 'transactionSince')::timestamptz), r.until,
         r.details || coalesce(f.facts, '{}'), r.remedy
  FROM unnest(reasons) WITH ORDINALITY AS r (reason, explanation, since, until, details, remedy, pid, ordinal)
  LEFT JOIN LATERAL (SELECT sluice_private.session_facts(r.pid) AS facts WHERE r.pid > 0) f ON true
  ORDER BY r.ordinal
$$;
