-- What the doctor finds in the server: settings, connections, vacuum, and what keeps dead rows from being removed.

-- Settings that harm a queue, as a new session of this role gets them; synchronous_commit of other roles too.
CREATE FUNCTION sluice_private.doctor_settings(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'settings.' || harmful.name, harmful.severity, 'setting ' || harmful.name,
         format('%s is %s: %s', harmful.name, s.reset_val, harmful.harm),
         CASE harmful.name WHEN 'default_transaction_read_only'
           THEN format('SET default_transaction_read_only = off; '
             'ALTER DATABASE %I RESET default_transaction_read_only;', current_database())
           ELSE format('ALTER SYSTEM SET %s = on; SELECT pg_reload_conf();', harmful.name) END
  FROM (VALUES
    ('fsync', 'off', 'error', 'a crash of the machine can destroy the whole database'),
    ('full_page_writes', 'off', 'error', 'a crash of the machine can destroy pages of tables'),
    ('synchronous_commit', 'off', 'warning',
      'a crash of the server takes the last commits, so messages are lost, or handled again'),
    ('autovacuum', 'off', 'error', 'dead rows stay, tables grow, and sweeps become slower and slower'),
    ('track_counts', 'off', 'error', 'autovacuum does not know which tables have dead rows'),
    ('track_activities', 'off', 'unknown', 'nobody can see which session has a transaction open'),
    ('default_transaction_read_only', 'on', 'error', 'nothing can be enqueued or handled')
  ) AS harmful (name, value, severity, harm)
  JOIN pg_settings s ON s.name = harmful.name AND s.reset_val = harmful.value
  WHERE NOT (harmful.name = 'default_transaction_read_only' AND pg_is_in_recovery())
  UNION ALL
  SELECT 'settings.synchronous_commit', 'warning',
         CASE r.setrole WHEN 0 THEN 'database ' || current_database() ELSE 'role ' || r.setrole::regrole END,
         'synchronous_commit is off for it: a crash of the server takes the last commits, so messages are lost, '
         'or handled again',
         CASE WHEN r.setrole = 0 THEN format('ALTER DATABASE %I RESET synchronous_commit;', current_database())
              ELSE format('ALTER ROLE %s%s RESET synchronous_commit;', r.setrole::regrole,
                CASE WHEN r.setdatabase <> 0 THEN format(' IN DATABASE %I', current_database()) ELSE '' END) END
  FROM pg_db_role_setting r LEFT JOIN pg_database d ON d.oid = r.setdatabase
  WHERE r.setconfig @> '{synchronous_commit=off}' AND (r.setdatabase = 0 OR d.datname = current_database())
    -- Otherwise the first half says it.
    AND (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'synchronous_commit') <> 'off'
$$;

-- Connections of clients against the limits of the server, the database and the role, and what live workers may open at
-- full load, as their heartbeats say. The login of a worker is that of the session with its lock. A worker that finds no
-- connection claims nothing.
CREATE FUNCTION sluice_private.doctor_connections(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH client AS MATERIALIZED (
    -- What kind of process it is can be hidden; those that serve no client have no database.
    SELECT a.datname, a.usename, a.application_name FROM pg_stat_activity a
    WHERE a.datname IS NOT NULL AND coalesce(a.backend_type, 'client backend') = 'client backend'
  ), planned AS MATERIALIZED (
    SELECT a.usename, w.connections FROM sluice.worker w
    JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = w.id::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE w.connections IS NOT NULL
  ), allowed AS (
    SELECT 'server' AS subject, NULL::name AS role, current_setting('max_connections')::bigint
             - current_setting('superuser_reserved_connections')::bigint
             - coalesce(current_setting('reserved_connections', true)::bigint, 0) AS most, count(*) AS used,
           count(*) FILTER (WHERE c.application_name LIKE 'sluice%') AS own,
           format('ALTER SYSTEM SET max_connections = %s; -- and restart, or put a pooler in front',
             current_setting('max_connections')::integer * 2) AS remedy
    FROM client c
    UNION ALL
    SELECT 'database ' || d.datname, NULL, d.datconnlimit, count(c.datname),
           count(*) FILTER (WHERE c.application_name LIKE 'sluice%'),
           format('ALTER DATABASE %I CONNECTION LIMIT -1;', d.datname)
    FROM pg_database d LEFT JOIN client c ON c.datname = d.datname
    WHERE d.datname = current_database() AND d.datconnlimit > 0 GROUP BY d.datname, d.datconnlimit
    UNION ALL
    SELECT 'role ' || r.rolname, r.rolname, r.rolconnlimit, count(c.usename),
           count(*) FILTER (WHERE c.application_name LIKE 'sluice%'),
           format('ALTER ROLE %I CONNECTION LIMIT -1;', r.rolname)
    FROM pg_roles r JOIN client c ON c.usename = r.rolname
    WHERE r.rolconnlimit > 0 AND NOT r.rolsuper GROUP BY r.rolname, r.rolconnlimit
  )
  SELECT 'connections.few', CASE WHEN a.used >= a.most THEN 'error' ELSE 'warning' END, a.subject,
         format('%s of %s of the %s %s in use, %s of them by Sluice', a.used, sluice_private.counted(a.most, 'connection'), a.subject,
           CASE a.used WHEN 1 THEN 'is' ELSE 'are' END, a.own),
         a.remedy
  FROM allowed a WHERE a.used >= a.most * 0.8
  UNION ALL
  SELECT 'connections.planned', 'warning', a.subject,
         format('%s may open %s at full load, and the %s allows %s', sluice_private.counted(p.workers, 'live worker'),
           sluice_private.counted(p.connections, 'connection'), a.subject, a.most), a.remedy
  FROM allowed a CROSS JOIN LATERAL (
    SELECT count(*) AS workers, sum(p.connections) AS connections FROM planned p WHERE a.role IS NULL OR p.usename = a.role
  ) p WHERE p.connections > a.most
$$;

-- Tables of Sluice that are not vacuumed, or not often enough: ten thousand dead rows, and ten times as many as
-- autovacuum waits for. The tables of streams and days of history are among them. After a burst autovacuum comes within its
-- naptime, so a table that was vacuumed less than two of them ago is not behind.
CREATE FUNCTION sluice_private.doctor_vacuum(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH own AS (
    SELECT c.oid, r.oid::regclass::text AS name, CASE c.relkind WHEN 't' THEN 'toast.' ELSE '' END AS part, c.reltuples,
           c.reloptions
    FROM pg_class r JOIN pg_class c ON c.oid IN (r.oid, r.reltoastrelid)
    WHERE r.relnamespace = 'sluice'::regnamespace AND r.relkind = 'r'
  ), stated AS (
    SELECT o.name, o.part, s.n_dead_tup AS dead, s.n_live_tup AS live,
           greatest(s.last_autovacuum, s.last_vacuum) AS vacuumed_at, coalesce(t.enabled, true) AS enabled,
           coalesce(t.threshold, current_setting('autovacuum_vacuum_threshold')::double precision)
             + coalesce(t.factor, current_setting('autovacuum_vacuum_scale_factor')::double precision)
               * greatest(o.reltuples, 0) AS due
    FROM own o JOIN pg_stat_all_tables s ON s.relid = o.oid CROSS JOIN LATERAL (
      SELECT (f.options ->> 'autovacuum_enabled')::boolean AS enabled,
             (f.options ->> 'autovacuum_vacuum_threshold')::double precision AS threshold,
             (f.options ->> 'autovacuum_vacuum_scale_factor')::double precision AS factor
      FROM (
        SELECT jsonb_object_agg(p.option_name, p.option_value) AS options FROM pg_options_to_table(o.reloptions) p
      ) f
    ) t
  )
  SELECT 'vacuum.off', 'error', 'table ' || s.name,
         format('%sautovacuum_enabled is off for %s, which has %s: they stay, and sweeps become slower',
           s.part, s.name, sluice_private.counted(s.dead, 'dead row')),
         format('ALTER TABLE %s RESET (%sautovacuum_enabled);', s.name, s.part)
  FROM stated s WHERE NOT s.enabled
  UNION ALL
  SELECT 'vacuum.behind', 'warning', 'table ' || s.name,
         format('%s has %s and %s%s; autovacuum should begin at %s; the last vacuum was %s', s.name,
           sluice_private.counted(s.dead, 'dead row'), sluice_private.counted(s.live, 'live one'),
           CASE s.part WHEN '' THEN '' ELSE ' in the table of its long values' END, ceil(s.due),
           coalesce(sluice_private.duration_words_of(sluice_private.clock() - s.vacuumed_at) || ' ago', 'never')),
         format('VACUUM (VERBOSE) %s; -- if a finding horizon.* is there, end that first', s.name)
  FROM stated s WHERE s.dead >= 10000 AND s.dead >= 10 * s.due
    AND (s.vacuumed_at > sluice_private.clock() - 2 * current_setting('autovacuum_naptime')::interval) IS NOT TRUE
$$;

-- Tables and indexes of Sluice with at least 64 MB, and ten times what their rows need: a guess from the statistics. A row of a
-- table has a header of 28 bytes, one of an index 16, and pages are filled to nine and seven tenths. Long values are apart.
CREATE FUNCTION sluice_private.doctor_bloat(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH own AS (
    SELECT c.oid, c.oid AS table_oid, 'table' AS kind, NULL::smallint[] AS columns,
           CASE WHEN c.reltuples >= 0 THEN greatest(c.reltuples, s.n_live_tup) END AS rows, 28 AS header, 0.9 AS filled
    FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r'
    UNION ALL
    SELECT i.indexrelid, i.indrelid, 'index', i.indkey::smallint[], CASE WHEN r.reltuples >= 0 THEN c.reltuples END, 16, 0.7
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'
    JOIN pg_class r ON r.oid = i.indrelid AND r.relnamespace = 'sluice'::regnamespace
  ), large AS MATERIALIZED (
    SELECT o.*, pg_relation_size(o.oid) AS bytes FROM own o WHERE pg_relation_size(o.oid) >= 64 << 20
  ), estimated AS (
    SELECT l.*, CASE WHEN l.rows = 0 THEN 0 ELSE (
      SELECT l.rows * (l.header + sum((1 - s.null_frac) * s.avg_width)) / l.filled
      FROM pg_attribute a
      JOIN pg_class r ON r.oid = a.attrelid JOIN pg_namespace n ON n.oid = r.relnamespace
      JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = r.relname AND s.attname = a.attname AND NOT s.inherited
      WHERE a.attrelid = l.table_oid AND (l.columns IS NULL OR a.attnum = ANY (l.columns))
    ) END AS needed
    FROM large l
  )
  SELECT 'vacuum.bloat', CASE WHEN e.needed IS NULL THEN 'unknown' ELSE 'warning' END, format('%s %s', e.kind, e.oid::regclass),
         CASE WHEN e.needed IS NULL THEN format('%s has %s, and no statistics say what its rows need', e.oid::regclass,
                pg_size_pretty(e.bytes))
           ELSE format('%s has %s, and its %s rows need about %s, by an estimate: the rest is free, and later rows use it',
             e.oid::regclass, pg_size_pretty(e.bytes), round(e.rows::numeric), pg_size_pretty(e.needed::bigint)) END,
         CASE WHEN e.needed IS NULL THEN format('ANALYZE %s;', e.table_oid::regclass)
           WHEN e.kind = 'index' THEN format('REINDEX INDEX CONCURRENTLY %s;', e.oid::regclass)
           ELSE format('VACUUM (FULL) %s; -- nobody can read or write it meanwhile, so only if you need the disk',
             e.oid::regclass) END
  FROM estimated e WHERE e.needed IS NULL OR e.bytes >= 10 * e.needed
$$;

-- How many dead rows the tables of Sluice have, for what a held horizon costs.
CREATE FUNCTION sluice_private.dead_rows() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN sum(s.n_dead_tup) > 0 THEN
    format('the tables of Sluice have %s, the most in %s', sluice_private.counted(sum(s.n_dead_tup)::bigint, 'dead row'),
      (array_agg(s.relid::regclass::text ORDER BY s.n_dead_tup DESC))[1])
    ELSE 'the tables of Sluice have no dead rows yet' END
  FROM pg_stat_all_tables s WHERE s.schemaname = 'sluice'
$$;

-- Who keeps rows that have been deleted since from being removed. Of sessions and prepared transactions those of this
-- database count; the feedback of a standby counts in all, and its age is known in transactions only. A logical slot
-- keeps rows of catalogs alone.
CREATE FUNCTION sluice_private.doctor_horizon(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH session AS MATERIALIZED (
    SELECT a.pid, a.usename, a.application_name, a.state, a.xact_start
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      AND a.pid <> pg_backend_pid() AND coalesce(a.backend_type, '') <> ALL ('{walsender,autovacuum worker}')
  )
  (SELECT 'horizon.session', 'warning', format('process %s', s.pid),
         format('A session of %s (%s), %s, has had a transaction open for %s: no row that was deleted since can be '
           'removed; %s',
           s.usename, coalesce(nullif(s.application_name, ''), 'without a name'), coalesce(s.state, 'of unknown state'),
           sluice_private.duration_words_of(sluice_private.clock() - s.xact_start), sluice_private.dead_rows()),
         format('SELECT pg_terminate_backend(%s);', s.pid)
  FROM session s WHERE s.xact_start < sluice_private.clock() - open_for ORDER BY s.xact_start)
  UNION ALL
  SELECT 'horizon.hidden', 'unknown', sluice_private.counted(count(*), 'session'),
         format('%s may not see how long %s of other roles %s had a transaction open', current_user,
           sluice_private.counted(count(*), 'session'), CASE count(*) WHEN 1 THEN 'has' ELSE 'have' END),
         format('GRANT pg_read_all_stats TO %I;', current_user)
  FROM session s WHERE s.xact_start IS NULL HAVING count(*) > 0
  UNION ALL
  SELECT 'horizon.prepared', 'warning', 'prepared transaction ' || quote_literal(p.gid),
         format('%s prepared it %s ago, and it is neither committed nor rolled back: no row that was deleted since can '
           'be removed; %s',
           p.owner, sluice_private.duration_words_of(sluice_private.clock() - p.prepared), sluice_private.dead_rows()),
         format('ROLLBACK PREPARED %L; -- or COMMIT PREPARED', p.gid)
  FROM pg_prepared_xacts p
  WHERE p.database = current_database() AND p.prepared < sluice_private.clock() - open_for
  UNION ALL
  SELECT 'horizon.slot', 'warning', 'replication slot ' || r.slot_name,
         format('It is %s, and keeps rows for a standby that were deleted up to %s ago%s; %s',
           CASE WHEN r.active THEN 'in use' ELSE 'not in use' END, sluice_private.counted(age(r.xmin), 'transaction'),
           coalesce(', not in use for ' || sluice_private.duration_words_of(sluice_private.clock()
             - (to_jsonb(r) ->> 'inactive_since')::timestamptz), ''), sluice_private.dead_rows()),
         CASE WHEN r.active THEN 'ALTER SYSTEM SET hot_standby_feedback = off; -- on the standby'
           ELSE format('SELECT pg_drop_replication_slot(%L); -- if its standby does not come back', r.slot_name) END
  FROM pg_replication_slots r
  WHERE r.xmin IS NOT NULL AND (age(r.xmin) >= 10000 OR NOT r.active
    AND coalesce((to_jsonb(r) ->> 'inactive_since')::timestamptz < sluice_private.clock() - open_for, true))
  UNION ALL
  SELECT 'horizon.standby', 'warning', format('standby %s', coalesce(nullif(s.application_name, ''), s.pid::text)),
         format('A query on it keeps rows that were deleted up to %s ago; %s',
           sluice_private.counted(age(s.backend_xmin), 'transaction'),
           sluice_private.dead_rows()),
         'ALTER SYSTEM SET hot_standby_feedback = off; -- on the standby, or end the query there'
  FROM pg_stat_replication s WHERE age(s.backend_xmin) >= 10000
$$;

-- The queue of notifications, which serves the whole server. Sluice stops notifying at a half, and workers find
-- messages by their poll. It fills while a session that listens has a transaction open.
CREATE FUNCTION sluice_private.doctor_notify(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'notify.full', CASE WHEN u.used >= 0.5 THEN 'error' ELSE 'warning' END, 'queue of notifications',
         format('%s %% of it are in use%s', round(u.used::numeric * 100), CASE WHEN u.used >= 0.5
           THEN ': Sluice notifies no more, and workers find messages by their poll; a full one fails every NOTIFY'
           ELSE ': some session listens and has a transaction open' END),
         'SELECT pid, application_name, state, xact_start FROM pg_stat_activity '
         'WHERE state LIKE ''idle in transaction%'' ORDER BY xact_start; -- end it by SELECT pg_terminate_backend(pid);'
  FROM (SELECT pg_notification_queue_usage() AS used) u WHERE u.used >= 0.1
$$;
