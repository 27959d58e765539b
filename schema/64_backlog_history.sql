-- What the queues had to do, and what the groups had to read, some minutes ago: for charts.
-- sluice_private.note_backlogs writes it, and operate.queues.backlogHistory reads it.

-- One row per pass of maintenance, with the queues and groups that had something: {queue: [due, age of the oldest in ms]} as in
-- sluice.backlogs, and {stream:group: [unread, age of the oldest in ms]} as in sluice.groups. Kept for two days: 576 rows.
CREATE TABLE sluice.backlog_sample (
  at     timestamptz NOT NULL DEFAULT clock_timestamp() CONSTRAINT backlog_sample_pkey PRIMARY KEY,
  queues jsonb       NOT NULL,
  groups jsonb       NOT NULL
) WITH (vacuum_truncate = off);

-- Called by each pass of maintenance. Returns false if that was done within the last minute, or is being done, or if there are
-- no queues.
CREATE FUNCTION sluice_private.note_backlogs() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_custom_plan SET jit = off SET enable_sort = off SET enable_bitmapscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  -- What another session has not committed cannot be seen. (746503, 64) and above are for groups.
  IF NOT pg_try_advisory_xact_lock(746503, 1) THEN
    RETURN false;
  END IF;
  DELETE FROM sluice.backlog_sample s WHERE s.at < now_at - interval '2 days' OR s.at > now_at + interval '1 day';
  IF EXISTS (SELECT FROM sluice.backlog_sample s WHERE s.at > now_at - interval '55 seconds') THEN
    RETURN false;
  END IF;
  INSERT INTO sluice.backlog_sample (at, queues, groups)
  SELECT now_at, q.all_of_them, g.all_of_them
  FROM (
    SELECT count(*) AS named, coalesce(jsonb_object_agg(b.queue, jsonb_build_array(
             b.due, round(extract(epoch FROM b.oldest_due_age)::numeric * 1000)
           )) FILTER (WHERE b.due > 0), '{}') AS all_of_them
    FROM sluice.backlogs b
  ) q CROSS JOIN (
    SELECT count(*) AS named, coalesce(jsonb_object_agg(u.queue, jsonb_build_array(
             u.unread, round(extract(epoch FROM u.oldest_unread_age)::numeric * 1000)
           )) FILTER (WHERE u.unread > 0), '{}') AS all_of_them
    FROM sluice.groups u
  ) g
  WHERE q.named + g.named > 0;
  RETURN FOUND;
END
$$;
