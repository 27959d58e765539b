-- What the doctor finds in the locks of tables, with the words of explain. It reads no table of Sluice.

-- Sessions that have locked a table, or wait to, for half a second at least: a shorter lock delays nothing. A standby shows
-- locks of its primary, which no session of it has.
CREATE FUNCTION sluice_private.doctor_locks(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before integer[] := ARRAY(SELECT t.pid FROM sluice_private.why_table_locked(true) t);
BEGIN
  IF before = '{}' OR pg_is_in_recovery() THEN
    RETURN;
  END IF;
  PERFORM pg_sleep(0.5);
  RETURN QUERY SELECT 'locks.table', 'error', 'table ' || (r.details ->> 'table'), rtrim(r.explanation, '.'), r.remedy
    FROM sluice_private.shown_reasons(NULL) r
    WHERE r.details ? 'table' AND coalesce((r.details ->> 'pid')::integer, 0) = ANY (before);
END
$$;
